"""A finished run of questions: what its items, sentences and recounts have in common."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from ..inference.free_text import MASK
from ..library.recount import LOGARITHM, Recount, holds
from ..runs.record import mask_token
from .recount import descending, item_once
from .summary_run import SummaryRun


@dataclass(frozen=True, eq=False)
class AskedRun(SummaryRun):
    """A finished run of an `Asked` experiment.

    Attributes:
        unit: What the items are, as a plural.
    """

    unit: ClassVar[str] = "items"

    def remarks(self) -> list[str]:
        """Which items do not count."""
        before, counts = self.record.metadata.get("excluded", {}), self.record.counts
        later = {why: int(count) for why, count in counts.items() if why != "rows"}
        return [f"{self.unit} excluded: {count:,} ({why})" for why, count in {**before, **later}.items()]

    def masked(self, name: str) -> pl.Expr:
        """A column of texts with the model's own mask token."""
        return pl.col(name).str.replace_all(MASK, mask_token(self.record.metadata, self.folder), literal=True)

    def values(self, condition: str, *metrics: str, split: str | None = None) -> pl.DataFrame:
        """The rows of summary.parquet of some metrics in a condition, of one split or of all."""
        found = self.summary.filter((pl.col("condition") == condition) & pl.col("metric").is_in(metrics))
        return found if split is None else found.filter(pl.col("split") == split)


def chances(items: pl.DataFrame, expected: str, tops: Sequence[str], count: int) -> Iterator[Recount]:
    """What holds of the answers to any question: each item stands once; log-probabilities and ranks agree.

    Args:
        items: The content of items.parquet.
        expected: The column with the log-probability of the expected word, whose rank is in `rank`.
        tops: Columns with the log-probabilities of the first choices, with `{}` for their number.
        count: How many first choices there are.
    """
    yield item_once(items)
    first = tops[0].format(1)
    behind = pl.col(expected) - pl.col(first)
    yield holds(
        "log-probabilities are at most 0, and the answer's is that of the first choice where its rank is 1",
        items,
        (pl.col("rank") >= 1)
        & (pl.col(first) <= LOGARITHM)
        & pl.when(pl.col("rank") == 1).then(behind.abs() <= LOGARITHM).otherwise(behind <= LOGARITHM),
    )
    for name in tops:
        yield from descending(items, [name.format(i) for i in range(1, count + 1)])
