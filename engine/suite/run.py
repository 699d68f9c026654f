"""`ng.suite`: run all members of a suite file; a member that fails does not stop the others."""

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

from ..errors import InputError, first_line
from ..files.atomic import json_bytes, make_folder, write_bytes
from ..files.home import without_home_inside
from ..library.model import ModelReference, check_opening
from ..library.open import open_run
from ..library.options import RUNS, RunOptions, explicit, shard_of
from ..library.registry import library_function
from ..library.run import Run
from ..runs.lock import holder
from ..runs.progress import Reporter
from ..runs.shard import Shard
from .file import Opening, SuiteFile
from .members import DONE, Member, State, begun_last, finished_run, members_of, state_of
from .results import SuitePlan, SuiteRun, members_table
from .settings import chain, goes_on, settings_of
from .table import FinishedMember, suite_table

RESULTS, RECORD = "results{}.csv", "suite{}.json"


def suite(
    file: str | Path,
    *,
    device: str = "auto",
    precision: str = "auto",
    batch_tokens: int | None = None,
    threads: int | None = None,
    **options: Unpack[RunOptions],
) -> SuiteRun:
    """Run models × probes × settings from a TOML file; see the page on suites in the documentation.

    Members that are finished are not run again. A member that fails does not stop the others. At the end there are one
    table and one report of all runs that are finished.

    Args:
        file: The suite file.
        device: As for `load`; `auto` takes what the file says.
        precision: As for `load`; `auto` takes what the file says.
        batch_tokens: As for `load`.
        threads: As for `load`.
        **options: See `RunOptions`. `output` is the folder of the suite, `runs/NAME-OF-THE-FILE` by default. A shard
            I/N is every N-th run: many jobs can share a suite. The same call without a shard makes table and report.

    Returns:
        The states of all members, their runs and their table.

    Raises:
        InputError: The file is wrong, or the folder cannot be written. What a single member lacks is told at the end.
    """
    check_opening(device, precision)
    found = _Suite.read(file, options)
    given = {"device": device, "precision": precision, "batch_tokens": batch_tokens, "threads": threads}
    return found.run(_opening(found.file.opening, given), options)


def plan_suite(file: str | Path, **options: Unpack[RunOptions]) -> SuitePlan:
    """The members of a suite and how far each is. Nothing is run or written.

    Args:
        file: As for `suite`.
        **options: Output and shard count.

    Raises:
        InputError: The file is wrong.
    """
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

    def run(self, opening: Mapping[str, Any], options: RunOptions) -> SuiteRun:
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
            from .report import write_report  # it needs the extra `report`

            overview = members_table("All runs", self.members, states)
            by_number = {member.number: member.name for member in self.members}
            told = {by_number[number]: why for number, why in failures.items()}
            try:
                written = write_report(self.file.name, self.folder, overview, told, finished, frame)
                report, figures = written.report, tuple(written.figures)
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
                {
                    "probe": member.probe.label,
                    "function": member.probe.function,
                    "settings": dict(member.probe.settings),
                    "model": member.model.label,
                    "reference": without_home_inside(member.model.reference),
                    "step": member.model.step,
                    "folder": member.folder.relative_to(self.folder).as_posix(),
                    "state": str(states[member.number]),
                    **({"failure": failures[member.number]} if member.number in failures else {}),
                }
                for member in self.members
            ],
        }
        write_bytes(self.folder / RECORD.format(self.shard.suffix), json_bytes(content))


def _run_member(member: Member, opening: Mapping[str, Any], options: RunOptions) -> State:
    """Run a member's functions one after the other: one that goes on from a run gets the run before it."""
    model = ModelReference(member.model.reference, member.model.folder, **opening)
    shared: dict[str, Any] = {key: value for key, value in options.items() if key not in {"shard", "started", "call"}}
    shared["output"] = member.folder
    if "command" in shared:
        shared["command"] = explicit(shared["command"], options)
    run: Any = None
    for function in chain(member.probe.function):
        own = settings_of(function, member.probe.settings)
        if run is not None and run.dead_end:
            return State.EMPTY
        run = library_function(function)(run if goes_on(function) else model, **own, **shared)
    return State.FINISHED


def _opened(member: Member) -> Run:
    return finished_run(member) or open_run(member.folder)


def _opening(file: Opening, given: Mapping[str, Any]) -> dict[str, Any]:
    """How models are opened: as the call says, else as the file says."""
    said = {
        "device": file.device,
        "precision": str(file.precision),
        "batch_tokens": file.batch_tokens,
        "threads": file.threads,
    }
    return {key: said[key] if value in {"auto", None} else value for key, value in given.items()}


def _told(error: Exception) -> str:
    return (
        str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {first_line(error)} (a bug: see -v)"
    )
