"""Files that are whole or do not exist, even after a kill or a power cut: written beside, flushed, then renamed."""

import errno
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from .errors import InputError
from .reading import exists

_SUFFIX = ".negengine-tmp"


def write_atomically(path: Path, write: Callable[[Path], object], *, flushed: bool = True) -> None:
    """Write or replace a file in a folder that exists; neither a reader nor a crash ever sees a part of it.

    A power cut can damage a file that is not flushed. An InputError for no space left, no permission, a failing disk:
    the older file is kept, and no temporary file is left.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}{_SUFFIX}")
    try:
        write(temporary)
        if flushed:
            _flush(temporary)
        os.replace(temporary, path)  # noqa: PTH105 -- one name for the call that tests interrupt
        if flushed:
            flush_names(path.parent)
    except OSError as error:
        raise unwritable(path, error) from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def write_bytes(path: Path, content: bytes, *, flushed: bool = True) -> None:
    """Write bytes atomically; errors as in `write_atomically`."""
    write_atomically(path, lambda temporary: temporary.write_bytes(content), flushed=flushed)


def remove_file(path: Path) -> None:
    """Remove a file, if it is there, so that it stays removed after a power cut; else an `InputError`."""
    try:
        path.unlink()
        flush_names(path.parent)
    except FileNotFoundError:
        return
    except OSError as error:
        raise unwritable(path, error) from error


def json_bytes(value: Any) -> bytes:
    """A JSON document for people, as UTF-8 text."""
    return (json.dumps(value, ensure_ascii=False, indent=2) + "\n").encode()


def make_folder(path: Path) -> None:
    """Create a folder and its missing parents, so that they survive a crash; else an `InputError`, and none is left."""
    # behind `x/..` everything is missing as long as x is: what is there is known by its real path
    missing = [folder for folder in (path, *path.parents) if not exists(Path(os.path.realpath(folder)))]
    try:
        path.mkdir(parents=True, exist_ok=True)
        for folder in missing:
            flush_names(folder.parent)
    except OSError as error:
        for folder in missing:
            with suppress(OSError):
                folder.rmdir()
        if isinstance(error, FileExistsError | NotADirectoryError):
            raise InputError(f"{path}: not a folder; choose another --output") from error
        raise unwritable(path, error) from error


def make_place(path: Path) -> None:
    """Create the folder of a file, and remove what killed calls have left of this file in it."""
    make_folder(path.parent)
    with suppress(InputError):  # a folder that cannot be listed
        remove_leftovers(path.parent, path.name)


def flush_folder(folder: Path) -> None:
    """Have the files of a folder that a library wrote, and their names, on the disk; a failure is an `OSError`."""
    for path in folder.iterdir():
        if path.is_file():
            _flush(path)
    flush_names(folder)


def is_leftover(path: Path) -> bool:
    """Whether a file is a temporary one of `write_atomically`."""
    return path.name.endswith(_SUFFIX)


def remove_leftovers(folder: Path, name: str | None = None) -> None:
    """Remove what killed processes left of one file, or of all; all only a process that holds the folder may remove."""
    ours = re.compile(rf"\.{re.escape(name or '')}\.[0-9a-f]+{re.escape(_SUFFIX)}")
    try:
        for path in folder.iterdir():
            if is_leftover(path) and (name is None or ours.fullmatch(path.name)):
                path.unlink(missing_ok=True)
    except OSError as error:
        raise unwritable(folder, error) from error


def sha256(content: bytes) -> str:
    """Hexadecimal SHA-256 digest."""
    return hashlib.sha256(content).hexdigest()


def unwritable(path: Path, error: OSError) -> InputError:
    """The error for a file that the operating system does not let us write."""
    if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
        return InputError(f"{path}: cannot be written ({error.strerror or error})")
    free = 0
    with suppress(OSError):
        free = shutil.disk_usage(path.parent).free
    return InputError(
        f"{path.parent}: no space left to write {path.name} ({free / 1e6:,.1f} MB free); "
        "free some space, then run the same command again: it continues with what is not finished"
    )


def _flush(path: Path) -> None:
    with path.open("rb+") as stream:  # Windows flushes only what may be written
        os.fsync(stream.fileno())


def flush_names(path: Path) -> None:
    """Have a folder's names on the disk; Windows does not open folders, and writes their names itself."""
    if os.name == "nt":  # pragma: no cover - on Windows only
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
