"""The results of a run against each other: files and digests, parts and tables, tables and items, plain recounts."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import polars as pl

from ...errors import InputError
from ...library.registry import run_class, stages
from ...library.run import Run
from ...runs.lock import LOCK_FILE
from ...runs.record import PARTS_FOLDER, RUN_FILE, SESSIONS_FOLDER
from ...runs.results import put_together
from ...runs.stage import FinishedParts, Stage
from .checks import Check, Outcome, named, one_line
from .stored import StoredStage
from .tables import difference

_AS_WRITTEN = "final files are as they were written"
_PARTS_WHOLE = "parts are as they were written"
_FROM_PARTS = "tables are those of the parts"
_FROM_ITEMS = "tables follow from {}"


def check_results(stored: StoredStage) -> Iterator[Check]:
    """All checks of a stage that need no model.

    Args:
        stored: The stage.
    """
    files = _final_files(stored)
    if files is not None:
        yield files
    yield _parts(stored)
    if not stored.record.finished or not stored.shard.is_whole:
        why = "the stage is not finished" if stored.shard.is_whole else "`merge` makes the tables of shards"
        yield Check(stored.name, _FROM_PARTS, outcome=Outcome.NOT_CHECKED, detail=why)
        return
    if stored.unlike:
        yield Check(stored.name, _FROM_PARTS, outcome=Outcome.NOT_CHECKED, detail="final files are damaged")
        return
    stage = stages().get(stored.name)
    if stage is None:
        why = f"no probe here makes the results of {stored.name}; is the package that made them installed?"
        yield Check(stored.name, _FROM_PARTS, outcome=Outcome.NOT_CHECKED, detail=why)
        return
    of_parts = _tables_of_parts(stored, stage)
    yield of_parts
    if of_parts.outcome is not Outcome.OK:
        yield _tables_of_items(stored, stage)
    yield from _recounts(stored, of_parts)


def foreign_files(stored: list[StoredStage]) -> list[str]:
    """The files of a run folder that no stage has written, by name.

    Args:
        stored: All stages of the folder; at least one.
    """
    folder = stored[0].folder
    own = {RUN_FILE, LOCK_FILE, PARTS_FOLDER, SESSIONS_FOLDER}
    for stage in stored:
        own |= {stage.marker.name, *stage.record.files}
    names = [path.name for path in sorted(folder.iterdir()) if path.name not in own]
    parts = folder / PARTS_FOLDER
    known = {stage.name for stage in stored}
    inner = sorted(parts.iterdir()) if parts.is_dir() else []
    names += [f"{PARTS_FOLDER}/{path.name}" for path in inner if path.name not in known]
    return [*names, *(name for stage in stored for name in stage.parts.foreign)]


def _final_files(stored: StoredStage) -> Check | None:
    record = stored.record
    check = Check(stored.name, _AS_WRITTEN, len(record.files), "files")
    if not stored.shard.is_whole:
        return None
    if not record.finished:
        return replace(check, outcome=Outcome.NOT_CHECKED, detail="the stage is not finished", repair=stored.resume)
    if stored.unlike:
        missing = [name for name in stored.unlike if not (stored.folder / name).is_file()]
        changed = [name for name in stored.unlike if name not in missing]
        said = [f"{named(missing)} missing"] * bool(missing) + [f"{named(changed)} changed"] * bool(changed)
        return replace(check, outcome=Outcome.DAMAGED, detail=", ".join(said), repair=stored.resume)
    return check


def _parts(stored: StoredStage) -> Check:
    parts = stored.parts
    missing = parts.expected - parts.there
    check = Check(stored.name, _PARTS_WHOLE, parts.there, "parts")
    is_needed = not (stored.shard.is_whole and stored.record.finished)
    if parts.damaged:
        numbers = [stored.part(number).rows.name for number in parts.damaged]
        repair = stored.resume if is_needed else stored.publish_again
        return replace(check, outcome=Outcome.DAMAGED, detail=f"{named(numbers)} damaged", repair=repair)
    if missing and stored.record.finished and is_needed:
        detail = f"{missing:,} of {parts.expected:,} are missing"
        return replace(check, outcome=Outcome.DAMAGED, detail=detail, repair=stored.resume)
    if missing and stored.record.finished:
        return replace(check, outcome=Outcome.NOT_KEPT, detail=f"{missing:,} of {parts.expected:,} are not kept")
    return replace(check, detail=f"{missing:,} are still to do" if missing else "")


def _tables_of_parts(stored: StoredStage, stage: type[Stage[Any, Any]]) -> Check:
    check = Check(stored.name, _FROM_PARTS)
    if not stored.parts.are_whole:
        if stored.parts.damaged:
            return replace(check, outcome=Outcome.NOT_CHECKED, detail="parts are damaged")
        return replace(check, outcome=Outcome.NOT_KEPT, detail="parts are not kept")
    together = put_together(stored.folder, stored.name, stored.record)
    check = replace(check, n=int(together.counts.get("rows", 0)), unit="rows")
    if together.counts != stored.record.counts:
        keys = [key for key in together.counts if together.counts[key] != stored.record.counts.get(key)]
        detail = f"{stored.marker.name} has other counts than the parts ({named(keys) or 'more counts'})"
        return replace(check, outcome=Outcome.DAMAGED, detail=detail, repair=stored.publish_again)
    return _published(check, stored, stage, together)


def _tables_of_items(stored: StoredStage, stage: type[Stage[Any, Any]]) -> Check:
    """The other tables made again from the rows of the final file that has those of all parts."""
    name = stage.rows_file
    check = Check(stored.name, _FROM_ITEMS.format(name or "the items"))
    if name is None or name not in stored.record.files:
        return replace(check, outcome=Outcome.NOT_CHECKED, detail="no file has the rows of all parts")
    names = [name, *(further for further in stage.further_rows_files if further in stored.record.files)]
    try:
        rows = stage.rows_of({own: pl.scan_parquet(stored.folder / own) for own in names})
        n = int(rows.select(pl.len()).collect().item())
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        detail = f"{named(names)} cannot be read ({one_line(error)})"
        return replace(check, outcome=Outcome.DAMAGED, detail=detail, repair=stored.publish_again)
    parts = FinishedParts(stored.folder, rows, stored.record.counts, stored.record.metadata)
    return _published(replace(check, n=n, unit="rows"), stored, stage, parts)


def _published(check: Check, stored: StoredStage, stage: type[Stage[Any, Any]], parts: FinishedParts) -> Check:
    """What `publish` makes of rows against the final files."""
    damaged = replace(check, outcome=Outcome.DAMAGED, repair=stored.publish_again)
    try:
        files = stage.publish(parts)
    except Exception as error:  # noqa: BLE001 - rows that are wrong can make any error
        return replace(damaged, detail=f"the tables cannot be made ({one_line(error)})")
    if set(files) != set(stored.record.files):
        detail = f"{stored.marker.name} lists {named(sorted(stored.record.files))}; {named(sorted(files))} are right"
        return replace(damaged, detail=detail)
    for name, content in files.items():
        if said := difference(stored.folder / name, content):
            return replace(damaged, detail=f"{name}: {said}")
    return check


def _recounts(stored: StoredStage, of_parts: Check) -> Iterator[Check]:
    """The plain recounts of the stage's run. Where the parts say the same as the tables, the parts are wrong, too."""
    found = run_class(stored.name)
    if found is None:
        return
    repair = stored.publish_again if of_parts.is_damage else stored.decide_again
    what = "a plain recount of the tables"
    try:
        run: Run = found.open(stored.folder)
        for recount in run.recounts():
            check = Check(stored.name, recount.what, recount.n, "rows")
            damaged = replace(check, outcome=Outcome.DAMAGED, detail=recount.wrong, repair=repair)
            yield damaged if recount.wrong else check
    except (InputError, pl.exceptions.PolarsError, LookupError, TypeError, ValueError) as error:
        detail = f"the tables cannot be counted again ({one_line(error)})"
        yield Check(stored.name, what, outcome=Outcome.DAMAGED, detail=detail, repair=repair)
