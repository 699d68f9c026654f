"""`ng.suite`: run all members of a suite file; a member that fails does not stop the others."""

import shutil
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Unpack

import polars as pl

from ...basics.atomic import json_bytes, make_place, write_bytes
from ...basics.choices import Precision
from ...basics.errors import InputError, first_line, needs_extra
from ...basics.option import Opening
from ...basics.paths import shell_command, without_home_inside
from ...basics.printable import counted
from ...experiments.registry import experiment, library_function
from ...library.call import in_python, in_suite, strict
from ...library.model import ModelReference
from ...library.options import RUNS, AllOptions, RunOptions, divided, explicit, shard_of
from ...library.run import Run
from ...library.shown import Shown
from ...runs.lock import holder
from ...runs.masked_stages import needs_fp32
from ...runs.progress import Reporter
from ...runs.shard import Shard
from ...views import Column, Table
from ..finished import open_run
from ..report.report import LIBRARIES
from .suite_file import SuiteFile, SuiteModel, as_text, chain, folder_name, settings_of
from .suite_members import DONE, Member, State, finished_run, members_of, model_tables, state_of, suite_table

RESULTS, RECORD, EXPORTS = "results{}.csv", "suite{}.json", "exports{}"
_COLUMNS = ("run", "state", "probe", "model", "step", "settings", "folder")


def members_table(title: str, members: Sequence[Member], states: Mapping[int, State]) -> Table:
    """A line for each member of a suite."""
    rows = [
        (
            member.number,
            str(states[member.number]),
            member.probe.label,
            member.model.label,
            member.model.step,
            ", ".join(f"{key} {as_text(value)}" for key, value in member.probe.settings.items()),
            str(member.folder),
        )
        for member in members
    ]
    kinds = {**dict.fromkeys(_COLUMNS, pl.String), "run": pl.Int64, "step": pl.Int64}
    frame = pl.DataFrame(rows, schema=kinds, orient="row")
    shown = [name for name in _COLUMNS[:-1] if set(frame[name].cast(pl.String)) - {None, ""}]
    return Table(title, frame, [Column(name, name, decimals=0 if name == "step" else None) for name in shown])


@dataclass(frozen=True, eq=False)
class SuitePlan(Shown):
    """The members of a suite, or those of a shard, and how far they are. Nothing was run."""

    file: SuiteFile
    members: Sequence[Member]
    states: Mapping[int, State]  # by a member's number
    folder: Path
    failures: Mapping[int, str] = field(default_factory=dict)  # number of a member → why it failed

    def tables(self) -> list[Table]:
        return [members_table(f"{self.file.name}: {counted(len(self.members), 'run')}", self.members, self.states)]

    def remarks(self) -> list[str]:
        counts = Counter(self.states[member.number] for member in self.members)
        told = ", ".join(f"{counts[state]:,} {state}" for state in State if counts[state])
        return [f"{counted(len(self.members), 'run')}: {told}", *self.file.notes]

    def closing(self) -> str:
        return f"Nothing was run. Without --plan, the runs and their results are written to {self.folder}"

    def described(self) -> list[dict[str, Any]]:
        return [
            {
                "number": member.number,
                "state": str(self.states[member.number]),
                "probe": member.probe.label,
                "function": member.probe.function,
                "settings": dict(member.probe.settings),
                "model": member.model.label,
                "reference": member.model.reference,
                "series": member.model.series,
                "step": member.model.step,
                "folder": str(member.folder),
                "failure": self.failures.get(member.number),
            }
            for member in self.members
        ]

    def document(self) -> dict[str, Any]:
        return {"suite": self.file.name, "members": self.described()}


