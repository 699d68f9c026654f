"""`ng.reproduce`: run again what a run has recorded, all stages, and say what differs."""

import inspect
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from ...basics.choices import Task
from ...basics.errors import InputError
from ...basics.frames import schema_of
from ...basics.option import Opening, options_of
from ...basics.option_values import refuse_faults
from ...basics.paths import with_home
from ...basics.reading import exists, file_sha256, is_file
from ...experiments.registry import experiment, library_function
from ...inference.device import choose_devices
from ...inference.exported import load_exported
from ...library.call import IN_MEMORY, as_given, files_in
from ...library.model import Model
from ...library.run import model_of
from ...library.shown import Shown
from ...runs.record import StageRecord, differences, read_run
from ...runs.results import finished_stage, read_document, read_frame
from ...views import Column, Table
from ..file_differences import file_differences
from .usage import usage

_CALL = {"function": str, "arguments": dict, "model": dict}
SAME = "same bytes"


@dataclass(frozen=True)
class FileDifference:
    """One file of two runs, or one column or key of it."""

    file: str
    result: str  # `same bytes`, or what is different: the values of the new run, and not those of the old one


@dataclass(frozen=True, eq=False)
class Reproduction(Shown):
    """A run, and the same run again.

    Attributes:
        differences: One entry for each file with the same bytes, and for each column or key that differs.
        conditions: What the two ran with and on, where it differs; a line each.
    """

    folder: Path
    again: Path
    differences: list[FileDifference]
    conditions: list[str]

    @property
    def is_same(self) -> bool:
        return all(found.result == SAME for found in self.differences)

    @property
    def frame(self) -> pl.DataFrame:
        return pl.DataFrame([asdict(one) for one in self.differences], schema_of(FileDifference))

    def tables(self) -> list[Table]:
        columns = [Column("file", "file", wrap=False), Column("the new run", "result")]
        return [Table("The run, and the same run again", self.frame, columns)]

    def remarks(self) -> list[str]:
        other = sorted({found.file for found in self.differences if found.result != SAME})
        verdict = f"{self.again} differs from {self.folder} in {', '.join(other)}."
        return [
            f"{self.again} has the same bytes as {self.folder}." if self.is_same else verdict,
            *(f"Different: {line}" for line in self.conditions),
        ]

    def closing(self) -> str:
        again, folder = (shlex.quote(str(path)) for path in (self.again, self.folder))
        next_ = f"negengine cite {again}" if self.is_same else f"negengine report {folder} {again}"
        return f"{self.again}: the new run is written; next, `{next_}`"

    def document(self) -> dict[str, Any]:
        return {
            "run": str(self.folder),
            "again": str(self.again),
            "same": self.is_same,
            "differences": self.frame.to_dicts(),
            "conditions": self.conditions,
        }


def reproduce(
    run: str | Path,
    output: str | Path,
    *,
    model: str | Path | None = None,
    device: str | None = None,
    progress: bool = True,
    command: str | None = None,
) -> Reproduction:
    """Run the same again from what a run has recorded, and say what differs.

    Args:
        run: The folder of a finished run.
        output: The folder of the new run. If it holds a part of this reproduction, that is continued.
        model: The folder of the run's model now, if it was moved.
        device: Where it runs; by default the kind of device that the run has recorded.
        progress: Whether to show how far it is.
        command: The command line for run.json; by default the script that runs.

    Raises:
        InputError: The run is not finished, or has not recorded how it was made; the model or a file of data is
            missing or another one; or as for the run's own function.
    """
    source, target = Path(run), Path(output)
    if source.resolve() == target.resolve():
        raise InputError(f"{target}: the run itself; give another --output for the run that is made again")
    names = list(read_run(source).stages)
    old = {name: finished_stage(source, name) for name in names}
    if not old:
        raise InputError(f"{source}: this run was stopped before its first part; there is nothing to make again")
    calls = _calls(source, old)
    for call, record in calls:
        _refuse_missing_files(source, call, record)
    opened = _model(source, *calls[0], model, device)
    changed = f"{source}: run.json was changed"
    options: dict[str, Any] = {"output": target, "progress": progress, **({"command": command} if command else {})}
    for call, _ in calls:
        function = library_function(call["function"])
        if function is None:
            raise InputError(f"{source}: no probe here has the function {call['function']}; is its package installed?")
        arguments = {name: as_given(value) for name, value in call["arguments"].items()}
        # The record may come from elsewhere: it decides neither where the run is written nor who works.
        refuse_faults(function.__name__, options_of(experiment(call["function"])), arguments, lambda _: changed)
        if "run" in inspect.signature(function).parameters:  # it goes on from the stage before
            function(target, model=opened, **arguments, **options)
        else:
            function(opened, **arguments, **options)
    new = {name: finished_stage(target, name) for name in names}
    found = [one for name in names for one in compare_stage(old[name], new[name], source, target)]
    return Reproduction(source, target, found, other_conditions([*old.values()], [*new.values()]))


