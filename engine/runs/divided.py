"""The shards of a run on disk, `runs/NAME-I-of-N`: how far they are. Nothing is changed.

Where the locks do not reach other machines, a shard that runs there looks stopped; the time of its last part says more.
"""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from glob import glob, has_magic
from pathlib import Path
from typing import Any

from ..basics.errors import InputError
from ..basics.printable import counted, some
from ..basics.reading import exists, is_folder, paths_in
from .lock import holder
from .part import marked_parts
from .record import INTERRUPTED, RUN_FILE, SESSIONS_FOLDER, Session, StageRecord, differences, read_record, read_run
from .results import shard_command
from .shard import Shard

_NAME = re.compile(r"(.+)-([0-9]{1,9})-of-([0-9]{1,9})", re.DOTALL)


@dataclass(frozen=True)
class Division:
    """A run divided into shards."""

    whole: Path  # the folder of the whole run: the shards' folders without `-I-of-N`
    count: int  # how many shards there are
    folders: dict[int, Path]  # the number of a shard → its folder, of those that are there


def named_shard(folder: Path) -> tuple[Path, Shard] | None:
    """The whole run's folder and the shard that the name of a folder says; None for another name."""
    found = _NAME.fullmatch(folder.name)
    if found is None or not 1 <= int(found[2]) <= int(found[3]) or int(found[3]) < 2:
        return None
    return folder.with_name(found[1]), Shard(int(found[2]), int(found[3]))


def divisions(whole: Path) -> list[Division]:
    """All divisions of a run that are beside its folder, by their numbers of shards."""
    folder = whole if whole.name not in {"", ".."} else whole.resolve()
    return _divided([path for path in paths_in(folder.parent) if path.name.startswith(f"{folder.name}-")], folder)


def find_shards(given: Sequence[Path]) -> list[Path]:
    """The folders of the shards that are meant; raises InputError for none, or those of several runs."""
    meant: list[Path] = []
    for path in given:
        if has_magic(str(path)) and not exists(path):
            folders = sorted(Path(name) for name in glob(str(path), recursive=True) if is_folder(Path(name)))  # noqa: PTH207
            if not folders:
                raise InputError(f"{path}: no folder matches this pattern; give the folders of the shards")
            meant += folders
        elif named_shard(path) is not None and exists(path):
            meant.append(path)
        else:
            found = divisions(path)
            if not found and is_folder(path) and not exists(path / RUN_FILE):
                found = _divided(paths_in(path))
            if len(found) > 1:
                patterns = [f"{own.whole}-*-of-{own.count}" for own in found]
                raise InputError(f"{path}: there are shards of several runs: give one of {some(patterns)}")
            meant += found[0].folders.values() if found else [path]
    return meant


def default_output(shards: Sequence[Path]) -> Path:
    """The folder of the whole run, by the names of its shards' folders; raises InputError if they do not say it."""
    named = [named_shard(folder) for folder in shards]
    wholes = {found[0] for found in named if found is not None}
    if len(wholes) != 1 or None in named:
        raise InputError(
            f"{', '.join(map(str, shards[:3]))}: the names of these folders do not say where the whole run goes, "
            "as those of shards do (RUN-1-of-2): give --output RUN"
        )
    return wholes.pop()


def refuse_other_division(whole: Path, shard: Shard) -> None:
    """Raise InputError if shards of another number, beside the folder, are missing or not finished."""
    for other in divisions(whole):
        if other.count == shard.count:
            continue
        if len(other.folders) == other.count:
            with suppress(InputError):
                if all(own.finished for folder in other.folders.values() for own in read_run(folder).stages.values()):
                    continue
        raise InputError(
            f"--shard auto: {whole.parent} has shards of {whole.name} in {other.count}, not all finished, and "
            f"this array has {shard.count} tasks: to continue those, give the first and the last index of the "
            f"whole array, such as --shard auto:0-{other.count - 1} or --shard auto:1-{other.count}; else choose "
            "another --output"
        )


def _divided(folders: Sequence[Path], whole: Path | None = None) -> list[Division]:
    found: dict[tuple[Path, int], dict[int, Path]] = {}
    for folder in folders:
        named = named_shard(folder)
        if named is not None and (whole is None or named[0] == whole) and is_folder(folder):
            found.setdefault((named[0], named[1].count), {})[named[1].index] = folder
    return [Division(base, count, dict(sorted(own.items()))) for (base, count), own in sorted(found.items())]


class State(StrEnum):
    """What a shard is. A stopped one was interrupted or killed; the last process of a failed one has met an error."""

    FINISHED = "finished"
    RUNNING = "running"
    STOPPED = "stopped"
    FAILED = "failed"
    MISSING = "missing"
    DAMAGED = "damaged"
    OTHER_RUN = "another run"


@dataclass(frozen=True)
class ShardStatus:
    """How far a shard is."""

    shard: Shard
    state: State
    folder: Path  # its folder, or the one that its command will write
    parts: int | None = None  # how many parts it has; None if that is not known yet
    done: int = 0  # how many of them are finished
    holder: str | None = None  # Who works on it: `process 123 on HOST`
    last: datetime | None = None  # When its last part was finished, or when it began
    seconds_left: float | None = None  # how long it will still take, at the rate of its process, where that is known
    reason: str = ""  # why it failed, or what is wrong with it
    command: str = ""  # what runs or resumes it, where there is something to run and a command was recorded


@dataclass(frozen=True)
class DividedRun:
    """A run that is divided into shards."""

    stage: str | None  # the stage that is divided; None if no shard has begun it
    count: int
    shards: Sequence[ShardStatus]  # by their numbers; one that is given twice stands there twice

    @property
    def is_finished(self) -> bool:
        return [one.state for one in self.shards] == [State.FINISHED] * self.count