@dataclass(frozen=True, eq=False, kw_only=True)
class SuiteRun(SuitePlan):
    """A suite that has been run.

    Attributes:
        frame: A row for each run and group of items; the file `results` has the same.
        notes: What else to know, a line each.
        command: The command that runs the others, where not all are finished.
    """

    finished: Sequence[tuple[Member, Run]] = field(repr=False)
    frame: pl.DataFrame = field(repr=False)
    results: Path = field(repr=False)
    report: Path | None = None
    figures: Sequence[Path] = ()
    notes: Sequence[str] = ()
    command: str = ""

    @property
    def is_finished(self) -> bool:
        return all(self.states[member.number] in DONE for member in self.members)

    @cached_property
    def runs(self) -> dict[tuple[str, str], Run]:
        """Probe and model, as the suite labels them → the finished run."""
        return {(member.probe.label, member.model.label): run for member, run in self.finished}

    def main_tables(self) -> list[Table]:
        return self.tables(brief=True)

    def tables(self, *, brief: bool = False) -> list[Table]:
        rest = [member for member in self.members if self.states[member.number] not in DONE]
        unfinished = [members_table("Runs that are not finished", rest, self.states)] if rest else []
        return [*unfinished, *model_tables(self.frame, self.finished, brief=brief)]

    def remarks(self) -> list[str]:
        failed = [f"{own.name}: {self.failures[own.number]}" for own in self.members if own.number in self.failures]
        empty = [f"{member.name}: {run.dead_end}" for member, run in self.finished if run.dead_end]
        return [*super().remarks(), *failed, *empty, *self.notes]

    def closing(self) -> str:
        others = [name for name, made in (("report.html", self.report), ("figures/", self.figures)) if made]
        *first, last = [self.results.name, *others]
        written = f"{', '.join(first)} and {last} are written" if first else f"{last} is written"
        if self.is_finished:
            return f"{self.folder}: {written}"
        return f"{self.folder}: {written}; not all runs are finished (status 3): to run the others, `{self.command}`"

    def document(self) -> dict[str, Any]:
        return super().document() | {
            "folder": str(self.folder),
            "finished": self.is_finished,
            "estimates": self.frame.to_dicts(),
            "report": None if self.report is None else str(self.report),
            "figures": [str(path) for path in self.figures],
            "notes": list(self.notes),
        }


