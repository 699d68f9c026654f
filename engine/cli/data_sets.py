"""The table of `negengine data list`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from ..experiments.data_sets.sources import cache_folder, sources
from ..library.shown import Shown
from ..views import Column, Table

_SCHEMA = {"name": pl.String, "title": pl.String, "licence": pl.String, "command": pl.String, "here": pl.Boolean}


@dataclass(frozen=True, eq=False)
class DataSets(Shown):
    """The data sets of other authors: a row of `frame` each, and the folder where they are kept."""

    folder: Path
    frame: pl.DataFrame

    @classmethod
    def found(cls) -> "DataSets":
        rows = [(s.name, s.title, s.licence, s.probe, not s.missing()) for s in sources().values()]
        return cls(cache_folder(), pl.DataFrame(rows, schema=_SCHEMA, orient="row"))

    def tables(self) -> list[Table]:
        columns = [Column(heading, heading) for heading in ("name", "title", "command", "here")]
        frame = self.frame.with_columns(here=pl.when("here").then(pl.lit("yes")).otherwise(pl.lit("no")))
        return [Table(f"Data sets of other authors, kept in {self.folder}", frame, columns)]

    def document(self) -> list[dict[str, Any]]:
        return self.frame.drop("command").to_dicts()
