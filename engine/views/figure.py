"""A figure as a value: a plot, the table with its values, and what it says in words; and a section of a report."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from .table import Table
from .to_csv import flat

if TYPE_CHECKING:
    from .charts import Plot


@dataclass(frozen=True, eq=False)
class Figure:
    """One figure of a report. The same value is drawn in a page and written to files."""

    name: str  # of its files: letters, digits and hyphens, unique among the figures of a run
    plot: "Plot"
    table: Table  # every value that the chart shows, and more, for readers who cannot see the picture
    alt: str  # what the picture shows, in one or two sentences, for those readers
    caption: str
    wide: bool = False
    joint: bool = False  # the figures of several runs can be one, with a series for each run

    @property
    def legend(self) -> str:
        """The caption, and what the drawn intervals are."""
        return f"{self.caption} {self.plot.promise}".rstrip()

    @property
    def data(self) -> pl.DataFrame:
        """The values in full, without nested columns, as CSV has them."""
        return flat(self.table.figures)


@dataclass(frozen=True, eq=False)
class Section:
    """One question about a run, and the answer: a page knows nothing else about probes."""

    title: str
    sentences: Sequence[str] = ()
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    listing: Table | None = None  # a long table that a reader can filter, such as sentences with the model's answers
    notes: Sequence[str] = ()
    folded: bool = False  # the tables repeat what the figures show, and are shown on demand
    is_answer: bool = False  # the first sentence is the answer to the question of the run
