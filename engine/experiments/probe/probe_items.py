"""Items of `probe`: the columns of items.parquet, and the rows of summary.parquet.

Condition: a column of targets, or `T vs U`; split: all, `GROUP=VALUE`, or two of these. Rows are minimal pairs if they
share an item: then groups are compared by it, several rows of one item and group by their mean, and have a test.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import inf
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...inference.free_text import MASK
from ...inference.judge import judge
from ...inference.words import WordScores
from ...library.sentences import CORRECT
from ...requests.items import top_schema
from ...requests.summary import DIFFERENCE, VERSUS, Row, difference_rows, estimated, frame, paired, with_holm
from ...statistics.differences import unpaired_difference
from ...text.spelling import repeats
from ...text.token_ids import NOTHING
from ...text.tokenizer import MaskTokenizer
from ..labels import MOST_GROUPS
from ..own_table import OWN_CLUSTER, ROW, mean_rows
from .probe_sentences import IS_TOP1, LOGPROB, REPEATS, TARGET_COLUMN, Columns, Encoded, Ids, Rows64

EXPECTED, TARGET_TOKENS, RANK = "expected", "target_tokens", "rank"
Logits = NDArray[np.float32]
DATASET = "stimuli"
PREFERRED = "preferred"
TESTED = (IS_TOP1, LOGPROB)
_ITEM, _SECOND = "item of a row", "second"


def result_schema(top: int, *, judged: bool = True) -> dict[str, pl.DataType]:
    """The columns that a run adds behind those of the table; `ROW` stands before them."""
    return {
        TARGET_COLUMN: pl.String(),
        EXPECTED: pl.String(),
        TARGET_TOKENS: pl.Int32(),
        LOGPROB: pl.Float32(),
        RANK: pl.Int32(),
        IS_TOP1: pl.Boolean(),
        **({CORRECT: pl.Boolean()} if judged else {}),
        **top_schema(top),
        REPEATS: pl.Boolean(),
    }


@dataclass(frozen=True, eq=False)
class Answers:
    """What a model answers about n items."""

    logprob: Logits  # [n], of each target: natural logarithms
    rank: Ids  # [n], of each target, from 1; of several tokens, the largest one
    is_top1: NDArray[np.bool_]  # [n], whether the target is the first choice
    top: Ids  # [n, k], the first choices at the mask; `NOTHING` where they are not known
    top_logprob: Logits  # [n, k], NaN where they are not known
    # item whose target has several tokens → the first choices at their positions
    choices: dict[int, list[int]] = field(default_factory=dict)

    @classmethod
    def empty(cls, n: int, top: int) -> "Answers":
        return cls(
            np.full(n, np.nan, np.float32),
            np.zeros(n, np.int32),
            np.zeros(n, np.bool_),
            np.full((n, top), NOTHING, np.int32),
            np.full((n, top), np.nan, np.float32),
        )

    def judge(self, items: Rows64, place: Rows64, expected: Ids, logits: Logits, ranked: Ids | None) -> None:
        """Judge items with targets of one token from the logits float32 [b, V] of their sentences.

        `place` is the position of each item's sentence among the logits; `ranked` are the ranked tokens, None for all.
        """
        found = judge(logits, self.top.shape[1], place, expected, ranked, among_ranked=True)
        self.logprob[items], self.rank[items] = found.logprob, found.rank
        self.top[items], self.top_logprob[items] = found.top[place], found.top_logprob[place]
        self.is_top1[items] = self.top[items, 0] == expected

    def put_words(self, items: Rows64, scores: WordScores) -> None:
        self.logprob[items] = scores.logprob
        self.rank[items] = scores.worst_rank
        self.is_top1[items] = scores.top1
        self.top_logprob[items, 0] = scores.choice_logprob
        for item, tokens, n in zip(items.tolist(), scores.choices.tolist(), scores.words.counts.tolist(), strict=True):
            self.choices[item] = tokens[:n]


def item_rows(asked: Encoded, columns: Columns, answers: Answers, tokenizer: MaskTokenizer) -> pl.DataFrame:
    """The rows of items.parquet: each row of the table, once for each of its targets."""
    rows, targets = asked.rows, len(columns.targets)
    each = np.repeat(np.arange(len(rows.frame)), targets)
    words = [rows.frame[column].str.strip_chars().to_list() for column in columns.targets]
    expected = [word for own in zip(*words, strict=True) for word in own]
    tops: list[Any] = []
    for i in range(answers.top.shape[1]):
        tokens, which = np.unique(answers.top[:, i], return_inverse=True)
        named = [None if token == NOTHING else tokenizer.token_text(token) for token in tokens.tolist()]
        texts = [named[own] for own in which.tolist()]
        if i == 0:
            for item, choices in answers.choices.items():
                texts[item] = tokenizer.word_text(choices)
        tops += [texts, pl.Series(answers.top_logprob[:, i]).fill_nan(None)]
    parts = [text.split(MASK) for text in asked.texts]  # the mask stands for no word
    found = [repeats(word, parts[own]) for word, own in zip(expected, asked.sentence.tolist(), strict=True)]
    values = [
        list(columns.targets) * len(rows.frame),
        expected,
        asked.words.counts.astype(np.int32),
        answers.logprob,
        answers.rank,
        answers.is_top1,
        *([] if columns.is_wanted is None else [answers.is_top1]),
        *tops,
        found,
    ]
    schema = result_schema(answers.top.shape[1], judged=columns.is_wanted is not None)
    items = pl.DataFrame({ROW: rows.numbers[each]}).with_columns(
        *rows.frame[each],
        *(pl.Series(name, own, dtype) for (name, dtype), own in zip(schema.items(), values, strict=True)),
    )
    if (is_wanted := columns.is_wanted) is None:
        return items
    return items.with_columns((pl.col(IS_TOP1) == is_wanted).alias(CORRECT))


def summarise(items: pl.DataFrame, columns: Columns) -> pl.DataFrame:
    """The summary of a run's items; they have the columns of `Columns.used`."""
    item = pl.col(columns.item).cast(pl.String) if columns.item else pl.lit(None, pl.String)
    items = items.with_columns(**{OWN_CLUSTER: columns.clusters, _ITEM: item})
    by_target = {column: items.filter(pl.col(TARGET_COLUMN) == column) for column in columns.targets}
    rows, means = list[Row](), columns.metrics
    for target, own in by_target.items():
        for split, part in columns.splits(own):
            rows += mean_rows(part, (DATASET, target, split), dict(zip(means, means, strict=True)))
        for groups in columns.by_group(own):
            rows += _group_differences(groups, target, has_items=columns.item is not None)
    for one, other in combinations(by_target, 2):
        rows += _target_differences(by_target[one], by_target[other], columns, f"{one}{VERSUS}{other}")
    return with_holm(frame(rows))


