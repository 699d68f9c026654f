"""The members of a suite: a run for each model and probe, with its folder and its state; the one table of all."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import polars as pl

from ...basics.errors import InputError
from ...basics.numerals import FRACTION
from ...experiments.registry import library_function
from ...inference.exported import ChangedError, load_exported
from ...library.run import Run
from ...runs.lock import holder
from ...runs.record import RUN_FILE, read_run
from ...views import Table
from ..comparison.estimates import (
    GROUP,
    MODEL,
    PRINTED,
    estimates,
    estimates_tables,
    main_items,
    other_items,
    outcomes_of,
)
from ..finished import open_run
from .suite_file import SuiteFile, SuiteModel, SuiteProbe, chain, folder_name, settings_of


class State(StrEnum):
    """How far a member is."""

    FINISHED = "finished"
    EMPTY = "empty"  # finished before its last function: nothing was left for it, as where a model repeats no verb
    BEGUN = "begun"
    RUNNING = "running"
    FAILED = "failed"
    NEW = "new"


DONE = frozenset({State.FINISHED, State.EMPTY})


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
                folder = output / probe.label / folder_name(model.label)
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
    """The finished run of a member; None if it has to be run: other settings or another model tell what differs."""
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
        own = library_function(function).recorded_arguments(**settings_of(function, member.probe.settings))
        if calls.get(function) != own:
            return None
    task = str(((run.record.metadata.get("call") or {}).get("model") or {}).get("task", "fill-mask"))
    try:
        exported = load_exported(member.model.reference, task=task, place=member.model.folder)
    except ChangedError:
        return None
    except InputError:  # there may be no export now
        return run
    return run if run.record.identity.get("model sha256") == exported.sha256 else None


_SCHEMA = {"probe": pl.String, "series": pl.String, "step": pl.Int64, "revision": pl.String, "folder": pl.String}


FinishedMember = tuple[Member, Run]  # the run has the label of the member's model


def suite_table(finished: Sequence[FinishedMember]) -> pl.DataFrame:
    """The estimates of all runs that have items to compare; each is read and given back, so a suite may have many.

    Columns: probe, model, series (its training run), step (null for a model that is not a checkpoint of one), revision
    (the hub's commit, or the digest of a local checkpoint), those of `estimates`, and folder.
    """
    frames = []
    for member, run in finished:
        with suppress(InputError):  # a run without items to compare
            outcomes = main_items(outcomes_of(run), run.by_construction, every=True)
            found = estimates({member.model.label: outcomes}, GROUP, run.drop_of)
            model, export = member.model, run.record.metadata.get("export") or {}
            said = (member.probe.label, model.series, model.step, export.get("revision"), str(run.folder))
            of = zip(_SCHEMA.items(), said, strict=True)
            label, *others, folder = (pl.lit(value, dtype=kind).alias(name) for (name, kind), value in of)
            frames.append(found.select(label, MODEL, *others, pl.exclude(MODEL), folder))
    if not frames:
        return pl.DataFrame(schema={"probe": pl.String, "model": pl.String})
    found = pl.concat(frames, how="diagonal_relaxed")
    # The values of a group are rates only if they are so for all models.
    rates = (pl.col("unit") == FRACTION).all().over("probe", *GROUP)
    return found.with_columns(unit=pl.when(rates).then(pl.lit(FRACTION)).otherwise(pl.lit("")))


def model_tables(found: pl.DataFrame, finished: Sequence[FinishedMember], *, brief: bool) -> list[Table]:
    """A table for each probe, models side by side; `brief` ones have whole data sets alone where groups are many."""
    tables = []
    for probe in dict.fromkeys(member.probe.label for member, _ in finished):
        own = found.filter(pl.col("probe") == probe)
        runs = [run for member, run in finished if member.probe.label == probe]
        if own.is_empty():
            tables += [replace(table, title=f"{probe}: {table.title}") for run in runs for table in run.tables()]
            continue
        notes, about = list[str](), other_items(own)
        if brief and (count := own.select(GROUP).n_unique()) > PRINTED:
            whole = own.filter(pl.col("column").is_null())
            first = own.select(GROUP).unique(maintain_order=True).head(PRINTED)
            own = whole if len(whole) else own.join(first, on=GROUP, how="semi", maintain_order="left")
            shown = "all items together" if len(whole) else f"the first {PRINTED} of {count} values of each model"
            notes = [f"{shown}; results.csv and -v have a row for each group, too"]
        made = estimates_tables(own, runs[0].clusters, about)
        tables += [replace(table, title=f"{probe}: {table.title}", notes=[*table.notes, *notes]) for table in made]
    return tables
