"""Reading with care: a name that a user gives can be a pipe without a writer, or a device without an end."""

import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from io import BufferedReader
from pathlib import Path
from typing import Any

from .errors import InputError

MOST_JSON = 64 * 2**20  # bytes: a hundred times the largest document that negengine writes
_MOST_ENTRIES = 100_000


class MissingFileError(InputError):
    """There is no file of that name."""


class LargerError(InputError):
    """A file is larger than a file of its kind can be."""


def open_regular(path: Path, hint: str = "") -> BufferedReader:
    """Open a regular file; a missing one is a `MissingFileError`, any other that cannot be read an `InputError`."""
    then = hint and f"; {hint}"
    try:
        # Without O_NONBLOCK, a pipe would be waited for. Windows has text mode instead, which would change bytes.
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        descriptor = os.open(path, flags)
    except (FileNotFoundError, NotADirectoryError):
        raise MissingFileError(f"{path}: cannot be read (No such file or directory){then}") from None
    except (OSError, ValueError) as error:
        raise unreadable(path, error, hint) from error
    try:
        kind = os.fstat(descriptor).st_mode
        if stat.S_ISREG(kind):
            return os.fdopen(descriptor, "rb")
    except OSError as error:
        with suppress(OSError):
            os.close(descriptor)
        raise unreadable(path, error, hint) from error
    os.close(descriptor)
    found = "a folder" if stat.S_ISDIR(kind) else "a pipe" if stat.S_ISFIFO(kind) else "a device"
    raise InputError(f"{path}: cannot be read (it is {found}, not a file){then}")


def read_regular(path: Path, most: int, hint: str = "") -> bytes:
    """The content of a regular file of at most so many bytes; a larger one is a `LargerError`."""
    with open_regular(path, hint) as stream:
        try:
            size = os.fstat(stream.fileno()).st_size  # read() reserves memory for what it is asked for
            content = stream.read(min(size, most) + 1)
        except OSError as error:
            raise unreadable(path, error, hint) from error
    if len(content) > most:
        raise LargerError(f"{path}: larger than {most:,} bytes{hint and '; '}{hint}")
    return content


def file_sha256(path: Path) -> str:
    """SHA-256 of a regular file, in hex; it is not held in memory. Errors as for `open_regular`."""
    with open_regular(path) as stream:
        try:
            return hashlib.file_digest(stream, "sha256").hexdigest()
        except OSError as error:
            raise unreadable(path, error) from error


def digests(place: Path) -> dict[str, str]:
    """File → SHA-256 of all files of a folder that are not hidden; a place that is itself a file has the name `.`."""
    paths = [place] if is_file(place) else files_below(place)
    seen = [(path, path.relative_to(place)) for path in paths]
    return {name.as_posix(): file_sha256(path) for path, name in seen if not any(p[0] == "." for p in name.parts)}


def is_file(path: Path) -> bool:
    """Whether there is a regular file of that name; also for names that no file can have, which `Path` fails for."""
    return os.path.isfile(path)  # noqa: PTH113


def is_folder(path: Path) -> bool:
    """Whether there is a folder of that name; also for names that no file can have."""
    return os.path.isdir(path)  # noqa: PTH112


def exists(path: Path) -> bool:
    """Whether there is anything of that name."""
    return os.path.exists(path)  # noqa: PTH110


def unreadable(path: Path, error: Exception, hint: str = "") -> InputError:
    """The error for a file that cannot be read."""
    reason = getattr(error, "strerror", None) or error
    return InputError(f"{path}: cannot be read ({reason}){hint and '; '}{hint}")


def paths_in(folder: Path, pattern: str = "*") -> list[Path]:
    """The sorted entries of a folder whose names match a pattern of `fnmatch`; none if it does not exist."""
    try:
        paths = list(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL
        raise unreadable(folder, error) from error
    return sorted(path for path in paths if fnmatchcase(path.name, pattern))


def files_below(folder: Path, pattern: str = "*") -> list[Path]:
    """The files in a folder and its subfolders whose names match a pattern, sorted; none if it does not exist."""

    def refuse(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError | NotADirectoryError):
            raise unreadable(Path(error.filename or folder), error) from error

    found, seen = [], 0
    for parent, folders, names in os.walk(folder, onerror=refuse):
        seen += len(folders) + len(names)
        if seen > _MOST_ENTRIES:
            raise InputError(f"{folder}: more than {_MOST_ENTRIES:,} files in it; give the folder of the data alone")
        found += [Path(parent) / name for name in names if fnmatchcase(name, pattern)]
    return sorted(found)


def refuse_few_open_files(needed: int = 64) -> None:
    """Raise the process's own limit if it is too low; an `InputError` where the system does not allow so many."""
    try:
        import resource  # noqa: PLC0415 - not on Windows, which has no such limit
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise InputError(
            f"this process may have {hard} files open, and a run needs {needed}: raise the limit, such as with "
            "`ulimit -n 1024`"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


_NOT_TEXT = re.compile(r"[\x00-\x08\x0e-\x1f\x7f\ud800-\udfff]")


def parse_json(text: str, location: str, of_pairs: Callable[..., Any] | None = None) -> Any:
    """The value of a JSON text; InputError if it is none, too deep, or a string holds what is not text.

    `of_pairs` makes an object of its keys and values, by default a dictionary; it may raise InputError.
    """
    try:
        value = json.loads(text, object_pairs_hook=of_pairs)
    except InputError as error:
        raise InputError(f"{location}: {error}") from None
    except RecursionError:
        raise InputError(f"{location}: lists or objects in too many levels; give plain values") from None
    except ValueError as error:
        raise InputError(f"{location}: not JSON ({error})") from error
    if "\\u" in text:  # only an escape can stand for such a character: the lines themselves are checked as text
        for string in _strings(value):
            if odd := _NOT_TEXT.search(string):
                raise InputError(f"{location}: the character U+{ord(odd[0]):04X} in a string is not text; remove it")
    return value


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for inner in [*value, *value.values()] if isinstance(value, dict) else value:
            yield from _strings(inner)