def _target_differences(first: pl.DataFrame, second: pl.DataFrame, columns: Columns, target: str) -> Iterator[Row]:
    other = second.select(ROW, *(pl.col(name).alias(f"{name} {_SECOND}") for name in TESTED))
    both = first.join(other, on=ROW, maintain_order="left").with_columns(
        (pl.col(LOGPROB) > pl.col(f"{LOGPROB} {_SECOND}")).alias(PREFERRED)
    )
    for name, own in columns.splits(both):
        if own.is_empty():
            continue
        yield Row(DATASET, target, name, PREFERRED, *estimated(own[PREFERRED], own[OWN_CLUSTER]))
        for metric in TESTED:
            found = paired(own[metric], own[f"{metric} {_SECOND}"], own[OWN_CLUSTER])
            yield from difference_rows((DATASET, target, name), f"{DIFFERENCE}:{metric}", metric, found)


def _group_differences(groups: Sequence[tuple[str, pl.DataFrame]], target: str, *, has_items: bool) -> Iterator[Row]:
    if len(groups) > MOST_GROUPS:
        return
    for (one, first), (other, second) in combinations(groups, 2):
        key = (DATASET, target, f"{one}{VERSUS}{other}")
        for metric in TESTED:
            if has_items and not (pairs := _pairs(first, second, metric)).is_empty():
                range_ = (-1.0, 1.0) if metric == IS_TOP1 else (-inf, inf)
                found = paired(pairs[metric], pairs[_SECOND], pairs[OWN_CLUSTER], range_=range_)
                yield from difference_rows(key, f"{DIFFERENCE}:{metric}", metric, found)
                continue
            clusters, numbers = pl.concat([first[OWN_CLUSTER], second[OWN_CLUSTER]]), None
            if not clusters.null_count() and clusters.n_unique() < len(clusters):
                dense = clusters.rank("dense").to_numpy().astype(np.int64) - 1
                numbers = dense[: len(first)], dense[len(first) :]
            kind = np.bool_ if first[metric].dtype == pl.Boolean else np.float64
            sides: list[NDArray[Any]] = [own[metric].to_numpy().astype(kind) for own in (first, second)]
            apart = unpaired_difference(sides[0], sides[1], numbers)
            count = None if numbers is None else apart.clusters
            yield Row(*key, f"{DIFFERENCE}:{metric}", apart.value, apart.low, apart.high, apart.n, count)


def _pairs(first: pl.DataFrame, second: pl.DataFrame, metric: str) -> pl.DataFrame:
    def by_item(group: pl.DataFrame) -> pl.DataFrame:
        known = group.filter(pl.col(_ITEM).is_not_null())
        if not known[_ITEM].is_duplicated().any():
            return known.select(_ITEM, OWN_CLUSTER, metric)
        outcome = pl.col(metric).cast(pl.Float64).mean()
        return known.group_by(_ITEM, maintain_order=True).agg(pl.col(OWN_CLUSTER).first(), outcome)

    one, other = by_item(first), by_item(second).select(_ITEM, pl.col(metric).alias(_SECOND))
    if one[metric].dtype != other[_SECOND].dtype:
        one, other = one.cast({metric: pl.Float64}), other.cast({_SECOND: pl.Float64})
    return one.join(other, on=_ITEM, maintain_order="left")
