"""From the items of `likelihood` to summary.parquet; their sentences, and what `verify` counts and computes again.

perplexity is exp(-sum of log_likelihood / sum of tokens), of all sentences of the split; for a masked model the
pseudo-perplexity of Salazar et al. (2020), section 2. `verify` computes log-likelihoods again one token at a time.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ...basics.frames import scan_frame
from ...inference.spans import Method, behind
from ...library.again import ROUNDING as SAME_LOGPROB
from ...library.again import Compared, Reference, Verdict
from ...library.recount import LOGARITHM, Recount, holds
from ...requests.summary import Row, frame
from ..own_table import FILE, OWN_CLUSTER, ROW, mean_rows
from .likelihood_items import BAD, CORRECT, GOOD, LIKELIHOOD, ROUNDING, SIDE, TIE, WORDS_FILE, Columns

PERPLEXITY = "perplexity"
OWN = ("own text before", "own text")
_SUMS = 1e-4  # natural logarithms: a sum of single digits in fp32, added in another order
FEWER = 10  # of so many items that are asked for, one sentence is drawn: each of its tokens is a run of the model


def summarise(items: pl.LazyFrame, columns: Columns, dataset: str) -> pl.DataFrame:
    """The summary of a run's items; numbers and names of groups alone are held in memory."""
    wanted = columns.metrics
    needed = dict.fromkeys([*wanted.values(), *columns.groups, *([] if columns.has_pairs else ["tokens"])])
    held = items.filter(columns.counts).select(*needed, columns.clusters.alias(OWN_CLUSTER)).collect(engine="streaming")
    rows: list[Row] = []
    for split, own in columns.splits(held):
        key = (dataset, columns.condition, split)
        rows += mean_rows(own, key, wanted)
        if not columns.has_pairs and not own.is_empty():
            perplexity = float(np.exp(-float(own[LIKELIHOOD].sum()) / float(own["tokens"].sum())))
            rows.append(Row(*key, PERPLEXITY, perplexity, None, None, len(own)))
    return frame(rows)


def item_name(names: list[str]) -> pl.Expr:
    """How an item is called: the number of its row, with its file where there are several."""
    row = pl.col(ROW).cast(pl.String)
    return pl.col(FILE) + pl.lit(":") + row if FILE in names else row


def sentence_rows(items: pl.LazyFrame, columns: Columns) -> pl.LazyFrame:
    """One row for each sentence; the good one of a pair fails if it is not the more probable one."""
    names = items.collect_schema().names()
    correct = pl.col(CORRECT) if columns.has_pairs else pl.lit(None, pl.Boolean)
    sentence = pl.col(columns.texts[0])
    if columns.good is not None:
        sentence = pl.when(pl.col(SIDE) == GOOD).then(sentence).otherwise(pl.col(columns.texts[1]))
    sentence = sentence.cast(pl.String).str.strip_chars()
    if columns.prefix is not None:
        before = pl.col(columns.prefix).cast(pl.String).str.strip_chars()
        sentence = pl.struct(before.alias("before"), sentence.alias("text")).map_batches(
            lambda rows: pl.Series(
                [behind(one, other, columns.joiner)[0] for one, other in rows.struct.unnest().iter_rows()],
                dtype=pl.String,
            ),
            pl.String,
        )
    kept = dict.fromkeys([*columns.groups, *filter(None, [columns.cluster, columns.prefix])])
    told = dict(
        item=item_name(names),
        condition=pl.col(SIDE) if columns.has_pairs else pl.lit(columns.condition),
        sentence=sentence,
        expected=pl.lit(None, pl.String),
        answer=pl.lit(None, pl.String),
        **{CORRECT: correct},
        failed=~correct,
        rank=pl.lit(None, pl.Int32),
        logprob=LIKELIHOOD,
        **{name: name for name in ("tokens", "per_token", "per_word", "per_character")},
    )
    return items.select(**told, **{name: name for name in kept if name not in told})


