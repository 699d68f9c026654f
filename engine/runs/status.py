"""How far the shards of a run are: which are finished, running, stopped, failed or missing. Nothing is changed.

A shard is running if a process holds its folder. What holds a folder is known on this machine, and on others if the
file system's locks reach them. Else a running shard looks like a stopped one; the time of its last part tells more.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from ..errors import InputError
from ..files.reading import exists, paths_in
from ..printable import counted
from .divisions import named_shard
from .lock import holder
from .part import PartFiles
from .record import RUN_FILE, SESSIONS_FOLDER, StageRecord, differences, read_record
from .results import shard_command
from .session import INTERRUPTED
from .shard import Shard


class State(StrEnum):
    """What a shard is."""

    FINISHED = "finished"
    RUNNING = "running"
    STOPPED = "stopped"
    """Not finished, and nobody works on it: it was interrupted or killed."""
    FAILED = "failed"
    """Not finished, as its last process has met an error."""
    MISSING = "missing"
    DAMAGED = "damaged"
    OTHER_RUN = "another run"


@dataclass(frozen=True)
class ShardStatus:
    """One shard.

    Attributes:
        shard: Which one.
        state: What it is.
        folder: Its folder, or the one that its command will write.
        parts: How many parts it has; None if that is not known yet.
        done: How many of them are finished.
        holder: Who works on it: `process 123 on HOST`.
        last: When its last part was finished, or when it began.
        seconds_left: How long it will still take, at the rate of its process; None where that is not known.
        reason: Why it failed, or what is wrong with it.
        command: The command that runs or resumes it; empty where there is nothing to run, or no command was recorded.
    """

    shard: Shard
    state: State
    folder: Path
    parts: int | None = None
    done: int = 0
    holder: str | None = None
    last: datetime | None = None
    seconds_left: float | None = None
    reason: str = ""
    command: str = ""


@dataclass(frozen=True)
class DividedRun:
    """A run that is divided into shards.

    Attributes:
        stage: The stage that is divided; None if no shard has begun it.
        count: How many shards there are.
        shards: All of them, in the order of their numbers; one that is given twice stands there twice.
    """

    stage: str | None
    count: int
    shards: Sequence[ShardStatus]

    @property
    def is_finished(self) -> bool:
        """Whether all shards are finished, each once."""
        states = [one.state for one in self.shards]
        return states == [State.FINISHED] * self.count


@dataclass(frozen=True)
class _Found:
    folder: Path
    shard: Shard | None
    stage: str | None = None
    record: StageRecord | None = None
    problem: str = ""


def divided_run(folders: Sequence[Path], stages: Collection[str]) -> DividedRun:
    """Look at the shards of a run.

    Args:
        folders: The folders of some or all of them; they need not exist.
        stages: The known stages.

    Raises:
        InputError: No folder is a shard, by its name or by its record.
    """
    found = [_read(folder, stages) for folder in dict.fromkeys(folders)]
    counts = Counter(one.shard.count for one in found if one.shard is not None)
    if not counts:
        raise InputError(
            f"{folders[0] if folders else 'nothing'} is not a shard: give folders that were made with --shard I/N, or "
            "the name of the whole run"
        )
    count = counts.most_common(1)[0][0]
    leading = _leading([one for one in found if one.shard is not None and one.shard.count == count])
    shards = [_status(one, count, leading) for one in found]
    there = {one.shard.index for one in shards if one.state is not State.OTHER_RUN}
    missing = [Shard(index, count) for index in range(1, count + 1) if index not in there]
    shards += [_missing(shard, leading, _folder_of(shard, found)) for shard in missing]
    return DividedRun(
        leading.stage if leading else None, count, sorted(shards, key=lambda one: (one.shard.index, str(one.folder)))
    )


def _read(folder: Path, stages: Collection[str]) -> _Found:
    named = named_shard(folder)
    by_name = named[1] if named else None
    try:
        run = read_record(folder) if exists(folder / RUN_FILE) else None
    except InputError as error:
        return _Found(folder, by_name, problem=str(error))
    if run is None:
        return _Found(folder, by_name)
    for stage, record in reversed(run.stages.items()):
        if record.shard is not None and stage in stages:
            return _Found(folder, Shard.parse(record.shard), stage, record)
    return _Found(folder, by_name)


def _leading(found: Sequence[_Found]) -> _Found | None:
    """A shard of the run that most of the folders belong to."""
    begun = [one for one in found if one.record is not None]
    if not begun:
        return None
    kinds = Counter(_kind(one) for one in begun)
    wanted = kinds.most_common(1)[0][0]
    return next(one for one in begun if _kind(one) == wanted)


def _kind(one: _Found) -> str:
    record = one.record
    return "" if record is None else f"{one.stage} {record.parts} {sorted(record.identity.items(), key=str)}"


def _status(one: _Found, count: int, leading: _Found | None) -> ShardStatus:
    shard = one.shard or Shard(1, 1)
    if one.problem:
        return ShardStatus(shard, State.DAMAGED, one.folder, reason=one.problem)
    if shard.count != count:
        return ShardStatus(shard, State.OTHER_RUN, one.folder, reason=f"divided into {counted(shard.count, 'shard')}")
    if one.record is None:
        return _begun(one, shard, leading)
    if leading is not None and leading.record is not None and _kind(one) != _kind(leading):
        other = {"stage": one.stage, "parts": one.record.parts, **one.record.identity}
        wanted = {"stage": leading.stage, "parts": leading.record.parts, **leading.record.identity}
        return ShardStatus(shard, State.OTHER_RUN, one.folder, reason=differences(wanted, other, "here"))
    return _known(one.folder, shard, one.stage or "", one.record)


def _known(folder: Path, shard: Shard, stage: str, record: StageRecord) -> ShardStatus:
    """A shard whose stage has begun."""
    parts = shard.parts(record.parts)
    markers = PartFiles.of(folder, stage, 0).marker.parent
    there = {path.name for path in paths_in(markers, "*.json")}
    done = sum(PartFiles.of(folder, stage, number).marker.name in there for number in parts) if there else 0
    own, by, left = record.sessions[-1] if record.sessions else None, holder(folder), None
    if record.finished and done == len(parts):
        state = State.FINISHED
    elif by is not None:
        state = State.RUNNING
        if own is not None and own.parts and own.seconds:
            left = (len(parts) - done) * own.seconds / own.parts
    else:
        state = State.FAILED if own is not None and own.failed not in {None, INTERRUPTED} else State.STOPPED
    reason = (own.failed or "") if own is not None and state is State.FAILED else ""
    if record.finished and done < len(parts):
        reason = f"{len(parts) - done} of its finished parts have been removed"
    resumed = state in {State.STOPPED, State.FAILED}
    return ShardStatus(
        shard,
        state,
        folder,
        len(parts),
        done,
        by,
        _changed(folder, stage),
        left,
        reason,
        (shard_command(record, folder, shard) or "") if resumed else "",
    )


def _begun(one: _Found, shard: Shard, leading: _Found | None) -> ShardStatus:
    """A folder whose record does not say a shard: it is about to begin, it is in an earlier stage, or it is missing."""
    by = holder(one.folder)
    if by is None and not exists(one.folder / RUN_FILE):
        return _missing(shard, leading, one.folder)
    command = "" if by is not None else _command(shard, leading, one.folder)
    state = State.STOPPED if by is None else State.RUNNING
    return ShardStatus(shard, state, one.folder, holder=by, last=_changed(one.folder, ""), command=command)


def _missing(shard: Shard, leading: _Found | None, folder: Path) -> ShardStatus:
    return ShardStatus(shard, State.MISSING, folder, command=_command(shard, leading, folder))


def _command(shard: Shard, leading: _Found | None, folder: Path) -> str:
    record = leading.record if leading else None
    return (shard_command(record, folder, shard) or "") if record is not None else ""


def _folder_of(shard: Shard, found: Sequence[_Found]) -> Path:
    """Where a missing shard goes: beside the others, named like them."""
    for one in found:
        if (named := named_shard(one.folder)) is not None and named[1].count == shard.count:
            return named[0].with_name(f"{named[0].name}{shard.suffix}")
    return found[0].folder.with_name(f"shard{shard.suffix}")


def _changed(folder: Path, stage: str) -> datetime | None:
    """When a process wrote its session last, which it does with every part; before that, when the run was begun."""
    times = []
    for path in [folder / RUN_FILE, *paths_in(folder / SESSIONS_FOLDER / stage, "*.json")]:
        with suppress(OSError):
            times.append(path.stat().st_mtime)
    return datetime.fromtimestamp(max(times), UTC) if times else None
