"""`ng.suite`: run all members of a suite file; a member that fails does not stop the others."""

import shlex
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Unpack

import polars as pl

from ...basics.atomic import json_bytes, make_folder, write_bytes
from ...basics.errors import InputError, first_line
from ...basics.option import Opening
from ...basics.paths import without_home_inside
from ...basics.printable import counted
from ...library.finished import open_run
from ...library.model import ModelReference
from ...library.options import RUNS, AllOptions, RunOptions, divided, explicit, shard_of
from ...library.registry import library_function
from ...library.run import Run
from ...library.shown import Shown
from ...runs.lock import holder
from ...runs.progress import Reporter
from ...runs.shard import Shard
from ...views import Column, Table
from ..report.report import needs_libraries
from .suite_file import SuiteFile
from .suite_members import DONE, Member, State, begun_last, finished_run, members_of, state_of
from .suite_settings import chain, goes_on, settings_of
from .suite_table import FinishedMember, model_tables, suite_table

RESULTS, RECORD = "results{}.csv", "suite{}.json"


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
    """The members of a suite, or those of a shard, and how far they are: number → state. Nothing was run."""

    file: SuiteFile
    members: Sequence[Member]
    states: Mapping[int, State]

    def tables(self) -> list[Table]:
        return [members_table(f"{self.file.name}: {counted(len(self.members), 'run')}", self.members, self.states)]

    def remarks(self) -> list[str]:
        return [_counted(self.members, self.states)]

    def document(self) -> dict[str, Any]:
        return {"suite": self.file.name, "members": [_described(one, self.states, {}) for one in self.members]}