@dataclass(frozen=True)
class ShardFolder:
    """A folder, and what it says of a shard."""

    folder: Path
    shard: Shard  # the whole run where neither its name nor its record says another one
    stage: str = ""  # the stage that is divided; empty where none has begun
    record: StageRecord = field(default_factory=lambda: StageRecord(identity={}, parts=0))  # of that stage
    earlier: tuple[str, ...] = ()  # the other stages of the folder
    problem: str = ""  # why it cannot be read

    @classmethod
    def read(cls, folder: Path, stages: Collection[str]) -> "ShardFolder":
        named = named_shard(folder)
        by_name = named[1] if named else Shard()
        try:
            run = read_record(folder) if exists(folder / RUN_FILE) else None
        except InputError as error:
            return cls(folder, by_name, problem=str(error))
        for stage, record in reversed(run.stages.items()) if run else ():
            if record.shard is not None and stage in stages:
                others = tuple(other for other in run.stages if other != stage) if run else ()
                return cls(folder, Shard.parse(record.shard), stage, record, others)
        return cls(folder, by_name)

    @property
    def parts(self) -> range:
        return self.shard.parts(self.record.parts)

    @property
    def run(self) -> dict[str, Any]:
        """What all shards of a run have in common, and other runs have not."""
        return {"stage": self.stage, "shards": self.shard.count, "parts": self.record.parts, **self.record.identity}


def divided_run(folders: Sequence[Path], stages: Collection[str]) -> DividedRun:
    """Look at the shards of a run; raises InputError if no folder is a shard, by its name or by its record."""
    found = [ShardFolder.read(folder, stages) for folder in dict.fromkeys(folders)]
    counts = Counter(one.shard.count for one in found if not one.shard.is_whole)
    if not counts:
        raise InputError(
            f"{folders[0] if folders else 'nothing'} is not a shard: give folders that were made with --shard I/N, or "
            "the name of the whole run"
        )
    count = counts.most_common(1)[0][0]
    begun = [one for one in found if one.stage and one.shard.count == count]
    kinds = Counter(str(one.run) for one in begun)
    # A shard of the run that most of the folders belong to.
    leading = next((one for one in begun if str(one.run) == kinds.most_common(1)[0][0]), None)
    shards = [_status(one, count, leading) for one in found]
    there = {one.shard.index for one in shards if one.state is not State.OTHER_RUN}
    # A missing one goes beside the others, named like them.
    wholes = [named[0] for one in found if (named := named_shard(one.folder)) is not None and named[1].count == count]
    whole = wholes[0] if wholes else found[0].folder.with_name("shard")
    missing = [Shard(index, count) for index in range(1, count + 1) if index not in there]
    shards += [_missing(one, leading, whole.with_name(f"{whole.name}{one.suffix}")) for one in missing]
    shards.sort(key=lambda one: (one.shard.index, str(one.folder)))
    return DividedRun(leading.stage if leading else None, count, shards)


def _status(one: ShardFolder, count: int, leading: ShardFolder | None) -> ShardStatus:
    shard = one.shard
    if one.problem:
        return ShardStatus(shard, State.DAMAGED, one.folder, reason=one.problem)
    if shard.count != count:
        return ShardStatus(shard, State.OTHER_RUN, one.folder, reason=f"divided into {counted(shard.count, 'shard')}")
    if one.stage and leading is not None:
        if other := differences(leading.run, one.run, "here"):
            return ShardStatus(shard, State.OTHER_RUN, one.folder, reason=other)
        parts, done = one.parts, sum(number in one.parts for number in marked_parts(one.folder, one.stage))
        by, last = holder(one.folder), _changed(one.folder, one.stage)
        known = ShardStatus(shard, State.FINISHED, one.folder, len(parts), done, by, last)
        undone, session = len(parts) - done, one.record.sessions[-1] if one.record.sessions else Session()
        if one.record.finished and not undone:
            return known
        if by is not None:
            left = undone * session.seconds / session.parts if session.parts and session.seconds else None
            return replace(known, state=State.RUNNING, seconds_left=left)
        has_failed = session.failed not in {None, INTERRUPTED}
        reason = (session.failed or "") if has_failed else ""
        if one.record.finished:
            reason = f"{undone} of its finished parts have been removed"
        state, command = State.FAILED if has_failed else State.STOPPED, shard_command(one.record, one.folder, shard)
        return replace(known, state=state, reason=reason, command=command or "")
    # Its record does not say a shard: it is about to begin, it is in an earlier stage, or it is missing.
    by = holder(one.folder)
    if by is None and not exists(one.folder / RUN_FILE):
        return _missing(shard, leading, one.folder)
    last = _changed(one.folder, "")
    if by is not None:
        return ShardStatus(shard, State.RUNNING, one.folder, holder=by, last=last)
    return replace(_missing(shard, leading, one.folder), state=State.STOPPED, last=last)


def _missing(shard: Shard, leading: ShardFolder | None, folder: Path) -> ShardStatus:
    command = shard_command(leading.record, folder, shard) if leading else None
    return ShardStatus(shard, State.MISSING, folder, command=command or "")


def _changed(folder: Path, stage: str) -> datetime | None:
    """When a process wrote its session last, which it does with every part; before that, when the run was begun."""
    times = []
    for path in [folder / RUN_FILE, *paths_in(folder / SESSIONS_FOLDER / stage, "*.json")]:
        with suppress(OSError):
            times.append(path.stat().st_mtime)
    return datetime.fromtimestamp(max(times), UTC) if times else None
