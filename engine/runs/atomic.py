"""Files that are there whole or not at all, whenever the process is killed or the machine loses power.

A file is written beside its place under a temporary name, flushed to the disk, and renamed over its place; then the
folder is flushed, so that the new name survives too. What a killed process leaves is a temporary file, which
`remove_leftovers` finds by its name.
"""

import errno
import hashlib
import io
import json
import os
import secrets
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl

from ..errors import InputError

_SUFFIX = ".negengine-tmp"
_FULL = {errno.ENOSPC, errno.EDQUOT}
_ROW_GROUP = (
    131_072  # rows; fixed, as everything that Parquet's writer would choose itself, for the same bytes each time
)


def write_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """Write a file so that no reader and no crash ever sees half of it.

    Args:
        path: The file to write or replace; its folder exists.
        write: Writes the content into the path that it is given.

    Raises:
        InputError: The file cannot be written: no space left, no permission, a failing disk. What stood there before
            still stands there, and no temporary file stays.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}{_SUFFIX}")
    try:
        write(temporary)
        _flush(temporary)
        os.replace(temporary, path)  # noqa: PTH105 -- one name for the call that tests interrupt
        _flush(path.parent)
    except OSError as error:
        raise unwritable(path, error) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_bytes(path: Path, content: bytes) -> None:
    """Write bytes atomically; errors as in `write_atomically`."""

    def write(temporary: Path) -> None:
        temporary.write_bytes(content)

    write_atomically(path, write)


def write_json(path: Path, value: Any) -> None:
    """Write a JSON document atomically; errors as in `write_atomically`."""
    write_bytes(path, (json.dumps(value, ensure_ascii=False, indent=2) + "\n").encode())


def parquet_bytes(frame: pl.DataFrame) -> bytes:
    """A frame as a Parquet file; the same rows give the same bytes, in however many chunks they lie in memory."""
    buffer = io.BytesIO()  # not a path: Polars' own writing would lose which error the operating system gave
    frame.rechunk().write_parquet(
        buffer, compression="zstd", compression_level=3, statistics=True, row_group_size=_ROW_GROUP
    )
    return buffer.getvalue()


def make_folder(path: Path) -> None:
    """Create a folder and what is missing above it, durably.

    Raises:
        InputError: It cannot be created, or something that is no folder stands in its way.
    """
    try:
        missing = [folder for folder in (path, *path.parents) if not folder.exists()]
        path.mkdir(parents=True, exist_ok=True)
        for folder in missing:
            _flush(folder.parent)
    except (FileExistsError, NotADirectoryError) as error:
        raise InputError(f"{path}: not a folder; choose another --output") from error
    except OSError as error:
        raise unwritable(path, error) from error


def is_leftover(path: Path) -> bool:
    """Whether this is a temporary file of `write_atomically`."""
    return path.name.endswith(_SUFFIX)


def remove_leftovers(folder: Path) -> None:
    """Remove what killed processes left unfinished in a folder; only its one owner may do that."""
    try:
        for path in folder.iterdir():
            if is_leftover(path):
                path.unlink(missing_ok=True)
    except OSError as error:
        raise unwritable(folder, error) from error


def sha256(content: bytes) -> str:
    """Hexadecimal SHA-256 digest."""
    return hashlib.sha256(content).hexdigest()


def unwritable(path: Path, error: OSError) -> InputError:
    """The one line for a file that the operating system does not let us write."""
    if error.errno not in _FULL:
        return InputError(f"{path}: cannot be written ({error.strerror or error})")
    free = 0
    with suppress(OSError):
        free = shutil.disk_usage(path.parent).free
    return InputError(
        f"{path.parent}: no space left to write {path.name} ({free / 1e6:,.1f} MB free); "
        "make room, then the same command goes on from what is finished"
    )


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
