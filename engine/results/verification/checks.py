"""What was checked, and what was found: the value that `ng.verify` returns."""

import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import polars as pl

from ...basics.errors import InputError
from ...basics.frames import schema_of
from ...basics.printable import counted
from ...library.shown import Shown
from ...views import Column, Table


class Outcome(StrEnum):
    """The result of a check."""

    OK = "ok"
    DAMAGED = "damaged"
    NOT_KEPT = "not kept"  # what would be compared was removed on purpose; that is not an error
    NOT_CHECKED = "not checked"
    NOT_FINISHED = "not finished"


@dataclass(frozen=True)
class Check:
    """One check."""

    of: str  # the stage of a run, or the file of a model
    what: str
    n: int = 0  # how many things were looked at
    unit: str = ""  # what these things are
    outcome: Outcome = Outcome.OK
    detail: str = ""  # what was found, or why it could not be checked
    repair: str = ""  # the command that repairs the damage, or what else to do
    wrong: int | None = None  # of items that were decided again, how many the run has wrong; None for other checks
    near_ties: int | None = None  # how many have another decision, which is closer than rounding
    bound: float | None = None  # the largest share of wrong items that the sample leaves possible, with 95 % confidence

    @property
    def is_damage(self) -> bool:
        return self.outcome is Outcome.DAMAGED

    def damaged(self, detail: str, repair: str) -> "Check":
        return replace(self, outcome=Outcome.DAMAGED, detail=detail, repair=repair)

    def skipped(self, detail: str, outcome: Outcome = Outcome.NOT_CHECKED, repair: str = "") -> "Check":
        return replace(self, outcome=outcome, detail=detail, repair=repair)


@dataclass(frozen=True, eq=False)
class Verification(Shown):
    """The checks of a run or of a model.

    Attributes:
        kind: `run` or `model`.
        notes: What else a reader should know, such as files that do not belong to the folder.
    """

    folder: Path
    kind: str
    name: str
    checks: Sequence[Check]
    notes: Sequence[str] = ()

    def __post_init__(self) -> None:
        order = list(dict.fromkeys(check.of for check in self.checks))
        together = sorted(self.checks, key=lambda check: order.index(check.of))  # those of one stage or file
        object.__setattr__(self, "checks", tuple(together))

    @property
    def damage(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if check.is_damage)

    @property
    def unfinished(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if check.outcome is Outcome.NOT_FINISHED)

    @property
    def frame(self) -> pl.DataFrame:
        rows = [asdict(check) | {"outcome": str(check.outcome)} for check in self.checks]
        return pl.DataFrame(rows, schema_of(Check))

    def tables(self) -> list[Table]:
        counts = [counted(check.n, check.unit.removesuffix("s")) if check.unit else "" for check in self.checks]
        found = [": ".join(filter(None, [str(check.outcome), check.detail])) for check in self.checks]
        shown = self.frame.with_columns(pl.Series("counted", counts, pl.String), pl.Series("found", found, pl.String))
        columns = [
            Column("stage" if self.kind == "run" else "file", "of", wrap=False),
            Column("check", "what"),
            Column("checked", "n"),
            Column("result", "outcome"),
        ]
        title = f"Verification of the {self.kind} {self.folder}: {self.name}"
        return [Table(title, shown, columns, section="of", texts={"n": "counted", "outcome": "found"})]

    def remarks(self) -> list[str]:
        damaged = [f"{check.of}: {check.what}: {check.detail}; {check.repair}" for check in self.damage[1:]]
        skipped = sum(check.outcome is Outcome.NOT_CHECKED for check in self.checks)
        also = f"; {counted(skipped, 'check was', 'checks were')} not possible" if skipped else ""
        verdict = [] if self.damage or self.unfinished else [f"{self.folder}: no damage found{also}"]
        verdict += [f"{self.folder}: {check.of} is not finished; {check.repair}" for check in self.unfinished]
        return [*self.notes, *damaged, *verdict]

    def closing(self) -> str:
        command = (
            f"; next, `negengine report {shlex.quote(str(self.folder))}`"
            if self.kind == "run" and not self.unfinished
            else ""
        )
        return "" if self.damage else f"nothing was changed{command}"

    def document(self) -> dict[str, Any]:
        return {
            self.kind: str(self.folder),
            "model": self.name,
            "damaged": bool(self.damage),
            "checks": self.frame.to_dicts(),
            "notes": list(self.notes),
        }

    def refuse_faults(self) -> None:
        if self.damage:
            check, more = self.damage[0], len(self.damage) - 1
            also = f" (and {more} more, see above)" if more else ""
            raise InputError(f"{self.folder}: {check.of}: {check.what}: {check.detail}{also}; {check.repair}")
