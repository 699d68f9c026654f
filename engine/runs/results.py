"""Finished stages: their records, and their final files. A file is read only as the stage wrote it."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from ..basics.atomic import json_bytes, sha256, write_bytes
from ..basics.errors import InputError
from ..basics.frames import frame_sha256, parquet_frame, write_frame
from ..basics.paths import shell_command, words_of
from ..basics.reading import MissingFileError, file_sha256, read_regular
from .part import Marker, PartFiles, part_rows
from .record import StageRecord, read_run
from .shard import Shard
from .stage import FinishedParts, Result

_MOST = 64 * 2**30  # bytes: a hundred times the largest results so far


def begun_stages(folder: Path, only: str | None = None) -> dict[str, StageRecord]:
    """The records of a run folder's stages, at least one, in the order in which they were begun."""
    if not (stages := read_run(folder, only).stages):
        raise InputError(f"{folder}: this run was stopped before its first part; run its command again")
    return stages


def finished_stage(folder: Path, stage: str) -> StageRecord:
    """The record of a finished stage, its final files checked; InputError for any other."""
    stages = begun_stages(folder, stage)
    record = stages.get(stage)
    if record is None:
        raise InputError(f"{folder}: {stage} has not been run here; the folder holds {', '.join(stages)}")
    if not record.finished:
        raise InputError(f"{folder}: {stage} is not finished; {resume_hint(folder, record)}")
    if record.shard is not None:
        raise InputError(f"{folder}: only shard {record.shard} of {stage}; put all shards together with `merge`")
    if damaged := unlike(folder, record.files):
        raise changed(folder, damaged[0], record)
    return record


def changed(folder: Path, name: str, record: StageRecord) -> InputError:
    """The error for a final file that is not as its stage wrote it."""
    return InputError(f"{folder / name}: missing, or changed since the run wrote it; {resume_hint(folder, record)}")


def resume_hint(folder: Path, record: StageRecord) -> str:
    """How to continue a stage in its folder: the command, if one was recorded."""
    command = command_here(folder, record)
    return f"to resume it: {command}" if command else "run the same command again to resume it"


def command_here(folder: Path, record: StageRecord) -> str | None:
    """The last command of a stage for the folder that it is in now, also as a copy or merged; None if unknown."""
    shard = Shard.parse(record.shard or "1/1")
    return shard_command(record, folder, None if shard.is_whole else shard, went_on_from=folder)


def shard_command(
    record: StageRecord, output: Path, shard: Shard | None, went_on_from: Path | None = None
) -> str | None:
    """The last command of a stage for a shard (None: all); `went_on_from` replaces the run that it went on from."""
    found = [own for own in record.sessions if own.again is not None]
    try:  # a run can come from elsewhere: no other program, and nothing but words
        words = words_of(found[-1].again or "") if found else []
        run = words_of(found[-1].run or "") if found else []
    except ValueError:
        return None
    if words[:1] != ["negengine"]:
        return None
    if went_on_from is not None:
        words = [str(went_on_from) if [word] == run else word for word in words]
    return command_for(shell_command(words), output, shard)


def command_for(again: str, output: str | Path | None, shard: Shard | None) -> str:
    """A command line that was recorded without --shard and --output, with those."""
    options = {"--shard": shard, "--output": output}
    words = [str(word) for option, value in options.items() if value is not None for word in (option, value)]
    return f"{again} {shell_command(words)}".rstrip()


def unlike(folder: Path, files: Mapping[str, str]) -> list[str]:
    """The names of files that are missing or differ from their digests."""
    found = []
    for name, digest in files.items():
        with suppress(MissingFileError):
            if file_sha256(folder / name) == digest:
                continue
        found.append(name)
    return found


def read_result(folder: Path, record: StageRecord, name: str) -> bytes:
    """The content of a final file; raises InputError if it is not as the stage wrote it."""
    try:
        content = read_regular(folder / name, _MOST)
    except MissingFileError:
        content = None
    if content is None or sha256(content) != record.files.get(name):
        raise changed(folder, name, record)
    return content


def read_frame(folder: Path, record: StageRecord, name: str) -> pl.DataFrame:
    """A final file's frame; raises InputError as `read_result`, and if it is not Parquet."""
    return parquet_frame(read_result(folder, record, name), folder / name)


def read_document(folder: Path, record: StageRecord, name: str) -> dict[str, Any]:
    """A final file's JSON document; raises InputError as `read_result`, and if it is not JSON."""
    content = read_result(folder, record, name)
    try:
        return msgspec.json.decode(content, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{folder / name}: not as negengine writes it ({error}); run it again elsewhere") from None


def put_together(folder: Path, stage: str, record: StageRecord) -> FinishedParts:
    """All parts of a stage as `Stage.publish` takes them; InputError, also where their rows are used, for a bad one."""
    markers = []
    for number in range(record.parts):
        files = PartFiles(folder, stage, number)
        if (marker := files.read_marker()) is None:
            raise files.damaged()
        markers.append(marker)
    return FinishedParts(folder, part_rows(folder, stage, record.parts), summed_counts(markers), record.metadata)


def summed_counts(markers: Iterable[Marker]) -> dict[str, int | float]:
    """The counts of some parts, summed in their order."""
    total: dict[str, int | float] = {}
    for marker in markers:
        for key, value in marker.counts.items():
            total[key] = total.get(key, 0) + value
    return total


def write_result(path: Path, content: Result) -> str:
    """Write a result of `Stage.publish` as its final file, a frame as a stream; returns its SHA-256 in hex."""
    if isinstance(content, pl.LazyFrame | pl.DataFrame):
        return write_frame(path, content.lazy())
    encoded = json_bytes(content)
    write_bytes(path, encoded)
    return sha256(encoded)


def result_sha256(content: Result) -> str:
    """SHA-256 in hex of the file that `write_result` would write."""
    if isinstance(content, pl.LazyFrame | pl.DataFrame):
        return frame_sha256(content.lazy())
    return sha256(json_bytes(content))