@dataclass(frozen=True, eq=False)
class SuiteRun(Shown):
    """A suite that has been run.

    Attributes:
        members: All members, or those of a shard.
        states: Number of a member → its state.
        failures: Number of a member → why it failed.
        frame: A row for each run and group of items; the file `results` has the same.
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
        return all(self.states[member.number] in DONE for member in self.members)

    @cached_property
    def runs(self) -> dict[tuple[str, str], Run]:
        """Probe and model, as the suite labels them → the finished run."""
        return {(one.member.probe.label, one.member.model.label): one.run for one in self.finished}

    def tables(self) -> list[Table]:
        return [*self._unfinished, *model_tables(self.frame, self.finished, fitting=False)]

    def main_tables(self) -> list[Table]:
        return [*self._unfinished, *model_tables(self.frame, self.finished, fitting=True)]

    @property
    def _unfinished(self) -> list[Table]:
        rest = [member for member in self.members if self.states[member.number] not in DONE]
        return [members_table("Runs that are not finished", rest, self.states)] if rest else []

    def remarks(self) -> list[str]:
        by_number = {member.number: member for member in self.members}
        failed = [f"{by_number[number].name}: {why}" for number, why in self.failures.items()]
        empty = [f"{one.member.name}: {one.run.dead_end}" for one in self.finished if self._is_empty(one)]
        return [_counted(self.members, self.states), *failed, *empty, *self.notes]

    def _is_empty(self, one: FinishedMember) -> bool:
        return self.states[one.member.number] is State.EMPTY

    def closing(self) -> str:
        kinds = [self.results.name, *(["report.html"] if self.report else []), *(["figures/"] if self.figures else [])]
        written = f"{self.folder}: {' and '.join(filter(None, [', '.join(kinds[:-1]), kinds[-1]]))} are written"
        if len(kinds) == 1:
            written = f"{self.folder}: {kinds[0]} is written"
        if self.is_finished:
            return written
        command = f"negengine suite {shlex.quote(str(self.file.path))}"
        return f"{written}; not all runs are finished (status 3): to run the others again, `{command}`"

    def document(self) -> dict[str, Any]:
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


def suite(
    file: str | Path,
    **options: Unpack[AllOptions],
) -> SuiteRun:
    """Run models × probes × settings from a TOML file; see the page on suites in the documentation.

    Members that are finished are not run again. A member that fails does not stop the others. At the end there are one
    table and one report of all runs that are finished.

    Args:
        file: The suite file.
        **options: See `RunOptions`, and `OpeningOptions`: what is not given is taken from the file. `output` is the
            folder of the suite, `runs/NAME-OF-THE-FILE` by default. A shard I/N is every N-th run: many jobs can share
            a suite. The same call without a shard makes table and report.

    Raises:
        InputError: The file is wrong, or the folder cannot be written. What a single member lacks is told at the end.
    """
    given, shared = divided(options)
    found = _Suite.read(file, shared)
    return found.run(_opening(found.file.opening, given), shared)


def plan_suite(file: str | Path, **options: Unpack[RunOptions]) -> SuitePlan:
    """The members of a suite and how far each is; nothing is run or written. Raises InputError if the file is wrong."""
    found = _Suite.read(file, options)
    return SuitePlan(found.file, found.members, {member.number: state_of(member) for member in found.members})


@dataclass(frozen=True)
class _Suite:
    file: SuiteFile
    folder: Path
    shard: Shard
    members: Sequence[Member]

    @classmethod
    def read(cls, file: str | Path, options: RunOptions) -> "_Suite":
        content = SuiteFile.read(Path(file))
        folder = Path(str(options["output"])) if options.get("output") else RUNS / content.path.stem
        shard = shard_of(options)
        members = members_of(content, folder)
        if not members:
            raise InputError(f"{file}: no probe is for any of its models")
        return cls(content, folder, shard, [members[number] for number in shard.parts(len(members))])

    def run(self, opening: Opening, options: RunOptions) -> SuiteRun:
        """Run the members that are not finished, then make the table and the report."""
        reporter = Reporter(verbose=options.get("verbose", False), silent=not options.get("progress", True))
        make_folder(self.folder)
        states = {member.number: state_of(member) for member in self.members}
        todo = begun_last(self.members, states)
        if len(todo) < len(self.members):
            reporter.say(
                f"{self.file.name}: {len(self.members) - len(todo):,} of {len(self.members):,} runs are finished"
            )
        failures: dict[int, str] = {}
        for member in todo:
            reporter.say(f"{self.file.name}: run {member.number} of {len(self.members):,}, {member.name}")
            try:
                states[member.number] = _run_member(member, opening, options)
            except Exception as error:  # noqa: BLE001 - whatever it is, the other members must run
                failures[member.number] = _told(error)
                states[member.number] = State.FAILED if holder(member.folder) is None else State.RUNNING
                reporter.say(f"{self.file.name}: {member.name} failed: {failures[member.number]}")
                if not isinstance(error, InputError):
                    reporter.detail("".join(traceback.format_exception(error)))
            self._record(states, failures)
        self._record(states, failures)
        return self._results(states, failures)

    def _results(self, states: Mapping[int, State], failures: Mapping[int, str]) -> SuiteRun:
        done = [member for member in self.members if states[member.number] in DONE]
        finished = [FinishedMember.of(member, _opened(member)) for member in done]
        frame = suite_table(finished)
        results = self.folder / RESULTS.format(self.shard.suffix)
        write_bytes(results, frame.write_csv().encode())
        notes: list[str] = []
        report: Path | None = None
        figures: tuple[Path, ...] = ()
        if not self.shard.is_whole:
            notes = ["the same command without --shard makes the report of all runs"]
        elif finished:
            overview = members_table("All runs", self.members, states)
            by_number = {member.number: member.name for member in self.members}
            told = {by_number[number]: why for number, why in failures.items()}
            try:
                with needs_libraries():
                    from .suite_report import write_report
                report, figures = write_report(self.file.name, self.folder, overview, told, finished, frame)
            except InputError as error:  # such as a missing extra: the results are there all the same
                notes = [f"there is no report: {error}"]
        return SuiteRun(
            self.file, self.folder, self.members, states, failures, finished, frame, results, report, figures, notes
        )  # fmt: skip

    def _record(self, states: Mapping[int, State], failures: Mapping[int, str]) -> None:
        """suite.json: what was run from which file; after every member, so that it can be looked at meanwhile."""
        content = {
            "suite": self.file.name,
            "file": self.file.path.name,
            "sha256": self.file.sha256,
            "members": [
                _described(member, states, failures)
                | {
                    "reference": without_home_inside(member.model.reference),
                    "folder": member.folder.relative_to(self.folder).as_posix(),
                }
                for member in self.members
            ],
        }
        write_bytes(self.folder / RECORD.format(self.shard.suffix), json_bytes(content))


def _run_member(member: Member, opening: Opening, options: RunOptions) -> State:
    """Run a member's functions one after the other: one that goes on from a run gets the run before it."""
    model = ModelReference(member.model.reference, member.model.folder, opening)
    shared: dict[str, Any] = {key: value for key, value in options.items() if key not in {"shard", "started", "call"}}
    shared["output"] = member.folder
    if again := shared.pop("again", None):  # the suite's, not the run's
        shared["command"] = explicit(again, options.get("shard"), options.get("output"), shares_folder=True)
    run: Any = None
    for function in chain(member.probe.function):
        own = settings_of(function, member.probe.settings)
        if run is not None and run.dead_end:
            return State.EMPTY
        run = library_function(function)(run if goes_on(function) else model, **own, **shared)
    return State.FINISHED


def _opened(member: Member) -> Run:
    return finished_run(member) or open_run(member.folder)


def _opening(file: Opening, given: Opening) -> Opening:
    """How models are opened: as the call says, else as the file says."""
    return Opening(**{key: vars(file)[key] if value in {"auto", None} else value for key, value in vars(given).items()})


def _told(error: Exception) -> str:
    return (
        str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {first_line(error)} (a bug: see -v)"
    )
