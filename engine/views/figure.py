"""A figure as a value: a plot, the table with its values, and what it says in words."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from .table import Table
from .to_csv import flat

if TYPE_CHECKING:
    from .charts import Plot


@dataclass(frozen=True, eq=False)
class Figure:
    """One figure of a report. The same value is drawn in a page and written to files.

    Attributes:
        name: Of its files: letters, digits and hyphens, unique among the figures of a run.
        plot: What is drawn; see `charts` for the kinds that a report has.
        table: Every value that the chart shows, and more, for readers who cannot see the picture.
        alt: What the picture shows, in one or two sentences, for those readers.
        joint: Whether the figures of several runs can be one, with a series for each run.
    """

    name: str
    plot: "Plot"
    table: Table
    alt: str
    caption: str
    wide: bool = False
    joint: bool = False

    @property
    def data(self) -> pl.DataFrame:
        """The values in full, without nested columns, as CSV has them."""
        return flat(self.table.figures)
