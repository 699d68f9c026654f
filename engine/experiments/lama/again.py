"""What the model has decided, as it can be asked again: queries, and the correlation of a query with its negation."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...basics.paths import with_home
from ...inference.free_text import MASK
from ...library.again import Compared, Draw, Question, Reference, Sample, Verdict
from ...runs.record import StageRecord
from ..vocabulary import LIST, Ranked

_CLOSE = 1e-4  # by how much a rank correlation may differ if logits are rounded differently


def ranked_ids(draw: Draw, record: StageRecord) -> NDArray[np.int32] | None:
    """The tokens that a run ranks; None if its word list is not found."""
    ranked = Ranked(record.identity["vocabulary"])
    if ranked.name == LIST:
        match record.metadata.get("call", {}).get("arguments", {}).get("vocabulary"):
            case {"path": str(path)} if (file := with_home(path)).is_file():
                ranked = Ranked.of(str(file))
        if ranked.sha256 != record.identity["vocabulary sha256"]:
            return None
    return ranked.ids(draw.tokenizer, draw.exported.vocab_size)


def queries(draw: Draw, rows: pl.LazyFrame, ranked: NDArray[np.int32] | None) -> Iterator[Question]:
    """Rows of `sentence_rows`: ranks and first choices are among the ranked tokens."""
    unknown: dict[str, Any] = {"is_first": None, "rank": None, "answer": None, "answer_logprob": None}
    if ranked is not None:
        unknown = {"unranked": (np.setdiff1d(np.arange(draw.exported.vocab_size), ranked),)}
    for row in draw.rows(rows):
        yield replace(draw.question(row), **unknown)


@dataclass(frozen=True, eq=False)
class Correlated:
    """A query and its negation, with Spearman's correlation over the ranked tokens."""

    name: str
    texts: tuple[str, str]
    correlation: float
    ranked: NDArray[np.int32]

    def again(self, reference: Reference) -> Compared:
        from scipy import stats

        query, negation = (reference.masked(text)[self.ranked] for text in self.texts)
        now = float(stats.spearmanr(query, negation).statistic)
        if abs(now - self.correlation) <= _CLOSE:
            return Compared(self.name, Verdict.AGREES)
        return Compared(self.name, Verdict.WRONG, f"correlation {self.correlation:.5f}, but now {now:.5f}")


def correlations(draw: Draw, items: pl.DataFrame, ranked: NDArray[np.int32]) -> Sample:
    """The correlations of a run."""

    def correlated(row: Mapping[str, Any]) -> Correlated:
        one, other = (row[name].replace(MASK, draw.exported.mask_token) for name in ("query", "negated_query"))
        return Correlated(f"{row['item']} in {row['dataset']}", (one, other), row["spearman"], ranked)

    return Sample("correlations", [correlated(row) for row in draw.some(items.drop_nulls("spearman"))])
