"""What `ng.suite` returns: the state of every member, one table of all runs, and what was written."""

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from ..library.run import Run
from ..library.shown import Shown
from ..printable import counted
from ..views import Column, Table
from .file import SuiteFile
from .members import DONE, Member, State
from .table import FinishedMember, model_tables

_SCHEMA = {
    "run": pl.Int64,
    "state": pl.String,
    "probe": pl.String,
    "model": pl.String,
    "step": pl.Int64,
    "settings": pl.String,
    "folder": pl.String,
}


def members_table(title: str, members: Sequence[Member], states: Mapping[int, State]) -> Table:
    """A line for each member of a suite."""
    rows = [
        (
            member.number,
            str(states[member.number]),
            member.probe.label,
            member.model.label,
            member.model.step,
            ", ".join(f"{key} {_text(value)}" for key, value in member.probe.settings.items()),
            str(member.folder),
        )
        for member in members
    ]
    frame = pl.DataFrame(rows, schema=_SCHEMA, orient="row")
    shown = [name for name in ("run", "state", "probe", "model", "step", "settings") if _is_told(frame[name])]
    return Table(title, frame, [Column(name, name, decimals=0 if name == "step" else None) for name in shown])


@dataclass(frozen=True, eq=False)
class SuitePlan(Shown):
    """The members of a suite and how far they are; nothing was run.

    Attributes:
        file: The suite.
        members: All members, or those of a shard.
        states: Number of a member → its state.
    """

    file: SuiteFile
    members: Sequence[Member]
    states: Mapping[int, State]

    def tables(self) -> list[Table]:
        """A line for each member."""
        return [members_table(f"{self.file.name}: {counted(len(self.members), 'run')}", self.members, self.states)]

    def remarks(self) -> list[str]:
        """How many there are in each state."""
        return [_counted(self.members, self.states)]

    def document(self) -> dict[str, Any]:
        """See `Shown`."""
        return {"suite": self.file.name, "members": [_described(one, self.states, {}) for one in self.members]}


@dataclass(frozen=True, eq=False)
class SuiteRun(Shown):
    """A suite that has been run.

    Attributes:
        file: The suite.
        folder: Its folder.
        members: All members, or those of a shard.
        states: Number of a member → its state.
        failures: Number of a member → why it failed.
        finished: The members with a finished run.
        frame: From `table.suite_table`: a row for each run and group of items.
        results: The file with that table.
        report: The report, if one was written.
        figures: The files of figures.
        notes: What else to know, a line each.
    """

    file: SuiteFile
    folder: Path
    members: Sequence[Member]
    states: Mapping[int, State]
    failures: Mapping[int, str]
    finished: Sequence[FinishedMember] = field(repr=False)
    frame: pl.DataFrame = field(repr=False)
    results: Path = field(repr=False)
    report: Path | None = None
    figures: Sequence[Path] = ()
    notes: Sequence[str] = ()

    @property
    def is_finished(self) -> bool:
        """Whether all members are finished."""
        return all(self.states[member.number] in DONE for member in self.members)

    @cached_property
    def runs(self) -> dict[tuple[str, str], Run]:
        """Probe and model, as the suite labels them → the finished run."""
        return {(one.member.probe.label, one.member.model.label): one.run for one in self.finished}

    def tables(self) -> list[Table]:
        """The models side by side for each probe; before them all members, if one is not finished."""
        return [*self._unfinished, *model_tables(self.frame, self.finished, fitting=False)]

    def main_tables(self) -> list[Table]:
        """See `Shown`."""
        return [*self._unfinished, *model_tables(self.frame, self.finished, fitting=True)]

    @property
    def _unfinished(self) -> list[Table]:
        rest = [member for member in self.members if self.states[member.number] not in DONE]
        return [members_table("Runs that are not finished", rest, self.states)] if rest else []

    def remarks(self) -> list[str]:
        """Each member that failed, with its reason."""
        by_number = {member.number: member for member in self.members}
        failed = [f"{by_number[number].name}: {why}" for number, why in self.failures.items()]
        empty = [f"{one.member.name}: {one.run.dead_end}" for one in self.finished if self._is_empty(one)]
        return [_counted(self.members, self.states), *failed, *empty, *self.notes]

    def _is_empty(self, one: FinishedMember) -> bool:
        return self.states[one.member.number] is State.EMPTY

    def closing(self) -> str:
        """What was written; if members failed, how to run them again."""
        kinds = [self.results.name, *(["report.html"] if self.report else []), *(["figures/"] if self.figures else [])]
        written = f"{self.folder}: {' and '.join(filter(None, [', '.join(kinds[:-1]), kinds[-1]]))} are written"
        if len(kinds) == 1:
            written = f"{self.folder}: {kinds[0]} is written"
        if self.is_finished:
            return written
        command = f"negengine suite {shlex.quote(str(self.file.path))}"
        return f"{written}; not all runs are finished (status 3): to run the others again, `{command}`"

    def document(self) -> dict[str, Any]:
        """See `Shown`."""
        return {
            "suite": self.file.name,
            "folder": str(self.folder),
            "finished": self.is_finished,
            "members": [_described(one, self.states, self.failures) for one in self.members],
            "estimates": self.frame.to_dicts(),
            "report": None if self.report is None else str(self.report),
            "figures": [str(path) for path in self.figures],
            "notes": list(self.notes),
        }


def _counted(members: Sequence[Member], states: Mapping[int, State]) -> str:
    counts = Counter(states[member.number] for member in members)
    told = ", ".join(f"{counts[state]:,} {state}" for state in State if counts[state])
    return f"{counted(len(members), 'run')}: {told}"


def _described(member: Member, states: Mapping[int, State], failures: Mapping[int, str]) -> dict[str, Any]:
    return {
        "number": member.number,
        "state": str(states[member.number]),
        "probe": member.probe.label,
        "function": member.probe.function,
        "settings": dict(member.probe.settings),
        "model": member.model.label,
        "reference": member.model.reference,
        "series": member.model.series,
        "step": member.model.step,
        "folder": str(member.folder),
        "failure": failures.get(member.number),
    }


def _text(value: Any) -> str:
    return "+".join(map(str, value)) if isinstance(value, list) else str(value).lower() if value is True else str(value)


def _is_told(column: pl.Series) -> bool:
    return column.null_count() < len(column) and bool((column.cast(pl.String).fill_null("") != "").any())
