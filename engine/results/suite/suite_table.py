"""The one table of a suite: the estimates of all its runs, a row for each run and group of items."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import polars as pl

from ...basics.errors import InputError
from ...experiments.items import ALL
from ...library.run import Run
from ...views import Table
from ..comparison.estimates import (
    FITTING,
    GROUP,
    MODEL,
    PERCENT,
    PRINTED,
    estimates,
    estimates_tables,
    main_items,
    outcomes_of,
)
from .suite_members import Member

KEYS = ("probe", "model", "series", "step", "revision")
_SCHEMA = {"probe": pl.String, "series": pl.String, "step": pl.Int64, "revision": pl.String, "folder": pl.String}


@dataclass(frozen=True, eq=False)
class FinishedMember:
    """A member with its run; tables call the run by the member's model."""

    member: Member
    run: Run

    @classmethod
    def of(cls, member: Member, run: Run) -> "FinishedMember":
        """The member, with its label on the run."""
        return cls(member, replace(run, label=member.model.label))


def suite_table(finished: Sequence[FinishedMember]) -> pl.DataFrame:
    """The estimates of all runs that have items to compare; each is read and given back, so a suite may have many.

    Columns: probe, model, series (its training run), step (null for a model that is not a checkpoint of one), revision
    (the hub's commit, or the digest of a local checkpoint), those of `estimates`, and folder.
    """
    frames = [frame for one in finished if (frame := _estimates(one)) is not None]
    if not frames:
        return pl.DataFrame(schema={"probe": pl.String, MODEL: pl.String})
    found = pl.concat(frames, how="diagonal_relaxed")
    # A group is in percent only if it is so for all models.
    mixed = (pl.col("unit") != PERCENT).any().over("probe", *GROUP) & (pl.col("unit") == PERCENT)
    scaled = [pl.when(mixed).then(pl.col(name) / 100).otherwise(pl.col(name)) for name in ("value", "low", "high")]
    return found.with_columns(*scaled, unit=pl.when(mixed).then(pl.lit("")).otherwise("unit"))


def model_tables(found: pl.DataFrame, finished: Sequence[FinishedMember], *, fitting: bool) -> list[Table]:
    """The models side by side, a table for each probe; a run that has no items to compare has its own tables.

    `fitting` tables fit a terminal of 80 columns: of many groups, they have the whole data sets only.
    """
    tables = []
    for probe in dict.fromkeys(one.member.probe.label for one in finished):
        own = found.filter(pl.col("probe") == probe)
        runs = [one.run for one in finished if one.member.probe.label == probe]
        notes: list[str] = []
        if fitting and (count := own.select(GROUP).n_unique() if len(own) else 0) > PRINTED:
            whole = own.filter(pl.col("split") == ALL)
            first = own.select(GROUP).unique(maintain_order=True).head(PRINTED)
            own = whole if len(whole) else own.join(first, on=GROUP, how="semi", maintain_order="left")
            notes = [f"{own.select(GROUP).n_unique()} of {count} groups; results.csv and -v have all"]
        if own.is_empty():
            tables += [replace(table, title=f"{probe}: {table.title}") for run in runs for table in run.tables()]
            continue
        own = own.select([name for name in own.columns if own[name].null_count() < len(own) or name in {"low", "high"}])
        made = estimates_tables(own, runs[0].clusters, most=FITTING if fitting else PRINTED)
        tables += [replace(table, title=f"{probe}: {table.title}", notes=[*table.notes, *notes]) for table in made]
    return tables


def _estimates(one: FinishedMember) -> pl.DataFrame | None:
    """The estimates of one run; None for a run without items to compare, such as a selection."""
    member, run = one.member, one.run
    try:
        outcomes = main_items(outcomes_of(run, GROUP), run.by_construction)
    except InputError:
        return None
    found = estimates({member.model.label: outcomes}, GROUP, run.drop_of)
    export = run.record.metadata.get("export") or {}
    said = {
        "probe": member.probe.label,
        "series": member.model.series,
        "step": member.model.step,
        "revision": export.get("revision"),
        "folder": str(run.folder),
    }
    named = found.with_columns(pl.lit(value, dtype=_SCHEMA[name]).alias(name) for name, value in said.items())
    return named.select(*KEYS, *(name for name in found.columns if name != MODEL), "folder")
