"""The members of a suite: a run for each model and probe, with its folder and its state."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from ...basics.errors import InputError
from ...inference.exported import load_exported
from ...library.call import recorded_arguments
from ...library.finished import open_run
from ...library.registry import library_function
from ...library.run import Run
from ...runs.lock import holder
from ...runs.record import RUN_FILE, StageRecord, read_run
from .suite_file import SuiteFile, SuiteModel, SuiteProbe
from .suite_settings import chain, settings_of


class State(StrEnum):
    """How far a member is."""

    FINISHED = "finished"
    EMPTY = "empty"
    """Finished before its last function: nothing was left for it, as where a model repeats no verb."""
    BEGUN = "begun"
    RUNNING = "running"
    FAILED = "failed"
    NEW = "new"


DONE = frozenset({State.FINISHED, State.EMPTY})
"""The states in which nothing is left to be run."""


@dataclass(frozen=True)
class Member:
    """One run of a suite; they count from 1 in the order of the file, all probes of a model one after the other."""

    number: int
    model: SuiteModel
    probe: SuiteProbe
    folder: Path

    @property
    def name(self) -> str:
        return f"{self.probe.label} of {self.model.label}"


def members_of(file: SuiteFile, output: Path) -> list[Member]:
    """All members of a suite; a member's folder is `PROBE/MODEL` in the output."""
    found: list[Member] = []
    for model in file.models:
        for probe in file.probes:
            if probe.models is None or model.label in probe.models:
                folder = output / probe.label / model.label.replace("/", "--")
                found.append(Member(len(found) + 1, model, probe, folder))
    return found


def state_of(member: Member) -> State:
    """Nothing is changed."""
    if (run := finished_run(member)) is not None:
        return State.EMPTY if run.dead_end else State.FINISHED
    if not (member.folder / RUN_FILE).exists():
        return State.NEW
    return State.BEGUN if holder(member.folder) is None else State.RUNNING


def finished_run(member: Member) -> Run | None:
    """The finished run of a member; None if it has to be run. A run with a `dead_end` has nothing more to be run.

    A run with other settings or another model is not this member's, so it is run, which tells what differs.
    """
    try:
        run = open_run(member.folder)
        stages = read_run(member.folder).stages
    except InputError:
        return None
    calls: dict[str, Mapping[str, Any]] = {}
    for record in stages.values():
        call = record.metadata.get("call") or {}
        calls[str(call.get("function"))] = call.get("arguments") or {}
    for function in chain(member.probe.function):
        if function not in calls and run.dead_end:
            break
        own = recorded_arguments(library_function(function), settings_of(function, member.probe.settings))
        if own is None or calls.get(function) != own:
            return None
    return run if _is_of_model(run.record, member.model) else None


def begun_last(members: Sequence[Member], states: Mapping[int, State]) -> list[Member]:
    """The members that are not finished, those last that were begun before: one of them may have ended the program."""
    todo = [member for member in members if states[member.number] not in DONE]
    return sorted(todo, key=lambda member: states[member.number] is not State.NEW)


def _is_of_model(record: StageRecord, model: SuiteModel) -> bool:
    """Whether a run was made with the export that is there now; true if there is none."""
    call = record.metadata.get("call") or {}
    task = str((call.get("model") or {}).get("task", "fill-mask"))
    with suppress(InputError):
        exported = load_exported(model.folder or model.reference, task=task)
        return bool(record.identity.get("model sha256") == exported.sha256)
    return True
