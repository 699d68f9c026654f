"""From logits to the items of LAMA: the columns of items.parquet, as LAMA's `lama/evaluation_metrics.py` has them.

All metrics are over the ranked tokens (all tokens, or those of a word list):

    spearman      rank correlation between the scores of the query and of its negation
    overlap@1     whether the same token is first in both
    precision@k   whether the gold answer is among the first k (affirmative and misprimed queries)

Log-probabilities are over the whole vocabulary.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...inference.free_text import log_softmax
from ...inference.top import top_tokens
from ...text.tokenizer import MaskTokenizer
from ..items import ALL, ITEM_SCHEMA, joined
from ..published import trex_group
from .facts import Fact

CUTS = (1, 5, 10)
METRICS = ("spearman", "overlap@1", *(f"precision@{k}" for k in CUTS))
TOP = 3  # tokens of each query that are kept, as in the paper's Table 2
QUERY, NEGATED = "", "negated_"  # what the columns of a query and of its negation begin with

Logits = NDArray[np.float32]
Ids = NDArray[np.int32]


def _query_schema(prefix: str) -> dict[str, Any]:
    tops = {f"{prefix}top{i}{what}": kind for i in range(1, TOP + 1) for what, kind in _TOP_COLUMNS.items()}
    return {f"{prefix}query": pl.String, **tops}


_TOP_COLUMNS = {"": pl.String, "_logprob": pl.Float32}
SCHEMA: Mapping[str, Any] = {
    **ITEM_SCHEMA,
    "spearman": pl.Float64,
    "overlap@1": pl.Boolean,
    **{f"precision@{k}": pl.Boolean for k in CUTS},
    "gold": pl.String,
    "rank": pl.Int32,
    "gold_logprob": pl.Float32,
    **_query_schema(QUERY),
    **_query_schema(NEGATED),
}


@dataclass(frozen=True, eq=False)
class Answers:
    """What a model answers to n facts, asked by one query each, or by a query and its negation.

    Attributes:
        rank: int32 [n], of the gold answer among the ranked tokens; from 1.
        gold_logprob: float32 [n], its log-probability.
        correlation: float64 [n], Spearman's; NaN where it is not defined or there is no negation.
        top: int32 [sides, n, k], the first k ranked tokens of the query, then of its negation.
        top_logprob: float32 [sides, n, k].
    """

    rank: Ids
    gold_logprob: Logits
    correlation: NDArray[np.float64]
    top: Ids
    top_logprob: Logits

    @classmethod
    def empty(cls, sides: int, n: int, top: int) -> "Answers":
        """Room for n answers, their values undefined; correlations are NaN."""
        return cls(
            np.empty(n, np.int32),
            np.empty(n, np.float32),
            np.full(n, np.nan),
            np.empty((sides, n, top), np.int32),
            np.empty((sides, n, top), np.float32),
        )

    def put(self, rows: NDArray[np.int64], logits: Sequence[Logits], gold: Ids, ranked: Ids) -> None:
        """Judge a batch.

        Args:
            rows: int64 [rows], which facts it has.
            logits: For the query, then for its negation, float32 [rows, V].
            gold: int32 [rows], the gold answers' tokens.
            ranked: int32 [m], the ranked tokens.
        """
        are_all = len(ranked) == logits[0].shape[1]
        kept, where = [own if are_all else own[:, ranked] for own in logits], np.arange(len(rows))
        for side, (own, scores) in enumerate(zip(logits, kept, strict=True)):
            logprob = log_softmax(own)
            self.top[side, rows] = ranked[top_tokens(scores, self.top.shape[2])]
            self.top_logprob[side, rows] = np.take_along_axis(logprob, self.top[side, rows], axis=1)
            if side == 0:
                self.rank[rows] = 1 + (scores > own[where, gold][:, None]).sum(axis=1)
                self.gold_logprob[rows] = logprob[where, gold]
        if len(kept) == 2:
            self.correlation[rows] = spearman(*kept)


def item_rows(
    facts: Sequence[Fact],
    conditions: Sequence[str],
    queries: Sequence[Sequence[str]],
    answers: Answers,
    tokenizer: MaskTokenizer,
) -> pl.DataFrame:
    """The rows of items.parquet for some facts, each in one condition.

    Args:
        facts: n facts.
        conditions: n conditions, such as `original`.
        queries: n queries; then, if there are any, n negations.
        answers: What the model answers.
        tokenizer: The model's tokenizer.
    """
    columns: dict[str, Any] = {
        "dataset": [fact.corpus for fact in facts],
        "condition": list(conditions),
        "item": [fact.item for fact in facts],
        "splits": [joined([ALL, fact.relation, *trex_group(fact.corpus, fact.relation)]) for fact in facts],
        "cluster": [fact.relation for fact in facts],
        **{f"precision@{k}": answers.rank <= k for k in CUTS},
        "gold": [fact.gold for fact in facts],
        "rank": answers.rank,
        "gold_logprob": answers.gold_logprob,
    }
    for side, (prefix, texts) in enumerate(zip((QUERY, NEGATED), queries, strict=False)):
        columns[f"{prefix}query"] = list(texts)
        for i, (ids, logprobs) in enumerate(zip(answers.top[side].T, answers.top_logprob[side].T, strict=True), 1):
            columns[f"{prefix}top{i}"] = [tokenizer.token_text(token) for token in ids.tolist()]
            columns[f"{prefix}top{i}_logprob"] = logprobs
    if len(queries) == 2:
        # A fact without a correlation has no overlap either, as in LAMA.
        defined = ~np.isnan(answers.correlation)
        columns["spearman"] = pl.Series(answers.correlation).fill_nan(None)
        columns["overlap@1"] = pl.Series(answers.top[0, :, 0] == answers.top[1, :, 0]).set(~pl.Series(defined), None)
    return pl.DataFrame(columns, schema_overrides={name: SCHEMA[name] for name in columns})


def spearman(first: Logits, second: Logits) -> NDArray[np.float64]:
    """Spearman's rank correlation of each row with its counterpart, ties at their mean rank.

    `scipy.stats.spearmanr` correlates all columns with each other; by rows it would have to be called row by row.

    Args:
        first: float32 [n, m].
        second: float32 [n, m].

    Returns:
        float64 [n]; NaN where all values of a row are equal.
    """
    middle = (first.shape[1] + 1) / 2
    correlation = np.empty(len(first))
    for row, (scores, others) in enumerate(zip(first, second, strict=True)):
        one, other = mean_ranks(scores) - middle, mean_ranks(others) - middle
        # Not `@`, whose own threads would take the cores of other batches. Ranks are halves, so the sums are exact.
        together, spread, other_spread = (
            np.einsum("i,i->", *pair) for pair in ((one, other), (one, one), (other, other))
        )
        both = math.sqrt(spread * other_spread)
        correlation[row] = together / both if both else math.nan
    return correlation


def mean_ranks(scores: Logits) -> NDArray[np.float64]:
    """The rank of each value from the lowest one, 1, up; equal values have the mean of their ranks, float64 [m].

    The same numbers as `scipy.stats.rankdata`, in a quarter of the time: only few values are equal.
    """
    order = ascending(scores)
    ranks = np.empty(len(scores))
    ranks[order] = np.arange(1, len(scores) + 1)
    values = scores[order]
    like_next = np.flatnonzero(values[:-1] == values[1:])
    if len(like_next):
        begins = np.flatnonzero(np.diff(like_next, prepend=-2) != 1)
        first = like_next[begins]
        last = like_next[np.append(begins[1:], len(like_next)) - 1] + 1
        sizes = last - first + 1
        equal = np.repeat(first, sizes) + np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        ranks[order[equal]] = np.repeat((first + last) / 2 + 1, sizes)
    return ranks


def ascending(scores: Logits) -> NDArray[np.int64]:
    """The positions of values from the lowest to the highest one, int64 [m]; of equal ones the first position first.

    The bits of floating-point numbers of one sign have the order of the numbers. NumPy sorts whole numbers of 16 bits
    by counting, so two such sorts take less than half of the time of `argsort` on processors where that has no fast
    kernel: 0.5 ms for 30,522 values on an AMD EPYC, instead of 1.2 ms.
    """
    bits = (scores + np.float32(0)).view(np.uint32)  # -0 is 0
    negative = (bits.view(np.int32) >> 31).view(np.uint32)
    keys = bits ^ (negative | np.uint32(1 << 31))
    by_last_bits = np.argsort(keys.astype(np.uint16), kind="stable")
    first_bits = (keys >> np.uint32(16)).astype(np.uint16)[by_last_bits]
    order: NDArray[np.int64] = by_last_bits[np.argsort(first_bits, kind="stable")]
    return order