def _calls(source: Path, stages: dict[str, StageRecord]) -> list[tuple[dict[str, Any], StageRecord]]:
    found: list[tuple[dict[str, Any], StageRecord]] = []
    for name, record in stages.items():
        call = record.metadata.get("call")
        if not isinstance(call, dict) or not _CALL.items() <= {key: type(own) for key, own in call.items()}.items():
            raise InputError(f"{source}: run.json does not tell which call made {name}, so it cannot be made again")
        model = {name: call["model"].get(name) for name in options_of(Opening)}
        refuse_faults("a model", options_of(Opening), model, lambda _: f"{source}: run.json was changed")
        if not isinstance(call["model"].get("folder"), str) or call["model"].get("task") not in [*Task]:
            raise InputError(f"{source}: run.json does not tell which model made {name}, so it cannot be made again")
        if not found or found[-1][0]["function"] != call["function"]:
            found.append((call, record))
    return found


def _refuse_missing_files(source: Path, call: dict[str, Any], record: StageRecord) -> None:
    """Refuse if a file of the call is missing, or has another content; the digests of folders are in the identity."""
    for name, value in call["arguments"].items():
        if isinstance(value, dict) and set(value) == {IN_MEMORY}:
            raise InputError(
                f"{source} was made from a {value[IN_MEMORY]} in memory, which no file holds: call {call['function']} "
                "again with it"
            )
        for entry in files_in(value):
            path = with_home(entry["path"])
            digest = entry.get("sha256") or record.identity.get(f"{name} sha256")
            told = f" (sha256 {digest})" if digest else ""
            if not exists(path):
                raise InputError(f"{source} was made with --{name} {path}{told}, which is missing: put it there again")
            if "sha256" in entry and (not is_file(path) or file_sha256(path) != entry["sha256"]):
                raise InputError(f"{path} is not the file that {source} was made with{told}: put that file there again")


def _model(
    source: Path, call: dict[str, Any], record: StageRecord, moved_to: str | Path | None, device: str | None
) -> Model:
    """The model of the run, opened as it was then; a missing or other one is an `InputError`."""
    recorded = call["model"]
    exported = model_of(source, record, moved_to, partial(load_exported, task=recorded.get("task")))
    opening = Opening(**{name: recorded[name] for name in options_of(Opening)} | ({"device": device} if device else {}))
    return Model(exported, choose_devices(opening.device), opening)


def compare_stage(old: StageRecord, new: StageRecord, first: Path, second: Path) -> Iterator[FileDifference]:
    """How the final files of a stage differ; a file that was changed since its run wrote it is an `InputError`."""
    for name in dict.fromkeys([*old.files, *new.files]):
        if name not in old.files or name not in new.files:
            yield FileDifference(name, f"only in {first if name in old.files else second}")
        elif old.files[name] == new.files[name]:
            yield FileDifference(name, SAME)
        else:
            read = read_frame if name.endswith(".parquet") else read_document
            told = [*file_differences(second / name, read(first, old, name))] or ["same values, other bytes"]
            yield from (FileDifference(name, line) for line in told)


def other_conditions(old: Sequence[StageRecord], new: Sequence[StageRecord]) -> list[str]:
    """What the two ran with and on, where it differs: identity, versions, source, hardware, precision; a line each."""
    changed = [differences(first.identity, second.identity) for first, second in zip(old, new, strict=True)]
    lines = [f"identity: {own}" for own in changed if own]
    one, other = _conditions(old), _conditions(new)
    unlike = [key for key in {**one, **other} if one.get(key) != other.get(key)]
    return [*lines, *(f"{key}: {one.get(key, 'unknown')}, now {other.get(key, 'unknown')}" for key in unlike)]


def _conditions(stages: Sequence[StageRecord]) -> dict[str, str]:
    used = usage(stages)
    workers = [worker for stage in stages for own in stage.sessions for worker in own.workers]
    found = {
        **used.packages,
        "source": used.sources,
        "hardware": used.hardware,
        "system": used.systems,
        "threads": sorted({str(worker["threads"]) for worker in workers if "threads" in worker}),
        "precision": used.precisions,
        "tokens in a batch": [*map(str, used.batch_tokens)],
    }
    return {key: " and ".join(values) for key, values in found.items() if values}
