"""A run that was planned, not done: what it would do, before anything is written."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from ..basics.errors import InputError
from ..basics.option import Opening
from ..basics.printable import counted
from ..library.shown import Shown
from ..requests.items import WHY
from ..requests.stage import TOKENS, Kind, RequestStage
from ..runs.shard import Shard
from ..views import Column, Table
from .own_table import BY_NAME, READ, Told, said_by_name

_MOST_LISTED = 20  # bad rows
_TRIED = 8_192  # tokens whose time is measured, about
_SECONDS = 1.0  # of a measurement


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


@dataclass(frozen=True, eq=False)
class TablePlan(Plan):
    """A run on a table that was planned, not done."""

    told: Told
    bad: pl.DataFrame  # columns place, reason
    skips: bool = True  # whether bad rows are skipped; else the run would stop at the first one

    def tables(self) -> list[Table]:
        found, groups = super().tables(), self.told.groups
        if not groups.is_empty():
            items = [Column("items", "items")] if groups["items"].sum() else []
            named = [Column("column", "column"), Column("group", "group"), Column("rows", "rows"), *items]
            found.append(Table("Groups", groups, named, section="column"))
        if not self.bad.is_empty():
            more = len(self.bad) - _MOST_LISTED
            notes = [f"and {more:,} more; --json has all"] if more > 0 else []
            columns = [Column("row", "place", wrap=False), Column("what is wrong", "reason")]
            title = f"Rows that {'would be skipped' if self.skips else 'are wrong'}"
            found.append(Table(title, self.bad.head(_MOST_LISTED), columns, notes=notes))
        return found

    def remarks(self) -> list[str]:
        return [*said_by_name(self.told.by_name), *self.told.read, *super().remarks()]

    def document(self) -> dict[str, Any]:
        return {
            **super().document(),
            "groups": self.told.groups.to_dicts(),
            BY_NAME: list(self.told.by_name),
            READ: list(self.told.read),
            "bad rows": self.bad.to_dicts(),
        }

    def refuse_faults(self) -> None:
        if not self.skips and not self.bad.is_empty():
            place, reason = self.bad.row(0)
            wrong = counted(len(self.bad), "row is", "rows are")
            remedy = "correct it, or skip it" if len(self.bad) == 1 else "correct them, or skip them"
            raise InputError(f"{place}: {reason} ({wrong} wrong; {remedy} with --skip-bad)")


def planned(
    stage: RequestStage, opening: Opening, devices: int, shard: Shard
) -> tuple[dict[str, int | float], pl.DataFrame]:
    """What a run would do, counted, with its time from a few texts; and the rows that it cannot use: place, reason."""
    kind: Kind[Any] = stage.kind
    own, work, tried = shard.parts(len(stage.sizes)), dict[str, int | float](), None
    bad, good = dict[str, str](), 0
    for number in own:
        requests, asked = stage.prepare(number)
        for what, n in kind.work(asked).items():
            work[what] = work.get(what, 0) + n
        for request in requests.filter(pl.col(WHY).is_not_null()).iter_rows(named=True):
            bad.setdefault(stage.requests.place(number, request) or "", request[WHY])
        own_good = requests.filter(pl.col(WHY).is_null())
        good += len(own_good)
        tried = own_good if tried is None and len(asked) else tried
    work["parts of this run" if shard.is_whole else f"parts of shard {shard}"] = len(own)
    if bad:
        work["rows that cannot be used"] = len(bad)
    if tried is not None:
        model, done = stage.open(opening), 0
        n = max(1, _TRIED * good // int(work[TOKENS]))
        some = kind.prepare(stage.exported, tried.sample(min(len(tried), n), seed=0))
        kind.answer(model, some, lambda _: None)  # the first time takes longer
        start = time.perf_counter()
        while (seconds := time.perf_counter() - start) < _SECONDS:
            kind.answer(model, some, lambda _: None)
            done += kind.work(some)[TOKENS]
        speed = done / seconds * devices
        work |= {"tokens a second": round(speed), "minutes": work[TOKENS] / speed / 60}
    return work, pl.DataFrame(
        {"place": list(bad), "reason": list(bad.values())}, schema=dict.fromkeys(("place", "reason"), pl.String)
    )