def recounts(folder: Path, items: pl.DataFrame, columns: Columns, details: Sequence[str]) -> Iterator[Recount]:
    """What must hold of the items of a finished run; the sums of the files `details` are those of the items."""
    key = [name for name in (FILE, ROW, SIDE) if name in items.columns]
    yield holds("each sentence is there once", items, ~pl.struct(key).is_duplicated(), key)
    yield holds("log-likelihoods are at most 0", items, pl.col(LIKELIHOOD) <= LOGARITHM * pl.col("tokens"), key)
    for of in ("token", "character"):
        means = (pl.col(f"per_{of}") * pl.col(f"{of}s") - pl.col(LIKELIHOOD)).abs() <= ROUNDING
        yield holds(f"per_{of} is the log-likelihood divided by {of}s", items, (pl.col(f"{of}s") == 0) | means, key)
    for name in details:
        if (folder / name).exists():
            own = scan_frame(folder / name).group_by(key).agg(pl.col("logprob").cast(pl.Float64).sum())
            both = items.select(*key, LIKELIHOOD, "per_word", "words").join(
                own.collect(engine="streaming"), on=key, how="full", coalesce=True
            )
            total, what = pl.col(LIKELIHOOD), LIKELIHOOD
            if name == WORDS_FILE:  # without BOS a first word has no log-probability
                total, what = pl.col("per_word").fill_null(0) * pl.col("words"), "per_word times words"
            same = (total - pl.col("logprob")).abs() <= _SUMS
            yield holds(f"the log-probabilities of {name} sum to {what}", both, same.fill_null(value=False), key)
    if columns.has_pairs:
        keys = [name for name in (FILE, columns.pair or ROW) if name in items.columns]
        good, bad = (items.filter(pl.col(SIDE) == side) for side in (GOOD, BAD))
        both = good.join(bad.select(*keys, other=LIKELIHOOD), on=keys, how="inner")
        larger = pl.col(LIKELIHOOD) - pl.col("other")
        right = (pl.col(CORRECT) == (larger > ROUNDING)) & (pl.col(TIE) == (larger.abs() <= ROUNDING))
        yield holds("a pair is correct where its good sentence is the more probable one", both, right, [ROW])


@dataclass(frozen=True, eq=False)
class Scored:
    """A sentence and its recorded log-likelihood."""

    row: Mapping[str, Any]  # of `sentence_rows`, with the user's own texts as `OWN`
    joiner: str | None
    method: Method | None  # None for a causal model
    longest: int  # tokens
    bos: bool

    def again(self, reference: Reference) -> Compared:
        before, text = (self.row[name] for name in OWN)
        by_word = self.method is Method.WITHIN_WORD
        every = reference.span(before, text, self.joiner, by_word=by_word, longest=self.longest, bos=self.bos)
        name, recorded, now = f"{self.row['item']} ({self.row['condition']})", self.row["logprob"], float(every.sum())
        if len(every) != self.row["tokens"]:
            return Compared(name, Verdict.WRONG, f"{self.row['tokens']} tokens were scored, but now {len(every)}")
        if abs(now - recorded) <= SAME_LOGPROB * max(1.0, sqrt(len(every))):
            return Compared(name, Verdict.AGREES)
        return Compared(name, Verdict.WRONG, f"log-likelihood {recorded:.4f}, but now {now:.4f}")


def own_texts(items: pl.LazyFrame, columns: Columns) -> pl.LazyFrame:
    """The texts of each sentence as the user has written them, in the order of `sentence_rows`."""
    text = pl.col(columns.texts[0])
    if columns.good is not None:
        text = pl.when(pl.col(SIDE) == GOOD).then(text).otherwise(pl.col(columns.texts[1]))
    before = pl.lit(None) if columns.prefix is None else pl.col(columns.prefix)
    return items.select(own.cast(pl.String).alias(name) for own, name in zip((before, text), OWN, strict=True))
