"""`negengine lama`: does a model tell a query from its negation? Tables 1 and 2 of Kassner and Schütze.

Every fact is asked affirmatively, negated, and after misleading words. Metrics, as in LAMA's
`lama/evaluation_metrics.py`, over the kept vocabulary (all tokens, or those of a word list):

    spearman      rank correlation between the scores of the affirmative and of the negated query, over all kept tokens
    overlap@1     whether both have the same kept token first
    precision@k   whether the gold answer is among the first k kept tokens (affirmative and misprimed queries)

As there, a fact whose gold answer is not one token of the model, or not kept, does not count. Log-probabilities are
over the whole vocabulary. P159 is left out: its negation is the affirmative sentence itself, so overlap and correlation
are 1 for any model.

Rows of summary.parquet: dataset is the corpus; condition `original` (spearman and overlap@1 of the pair, precision of
the affirmative query) or `misprimed-high`, `-low`, `-random`; split `all`, a relation, or 1-1, N-1, N-M for T-REx. A
metric is the mean over facts, with `-by-relation` that over the relations' means.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import stats

from ...errors import InputError
from ...inference.cloze import log_softmax, slices
from ...inference.exported import ExportedModel
from ...inference.model import MaskedLM
from ...sentences.tokenizer import NOT_ONE_TOKEN, MaskTokenizer
from .. import run as probe
from ..published import trex_group
from ..summary import ALL, ITEM_SCHEMA, ORIGINAL, Contrast, cluster_means, contrasts, frame, means, with_holm
from ..targets import target_ids
from .facts import Fact, Facts

STAGE = "lama"
CUTS = (1, 5, 10)
METRICS = ("spearman", "overlap@1", *(f"precision@{k}" for k in CUTS))
BY_RELATION = "-by-relation"
SAME_AS_AFFIRMATIVE = ("TREx", "P159")
_FACTS_PER_PART = 512
_LOGITS_AT_ONCE = 2**22  # of each query of a pair: 16 MB, and twice that for its log-probabilities
_TOP = 3
_SCHEMA: Mapping[str, Any] = {
    **ITEM_SCHEMA,
    "spearman": pl.Float64,
    "overlap@1": pl.Boolean,
    **{f"precision@{k}": pl.Boolean for k in CUTS},
    "gold": pl.String,
    "rank": pl.Int32,
    "gold_logprob": pl.Float32,
    "query": pl.String,
    "top": pl.List(pl.String),
    "top_logprob": pl.List(pl.Float32),
    "negated_query": pl.String,
    "negated_top": pl.List(pl.String),
    "negated_top_logprob": pl.List(pl.Float32),
}

Logits = NDArray[np.float32]
Ids = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Plan:
    """A run ready to run.

    Attributes:
        exported: the model.
        tokenizer: its tokenizer.
        facts: those that count.
        gold: int32 [n], the token of each fact's answer.
        kept: int32 [m], the kept vocabulary, ascending.
        vocabulary: what it is called.
        dropped: why facts do not count → how many.
    """

    exported: ExportedModel
    tokenizer: MaskTokenizer
    facts: tuple[Fact, ...]
    gold: Ids
    kept: Ids
    vocabulary: str
    dropped: Mapping[str, int]

    @property
    def top(self) -> int:
        """How many of the first tokens are told."""
        return min(_TOP, len(self.kept))

    @property
    def parts(self) -> tuple[slice, ...]:
        """Ranges of facts."""
        return tuple(slice(i, i + _FACTS_PER_PART) for i in range(0, len(self.facts), _FACTS_PER_PART))

    @property
    def identity(self) -> dict[str, Any]:
        """What must be the same for two runs to give the same items."""
        return {
            **probe.model_identity(self.exported),
            "data sha256": Facts(self.facts, {}).sha256,
            "vocabulary": self.vocabulary,
            "vocabulary sha256": hashlib.sha256(self.kept.astype("<i4").tobytes()).hexdigest(),
            "facts per part": _FACTS_PER_PART,
        }


def plan(
    exported: ExportedModel,
    facts: Facts,
    *,
    kept: Ids | None = None,
    vocabulary: str = "all",
    with_p159: bool = False,
) -> Plan:
    """Lay out a run.

    Args:
        exported: the model.
        facts: from `lama_data.read_facts`.
        kept: int32 [m], the tokens to rank, ascending; by default all.
        vocabulary: what they are called.
        with_p159: whether P159 counts.

    Raises:
        InputError: no fact is left, or a query is too long for the model.
    """
    tokenizer = MaskTokenizer.load(exported.folder, exported.mask_token)
    kept = np.arange(exported.vocab_size, dtype=np.int32) if kept is None else kept
    dropped = dict(facts.dropped)
    candidates = facts.facts
    if not with_p159:
        candidates = tuple(fact for fact in candidates if (fact.corpus, fact.relation) != SAME_AS_AFFIRMATIVE)
        if left_out := len(facts.facts) - len(candidates):
            dropped["P159, whose negation is the affirmative sentence itself"] = left_out
    gold = target_ids(tokenizer, [fact.affirmative for fact in candidates], [fact.gold for fact in candidates])
    several = gold == NOT_ONE_TOKEN
    foreign = ~several & ~np.isin(gold, kept)
    for why, which in (("answer not one token", several), ("answer not in the vocabulary kept", foreign)):
        if which.any():
            dropped[why] = int(which.sum())
    (counting,) = np.nonzero(~(several | foreign))
    if not len(counting):
        raise InputError(f"none of {len(facts.facts)} facts counts: {_listed(dropped)}")
    chosen = tuple(candidates[i] for i in counting)
    asked = [(text, fact.place) for fact in chosen for texts in _queries(fact).values() for text in texts]
    slices(exported, tokenizer, *zip(*asked, strict=True))  # a query that the model cannot take is refused here
    return Plan(exported, tokenizer, chosen, gold[counting], kept, vocabulary, dropped)


def _listed(dropped: Mapping[str, int]) -> str:
    return "; ".join(f"{count:,} {why}" for why, count in dropped.items())


def run(plan: Plan, model: MaskedLM, folder: Path, *, session: Mapping[str, Any] | None = None) -> pl.DataFrame:
    """Ask all queries, or resume that, and write items.parquet and summary.parquet; the summary is returned."""
    return probe.run(
        folder,
        STAGE,
        plan.identity,
        [_n_queries(plan.facts[part]) for part in plan.parts],
        lambda number: score(plan, model, plan.parts[number]),
        summarise,
        about={
            "model folder": str(plan.exported.folder.resolve()),
            "facts": len(plan.facts),
            "kept tokens": len(plan.kept),
            "dropped": dict(plan.dropped),
        },
        session=session,
    )


def _n_queries(facts: Sequence[Fact]) -> int:
    return sum(len(texts) for fact in facts for texts in _queries(fact).values())


def _queries(fact: Fact) -> dict[str, tuple[str, ...]]:
    """What a fact is asked in each condition: a query, or a query and its negation."""
    original: tuple[str, ...] = (fact.affirmative,) if fact.negated is None else (fact.affirmative, fact.negated)
    return {ORIGINAL: original} | {f"misprimed-{kind}": (text,) for kind, text in fact.misprimed.items()}


def score(plan: Plan, model: MaskedLM, part: slice) -> pl.DataFrame:
    """The items of a range of facts: one row a fact, one for each of their misprimed queries."""
    asked: dict[tuple[str, int], list[tuple[int, tuple[str, ...]]]] = {}
    for row in range(len(plan.facts))[part]:
        for condition, texts in _queries(plan.facts[row]).items():
            asked.setdefault((condition, len(texts)), []).append((row, texts))
    frames = [_ask(plan, model, condition, *zip(*own, strict=True)) for (condition, _), own in asked.items()]
    return pl.concat([pl.DataFrame(schema=_SCHEMA), *frames], how="diagonal")


def _ask(
    plan: Plan, model: MaskedLM, condition: str, which: Sequence[int], queries: Sequence[tuple[str, ...]]
) -> pl.DataFrame:
    """The items of some facts, each asked by one query or by a query and its negation."""
    facts, gold = [plan.facts[row] for row in which], plan.gold[list(which)]
    texts = list(zip(*queries, strict=True))
    sides = [_encode(plan, side, [fact.place for fact in facts]) for side in texts]
    n = len(facts)
    rank, gold_logprob = np.empty(n, np.int32), np.empty(n, np.float32)
    correlation = np.empty(n)
    top = np.empty((len(sides), n, plan.top), np.int32)
    top_logprob = np.empty((len(sides), n, plan.top), np.float32)
    for rows in _batches(plan, model, sides):
        kept = []
        for side, encoded in enumerate(sides):
            logits = model.logits(
                np.stack([encoded[row][0] for row in rows]), np.array([encoded[row][1] for row in rows], np.int32)
            )
            logprob = log_softmax(logits)
            kept.append(logits[:, plan.kept])
            top[side, rows] = plan.kept[top_tokens(kept[side], plan.top)]
            top_logprob[side, rows] = np.take_along_axis(logprob, top[side, rows], axis=1)
            if side == 0:
                expected = logits[np.arange(len(rows)), gold[rows]]
                rank[rows] = 1 + (kept[side] > expected[:, None]).sum(axis=1)
                gold_logprob[rows] = logprob[np.arange(len(rows)), gold[rows]]
        if len(sides) == 2:
            correlation[rows] = spearman(*kept)
    columns = {
        "dataset": [fact.corpus for fact in facts],
        "condition": [condition] * n,
        "item": [fact.item for fact in facts],
        "splits": [[ALL, fact.relation, *trex_group(fact.corpus, fact.relation)] for fact in facts],
        "cluster": [fact.relation for fact in facts],
        **{f"precision@{k}": rank <= k for k in CUTS},
        "gold": [fact.gold for fact in facts],
        "rank": rank,
        "gold_logprob": gold_logprob,
        **_shown(plan, "", texts[0], top[0], top_logprob[0]),
    }
    if len(sides) == 2:
        columns |= _shown(plan, "negated_", texts[1], top[1], top_logprob[1])
        # A fact without a correlation has no overlap either, as in LAMA.
        defined = ~np.isnan(correlation)
        columns["spearman"] = pl.Series(correlation).fill_nan(None)
        columns["overlap@1"] = pl.Series(top[0, :, 0] == top[1, :, 0]).set(~pl.Series(defined), None)
    return pl.DataFrame(columns, schema_overrides={name: _SCHEMA[name] for name in columns})


def _shown(plan: Plan, prefix: str, texts: Sequence[str], top: Ids, logprob: Logits) -> dict[str, Any]:
    words = {i: plan.tokenizer.token_text(i) for i in np.unique(top).tolist()}
    return {
        f"{prefix}query": texts,
        f"{prefix}top": [[words[i] for i in ids] for ids in top.tolist()],
        f"{prefix}top_logprob": logprob.tolist(),
    }


Encoded = list[tuple[Ids, int]]


def _encode(plan: Plan, texts: Sequence[str], places: Sequence[str]) -> Encoded:
    """Token ids and mask position of each text."""
    encoded: dict[int, tuple[Ids, int]] = {}
    for part in slices(plan.exported, plan.tokenizer, texts, places):
        for row, ids, position in zip(part.rows.tolist(), part.ids, part.mask_position.tolist(), strict=True):
            encoded[row] = ids, position
    return [encoded[row] for row in range(len(texts))]


def _batches(plan: Plan, model: MaskedLM, sides: Sequence[Encoded]) -> Iterator[list[int]]:
    """Rows whose queries have the same lengths, no more at once than a batch holds."""
    by_length: dict[tuple[int, ...], list[int]] = {}
    for row, queries in enumerate(zip(*sides, strict=True)):
        by_length.setdefault(tuple(len(ids) for ids, _ in queries), []).append(row)
    for lengths, rows in sorted(by_length.items()):
        size = max(1, min(model.batch_size(max(lengths)), _LOGITS_AT_ONCE // plan.exported.vocab_size))
        for start in range(0, len(rows), size):
            yield rows[start : start + size]


def spearman(first: Logits, second: Logits) -> NDArray[np.float64]:
    """Spearman's rank correlation of each row with its counterpart, ties at their mean rank.

    Args:
        first: float32 [n, m].
        second: float32 [n, m].

    Returns:
        float64 [n]; NaN where all values of a row are equal.
    """
    middle = (first.shape[1] + 1) / 2
    one, other = (stats.rankdata(scores, axis=1) - middle for scores in (first, second))
    with np.errstate(invalid="ignore"):
        correlation: NDArray[np.float64] = np.einsum("ij,ij->i", one, other) / np.sqrt(
            np.einsum("ij,ij->i", one, one) * np.einsum("ij,ij->i", other, other)
        )
    return correlation


def top_tokens(scores: Logits, k: int) -> NDArray[np.int64]:
    """The columns of the k highest values of each row, int64 [n, k], highest first; of equal ones the leftmost."""
    left = scores.copy()
    rows = np.arange(len(left))
    best = np.empty((len(left), k), np.int64)
    for i in range(k):
        best[:, i] = left.argmax(axis=1)
        left[rows, best[:, i]] = -np.inf
    return best


def summarise(items: pl.DataFrame) -> pl.DataFrame:
    """The summary of a run's items; the module says which rows it has."""
    primed = [
        Contrast(corpus, f"precision@{k}", (ORIGINAL, ALL), (condition, ALL))
        for corpus in items["dataset"].unique(maintain_order=True)
        for condition in sorted(set(items["condition"]) - {ORIGINAL})
        for k in CUTS
    ]
    rows = [*means(items, METRICS), *cluster_means(items, METRICS, BY_RELATION), *contrasts(items, primed)]
    return with_holm(frame(rows))
