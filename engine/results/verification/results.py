"""The results of a run against each other: files and digests, parts and tables, tables and items."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from ...basics.frames import scan_frame
from ...basics.printable import some
from ...basics.reading import files_below, paths_in
from ...experiments.registry import stages
from ...runs.lock import LOCK_FILE
from ...runs.part import PartFiles
from ...runs.record import PARTS_FOLDER, RUN_FILE, SESSIONS_FOLDER, StageRecord, done_file, read_session
from ...runs.results import command_here, put_together, unlike
from ...runs.shard import Shard
from ...runs.stage import FinishedParts, Stage
from ..file_differences import UNREADABLE, file_differences, one_line
from .checks import Check, Outcome

_AS_WRITTEN = "final files are as they were written"
_PARTS_WHOLE = "parts are as they were written"
_SESSIONS = "records of processes are as they were written"
_FROM_PARTS = "tables are those of the parts"
_FROM_ITEMS = "tables follow from {}"
_PART = re.compile(r"part-([0-9]{5,9})\.(parquet|json)")


@dataclass(frozen=True, eq=False)
class StoredStage:
    """One stage of a run folder as it is stored."""

    folder: Path
    name: str
    record: StageRecord

    @property
    def shard(self) -> Shard:
        return Shard.parse(self.record.shard or "1/1")

    @property
    def is_whole(self) -> bool:
        return bool(self.record.finished) and self.shard.is_whole

    @cached_property
    def unlike(self) -> list[str]:
        return unlike(self.folder, self.record.files)

    @property
    def sessions(self) -> Path:
        return self.folder / SESSIONS_FOLDER / self.name

    @property
    def marker(self) -> Path:
        return done_file(self.folder, self.name)

    @property
    def expected(self) -> range:
        """The numbers of the parts that the stage, or its shard, has."""
        return self.shard.parts(self.record.parts)

    @cached_property
    def _part_files(self) -> dict[str, int | None]:
        """The files in the folder of the parts → the numbers of their parts; None for what belongs to none."""
        folder = self.folder / PARTS_FOLDER / self.name
        found = {path.name: _PART.fullmatch(path.name) for path in sorted(folder.glob("*"))}
        numbers = {name: int(match[1]) if match else -1 for name, match in found.items()}
        return {name: number if number in self.expected else None for name, number in numbers.items()}

    @property
    def foreign(self) -> list[str]:
        return [f"{PARTS_FOLDER}/{self.name}/{name}" for name, number in self._part_files.items() if number is None]

    @property
    def parts(self) -> list[int]:
        """The numbers of the parts that are there. The folder is listed, as run.json could tell of any number."""
        return sorted({number for number in self._part_files.values() if number is not None})

    @cached_property
    def damaged(self) -> list[int]:
        """Those of them that are not whole."""
        return [number for number in self.parts if self.part(number).read() is None]

    def part(self, number: int) -> PartFiles:
        return PartFiles(self.folder, self.name, number)

    @property
    def publish_again(self) -> str:
        """What makes the final files again: from the parts if they are there, else from the model."""
        return self.repair(*self.record.files)

    @property
    def decide_again(self) -> str:
        return self.repair(f"{PARTS_FOLDER}/{self.name}", *self.record.files)

    def repair(self, *removed: str) -> str:
        """For this very folder: the run may have been copied, moved, or put together from shards since it was made."""
        command = command_here(self.folder, self.record)
        files = " ".join(shlex.quote(str(self.folder / name)) for name in removed)
        before = f"remove {files}, then " if removed else ""
        return f"to repair it, {before}run: {command or 'the same call or command again'}"


def check_results(stored: StoredStage) -> Iterator[Check]:
    """All checks of a stage that need no model."""
    if stored.shard.is_whole:
        yield _final_files(stored)
    yield _parts(stored)
    yield _sessions(stored)
    stage, why = stages().get(stored.name), ""
    if not stored.is_whole:
        why = "the stage is not finished" if stored.shard.is_whole else "`merge` makes the tables of shards"
    elif stored.unlike:
        why = "final files are damaged"
    elif stage is None:
        why = f"no probe here makes the results of {stored.name}; is the package that made them installed?"
    if why or stage is None:
        yield Check(stored.name, _FROM_PARTS).skipped(why)
        return
    of_parts = _tables_of_parts(stored, stage)
    yield of_parts
    if of_parts.outcome is not Outcome.OK:
        yield _tables_of_items(stored, stage)


def foreign_files(stored: list[StoredStage]) -> list[str]:
    """The files of a run folder of which nothing in it has the digest, by name."""
    folder = stored[0].folder
    own = {RUN_FILE, LOCK_FILE, PARTS_FOLDER, SESSIONS_FOLDER}
    for stage in stored:
        own |= {stage.marker.name, *stage.record.files, f"{PARTS_FOLDER}/{stage.name}"}
        own |= {path.relative_to(folder).as_posix() for path in (stage.sessions, *paths_in(stage.sessions, "*.json"))}
    paths = [*sorted(folder.glob("*")), *sorted(folder.glob(f"{PARTS_FOLDER}/*"))]
    paths += files_below(folder / SESSIONS_FOLDER)
    names = [name for path in paths if (name := path.relative_to(folder).as_posix()) not in own]
    return [*names, *(name for stage in stored for name in stage.foreign)]


def _final_files(stored: StoredStage) -> Check:
    check = Check(stored.name, _AS_WRITTEN, len(stored.record.files), "files")
    if not stored.record.finished:
        return check.skipped("the stage is not finished", repair=stored.repair())
    if stored.unlike:
        missing = [name for name in stored.unlike if not (stored.folder / name).is_file()]
        changed = [name for name in stored.unlike if name not in missing]
        said = [f"{some(names)} {how}" for names, how in ((missing, "missing"), (changed, "changed")) if names]
        return check.damaged(", ".join(said), stored.repair())
    return check


def _parts(stored: StoredStage) -> Check:
    missing = len(stored.expected) - len(stored.parts)
    check = Check(stored.name, _PARTS_WHOLE, len(stored.parts), "parts")
    is_needed = not stored.is_whole
    if stored.damaged:
        numbers = [stored.part(number).rows.name for number in stored.damaged]
        return check.damaged(f"{some(numbers)} damaged", stored.repair() if is_needed else stored.publish_again)
    if not stored.record.finished:
        detail = f"{missing:,} are still to do" if missing else "the stage is not finished"
        return check.skipped(detail, Outcome.NOT_FINISHED, stored.repair())
    of_all = f"{missing:,} of {len(stored.expected):,} are"
    if missing and is_needed:
        return check.damaged(f"{of_all} missing", stored.repair())
    return check.skipped(f"{of_all} not kept", Outcome.NOT_KEPT) if missing else check


def _sessions(stored: StoredStage) -> Check:
    paths = paths_in(stored.sessions, "*.json")
    check = Check(stored.name, _SESSIONS, len(paths), "files")
    if damaged := [path for path in paths if read_session(path) is None]:
        named = " ".join(shlex.quote(str(path)) for path in damaged)
        repair = f"no result depends on it; to go on without its times, remove {named}"
        return check.damaged(f"{some([path.name for path in damaged])} damaged", repair)
    return check


def _tables_of_parts(stored: StoredStage, stage: type[Stage[Any, Any]]) -> Check:
    check = Check(stored.name, _FROM_PARTS)
    if stored.damaged:
        return check.skipped("parts are damaged")
    if len(stored.parts) < len(stored.expected):
        return check.skipped("parts are not kept", Outcome.NOT_KEPT)
    together = put_together(stored.folder, stored.name, stored.record)
    check = replace(check, n=int(together.counts.get("rows", 0)), unit="rows")
    if together.counts != stored.record.counts:
        keys = [key for key in together.counts if together.counts[key] != stored.record.counts.get(key)]
        detail = f"{stored.marker.name} has other counts than the parts ({some(keys) or 'more counts'})"
        return check.damaged(detail, stored.publish_again)
    return _published(check, stored, stage, together)


def _tables_of_items(stored: StoredStage, stage: type[Stage[Any, Any]]) -> Check:
    name = stage.rows_file
    check = Check(stored.name, _FROM_ITEMS.format(name or "the items"))
    if name is None or name not in stored.record.files:
        return check.skipped("no file has the rows of all parts")
    names = [name, *(further for further in stage.further_rows_files if further in stored.record.files)]
    try:
        rows = stage.rows_of({own: scan_frame(stored.folder / own) for own in names})
        n = int(rows.select(pl.len()).collect().item())
    except UNREADABLE as error:
        detail = f"{some(names)} cannot be read ({one_line(error)})"
        return check.damaged(detail, stored.publish_again)
    parts = FinishedParts(stored.folder, rows, stored.record.counts, stored.record.metadata)
    return _published(replace(check, n=n, unit="rows"), stored, stage, parts)


def _published(check: Check, stored: StoredStage, stage: type[Stage[Any, Any]], parts: FinishedParts) -> Check:
    try:
        files = stage.publish(parts)
    except Exception as error:  # noqa: BLE001 - rows that are wrong can make any error
        return check.damaged(f"the tables cannot be made ({one_line(error)})", stored.publish_again)
    if set(files) != set(stored.record.files):
        detail = f"{stored.marker.name} lists {some(sorted(stored.record.files))}; {some(sorted(files))} are right"
        return check.damaged(detail, stored.publish_again)
    for name, content in files.items():
        if said := next(file_differences(stored.folder / name, content), ""):
            return check.damaged(f"{name}: {said}", stored.publish_again)
    return check
