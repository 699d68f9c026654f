"""The results of the Self-Contained Negation Test, counted again in a plain way; see `library.recount`."""

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from ...basics.choices import Precision
from ...library.again import NEAR_TIE
from ...library.recount import LOGARITHM, ROUNDING, Recount, holds, same_figures
from ...text.keys import combine, string_keys
from ...text.lexicon import FORMS_SEPARATOR, load_lexicon
from ...text.pattern import AT_MASK, VERB, column
from .score import ALL_SEVERAL
from .select import BY_TOKENS, SEVERAL, SEVERAL_TOKENS, TOKENS

_WORDS = ("name", "profession", "verb")
_PAIR = ("name", "profession")
_SCORE = ("triplet", "pattern")


def selection(
    triplets: pl.DataFrame, summary: Mapping[str, Any], identity: Mapping[str, Any], metadata: Mapping[str, Any]
) -> Iterator[Recount]:
    """What must hold of a finished selection."""
    most, n = identity["max verbs"], len(triplets)
    yield holds(
        "triplets are numbered from 0",
        triplets.with_row_index("row"),
        pl.col("triplet") == pl.col("row"),
        ["triplet"],
    )
    yield holds("each triplet is there once", triplets, ~pl.struct(_WORDS).is_duplicated(), _WORDS)
    pairs = triplets.group_by(_PAIR, maintain_order=True).agg(pl.len().alias("verbs"))
    yield holds(f"at most {most} verbs are kept of a pair", pairs, pl.col("verbs") <= most, _PAIR)
    if identity["lexicon sha256"] == load_lexicon().sha256:  # triplets have its words as the keys have them
        yield holds(
            "verbs of a pair are in the order of their keys",
            triplets.with_columns(pl.Series("key", _verb_keys(triplets, identity["seed"]))),
            pl.col("key") > pl.col("key").shift(1).over(_PAIR),
            _WORDS,
        )
    yield _summary(summary, metadata, n, len(pairs), bool((pairs["verbs"] >= most).any()))


def several(
    triplets: pl.DataFrame, summary: Mapping[str, Any], identity: Mapping[str, Any], metadata: Mapping[str, Any]
) -> Iterator[Recount]:
    """What must hold of the triplets of verbs of several tokens; the statements are those of `selection`."""
    verbs = metadata[SEVERAL]
    own = {**summary, **summary[SEVERAL_TOKENS]}
    for found in selection(triplets, own, identity, {**metadata, "verbs": sum(verbs.values())}):
        yield replace(found, what=f"{SEVERAL}: {found.what}")
    yield holds(
        f"{SEVERAL}: each has a number of tokens that the selection knows",
        triplets,
        (pl.col(TOKENS) > 1) & pl.col(TOKENS).cast(pl.String).is_in(list(verbs)),
        _WORDS,
    )
    yield _by_tokens(summary, metadata)


def _by_tokens(summary: Mapping[str, Any], metadata: Mapping[str, Any]) -> Recount:
    """The rows by number of tokens against each other, and against the figures of all verbs of several tokens."""
    rows, apart = summary[BY_TOKENS], summary[SEVERAL_TOKENS]
    more = [row for row in rows if row["tokens"] > 1]
    tested, found = (sum(row[name] for row in more) for name in ("tested", "repeating"))
    statements = {
        f"tested by number of tokens: {tested:,}, in all {apart['tested']:,}": tested == apart["tested"],
        f"verbs of one token: {rows[0]['verbs']:,}": rows[0]["verbs"] == summary["verbs"],
        f"repeating by number of tokens: {found:,}, in all {apart['repeating']:,}": (
            metadata["lazy"] or found == apart["repeating"]
        ),
        f"{apart['queries']:,} queries of {apart['tested']:,} candidates": (
            apart["tested"] + found <= apart["queries"] <= sum(row["tokens"] * row["tested"] for row in more)
        ),
        "a ratio is not that of its row": all(
            abs(row["ratio"] - 100 * row["repeating"] / max(row["tested"], 1)) <= ROUNDING for row in rows
        ),
    }
    wrong = next((said for said, holds_true in statements.items() if not holds_true), "")
    return Recount("figures by number of tokens agree with each other", len(statements), wrong)


def token_rates(items: pl.DataFrame, rates: pl.DataFrame, patterns: Sequence[str]) -> Recount:
    """The rates by number of tokens, counted again."""
    numbers = items[TOKENS].unique().sort().to_list()
    counted = [
        _counted(items.filter(pl.col(TOKENS) == number), patterns).with_columns(pl.lit(str(number)).alias(TOKENS))
        for number in numbers
    ]
    wanted = [_counted(items, patterns).with_columns(pl.lit(ALL_SEVERAL).alias(TOKENS)), *counted]
    return same_figures(
        "rates by number of tokens are those of the scores", rates, pl.concat(wanted), [TOKENS, "pattern"]
    )


