"""A run that was planned, not done: what it would do, before anything is written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from ..library.shown import Shown
from ..views import Column, Table


@dataclass(frozen=True, eq=False)
class Plan(Shown):
    """The work of a run, in numbers."""

    model: str
    folder: Path
    work: Mapping[str, int | float]  # quantity → number, as a person reads them
    notes: Sequence[str]  # what a run would say before it begins

    def tables(self) -> list[Table]:
        known = {name: float(value) for name, value in self.work.items()}
        if known.get("minutes", 1) < 1:  # a person reads no time in 0.00
            known["seconds"] = max(0.1, 60 * known.pop("minutes"))
        work = pl.DataFrame(
            {"what": list(known), "number": list(known.values())}, schema={"what": pl.String, "number": pl.Float64}
        ).with_columns(decimals=pl.when(pl.col("number") == pl.col("number").round(0)).then(0).otherwise(1))
        columns = [Column("", "what"), Column("number", "number", decimals="decimals")]
        return [Table(f"Plan: {self.model}", work, columns)]

    def remarks(self) -> list[str]:
        return [*self.notes, f"Nothing was written. Without --plan, the results are written to {self.folder}"]

    def document(self) -> dict[str, Any]:
        return {"model": self.model, "run": str(self.folder), "work": dict(self.work), "notes": list(self.notes)}