@strict
def suite(file: str | Path, **options: Unpack[AllOptions]) -> SuiteRun:
    """Run models × experiments × settings from a TOML file; see the page on suites in the documentation.

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
    plan, opening, shared = _read(file, options)
    folder, shard = plan.folder, shard_of(shared)
    again = shared.get("again") or shell_command(["negengine", "suite", str(file)])
    command = explicit(again, shared.get("shard"), shared.get("output"), shares_folder=True)
    reporter = Reporter(verbose=shared.get("verbose", False), silent=not shared.get("progress", True))
    for name in (RESULTS, RECORD):
        make_place(folder / name.format(shard.suffix))
    plan = _run_members(plan, opening, shared, reporter)
    done = [member for member in plan.members if plan.states[member.number] in DONE]
    runs = [replace(finished_run(one) or open_run(one.folder), label=one.model.label) for one in done]
    finished = list(zip(done, runs, strict=True))
    frame = suite_table(finished)
    results = folder / RESULTS.format(shard.suffix)
    write_bytes(results, frame.write_csv().encode())
    found = SuiteRun(
        plan.file, plan.members, plan.states, plan.folder, plan.failures,
        finished=finished, frame=frame, results=results, command=command,
    )  # fmt: skip
    if not shard.is_whole:
        return replace(found, notes=["the same command without --shard makes the report of all runs"])
    if not finished:
        return found
    try:
        with needs_extra(*LIBRARIES):
            from .suite_report import write_report
        overview = members_table("All runs", plan.members, plan.states)
        report, figures = write_report(plan.file.name, folder, overview, plan.failures, finished, frame)
    except InputError as error:  # such as a missing extra: the results are there all the same
        return replace(found, notes=[f"there is no report: {error}"])
    return replace(found, report=report, figures=figures)


def plan_suite(file: str | Path, **options: Unpack[AllOptions]) -> SuitePlan:
    """The members of a suite and how far each is; nothing is run or written. Raises InputError if the file is wrong."""
    return _read(file, options)[0]


def _read(file: str | Path, options: AllOptions) -> tuple[SuitePlan, Opening, RunOptions]:
    said, shared = divided(options)
    given = Opening(**said)  # type: ignore[arg-type]  # a precision by its name
    content = SuiteFile.read(Path(file))
    of_file = vars(content.opening)
    opening = Opening(**{key: of_file[key] if value in {"auto", None} else value for key, value in vars(given).items()})
    if opening.is_mixed:
        for probe in content.probes:  # before another one has run
            if not all(experiment(name).mixes for name in chain(probe.function)):
                raise InputError(f"{probe.where}: {needs_fp32(probe.function)}")
    folder = Path(str(shared["output"])) if shared.get("output") else RUNS / content.path.stem
    members = members_of(content, folder)
    if not members:
        raise InputError(f"{file}: no probe is for any of its models")
    own = [members[number] for number in shard_of(shared).parts(len(members))]
    return SuitePlan(content, own, {member.number: state_of(member) for member in own}, folder), opening, shared


def _run_members(plan: SuitePlan, opening: Opening, options: RunOptions, reporter: Reporter) -> SuitePlan:
    name, total, states, failures = plan.file.name, len(plan.members), dict(plan.states), dict(plan.failures)
    plan = replace(plan, states=states, failures=failures)
    todo = [member for member in plan.members if states[member.number] not in DONE]
    todo.sort(key=lambda member: states[member.number] is not State.NEW)  # one begun before may have ended the program
    if len(todo) < total:
        reporter.say(f"{name}: {total - len(todo):,} of {total:,} runs are finished")
    exports = plan.folder / EXPORTS.format(shard_of(options).suffix)
    for number, member in enumerate(todo, start=1):
        reporter.say(f"{name}: run {member.number} of {total:,}, {member.name}")
        own, given = member.model, exporting(plan.file, member.model, opening)
        aside = None if plan.file.keep_exports else exports / folder_name(own.label)
        model = ModelReference(own.reference, own.folder, aside, opening, given)
        try:
            states[member.number] = _run_member(member, model, options)
        except Exception as error:  # noqa: BLE001 - whatever it is, the other members must run
            known = isinstance(error, InputError)
            why = str(error) if known else f"{type(error).__name__}: {first_line(error)} (a bug: see -v)"
            failures[member.number] = why
            states[member.number] = State.FAILED if holder(member.folder) is None else State.RUNNING
            reporter.say(f"{name}: {member.name} failed: {why}")
            if not known:
                reporter.detail("".join(traceback.format_exception(error)))
        if aside is not None and all(later.model is not own for later in todo[number:]):
            shutil.rmtree(aside, ignore_errors=True)
        _record(plan, shard_of(options))
    if not plan.file.keep_exports:
        shutil.rmtree(exports, ignore_errors=True)
    _record(plan, shard_of(options))
    return plan


def _record(plan: SuitePlan, shard: Shard) -> None:
    """suite.json: what was run from which file; after every member, so that it can be looked at meanwhile."""
    members = plan.described()
    for own in members:
        own["reference"] = without_home_inside(own["reference"])
        own["folder"] = Path(own["folder"]).relative_to(plan.folder).as_posix()
    content = {"suite": plan.file.name, "file": plan.file.path.name, "sha256": plan.file.sha256, "members": members}
    write_bytes(plan.folder / RECORD.format(shard.suffix), json_bytes(content))


def exporting(file: SuiteFile, model: SuiteModel, opening: Opening) -> dict[str, Any]:
    """How a model is exported on first use: in fp32 alone if none of its runs has a use for other graphs."""
    probes = (probe for probe in file.probes if probe.models is None or model.label in probe.models)
    mixes = any(experiment(name).mixes for probe in probes for name in chain(probe.function))
    precision = Precision.AUTO if mixes and not opening.is_exact else Precision.FP32
    return {"allow_pickle": model.allow_pickle, "precision": precision}


def _run_member(member: Member, model: ModelReference, options: RunOptions) -> State:
    shared: dict[str, Any] = {key: value for key, value in options.items() if key not in {"shard", "started", "call"}}
    shared["output"] = member.folder
    if again := shared.pop("again", None):  # the suite's, not the run's
        shared["command"] = explicit(again, options.get("shard"), options.get("output"), shares_folder=True)
    run: Any = None
    for function in chain(member.probe.function):
        own = settings_of(function, member.probe.settings)
        if run is not None and run.dead_end:
            return State.EMPTY
        call = in_suite(library_function(function))
        call = call if again else in_python(call)  # a command names options
        run = call(run if experiment(function).goes_on_from else model, **own, **shared)
    return State.FINISHED