def _verb_keys(triplets: pl.DataFrame, seed: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """The key by which each triplet is kept, uint64 [n]; from its words alone."""
    parts = []
    for name in _WORDS:
        words = triplets[name].unique(maintain_order=True)
        keys = pl.Series(string_keys(words.to_list(), f"verbs, seed {seed}"))
        parts.append(keys.gather(triplets[name].replace_strict(words, np.arange(len(words)))).to_numpy())
    return combine(*parts) if len(triplets) else np.empty(0, np.uint64)


def _summary(summary: Mapping[str, Any], metadata: Mapping[str, Any], n: int, pairs: int, is_cut: bool) -> Recount:
    """The counts of selection.json against the triplets and against each other."""
    what = "selection.json agrees with the triplets and with itself"
    candidates = metadata["pairs"] * metadata["verbs"]
    tested, repeating, ratio = summary["tested"], summary["repeating"], summary["ratio"]
    statements = {
        f"selected is {summary['selected']:,}, triplets.parquet has {n:,}": summary["selected"] == n,
        f"triplets of {pairs:,} pairs, but there are {metadata['pairs']:,}": pairs <= metadata["pairs"],
        f"{tested:,} of {candidates:,} candidates tested": (
            n <= tested <= candidates if metadata["lazy"] else tested == candidates
        ),
        f"{repeating:,} of {tested:,} candidates repeat, {n:,} are selected": (
            0 <= repeating <= candidates if metadata["lazy"] else (repeating >= n if is_cut else repeating == n)
        ),
        f"ratio is {ratio}, of {repeating:,} among {candidates:,}": (
            abs(ratio - 100 * repeating / candidates) <= 100 * 0.5 / candidates + ROUNDING
        ),
        f"{summary['near_ties']:,} near-ties of {tested:,}": summary["near_ties"] <= tested,
    }
    wrong = next((said for said, holds_true in statements.items() if not holds_true), "")
    return Recount(what, len(statements), wrong)


def scores(
    items: pl.DataFrame,
    triplets: pl.DataFrame,
    rates: pl.DataFrame,
    patterns: Sequence[str],
) -> Iterator[Recount]:
    """What must hold of a finished scoring; the selecting pattern is the first."""
    wanted = triplets.select("triplet").join(pl.DataFrame({"pattern": patterns}), how="cross")
    both = wanted.join(items.group_by(_SCORE).agg(pl.len().alias("rows")), on=_SCORE, how="full", coalesce=True)
    known = both.join(wanted.with_columns(known=True), on=_SCORE, how="left")
    yield holds(
        "each triplet is scored once in each pattern",
        known,
        ((pl.col("rows") == 1) & pl.col("known")).fill_null(value=False),
        _SCORE,
    )
    forms = pl.col(AT_MASK if AT_MASK in triplets.columns else column(VERB)).alias("forms")
    verbs = items.join(triplets.select("triplet", "verb", forms), on="triplet", how="left", maintain_order="left")
    # The rank is that of the main form: where another accepted form is the first choice, it is not 1.
    may_be_another = pl.col("forms").str.contains(FORMS_SEPARATOR, literal=True)
    yield holds(
        "the verb is repeated where its rank is 1, and nowhere else",
        verbs,
        (pl.col("expected_rank") >= 1)
        & pl.when("repeated")
        .then((pl.col("expected_rank") == 1) | may_be_another)
        # The verb of rank 1 that is not the top-1 has the same logit as the top-1.
        .otherwise((pl.col("expected_rank") > 1) | (_behind().abs() <= LOGARITHM)),
        _SCORE,
    )
    texts = verbs.filter("repeated").select("verb", "forms", "top1").unique(maintain_order=True)
    unlike = texts.filter(
        pl.Series(
            [_plain(top1) not in map(_plain, own.split(FORMS_SEPARATOR)) for _, own, top1 in texts.iter_rows()],
            dtype=pl.Boolean,
        )
    )
    yield holds(
        "the first choice is the verb where the verb is repeated",
        verbs.join(unlike.drop("forms").with_columns(unlike=True), on=["verb", "top1"], how="left"),
        ~(pl.col("repeated") & pl.col("unlike").fill_null(value=False)),
        _SCORE,
    )
    yield holds(
        "log-probabilities are at most 0, and the verb's at most that of the first choice",
        items,
        (pl.col("top1_logprob") <= LOGARITHM) & (_behind() <= LOGARITHM),
        _SCORE,
    )
    yield holds(
        "in the selecting pattern every verb is repeated, near-ties excepted",
        items.filter((pl.col("pattern") == patterns[0]) & (pl.col("precision") == str(Precision.FP32))),
        pl.col("repeated") | (_behind() > -10 * NEAR_TIE),
        _SCORE,
    )
    yield same_figures("repetitions and rates are those of the scores", rates, _counted(items, patterns), ["pattern"])


def _behind() -> pl.Expr:
    """The verb's log-probability minus that of the first choice."""
    return pl.col("expected_logprob") - pl.col("top1_logprob")


def _counted(items: pl.DataFrame, patterns: Sequence[str]) -> pl.DataFrame:
    counted = items.group_by("pattern").agg(
        n=pl.len().cast(pl.Int64),
        repetitions=pl.col("repeated").sum().cast(pl.Int64),
        repetition_rate=100 * pl.col("repeated").mean(),
        drop=100 - 100 * pl.col("repeated").mean(),
    )
    return (
        pl.DataFrame({"pattern": patterns})
        .join(counted, on="pattern", how="left", maintain_order="left")
        .with_columns(pl.col("n", "repetitions").fill_null(0))
    )


def _plain(text: str) -> str:
    """A word as every tokenizer keeps it: without case and accents."""
    letters = unicodedata.normalize("NFKD", text.casefold())
    return "".join(letter for letter in letters if not unicodedata.combining(letter))
