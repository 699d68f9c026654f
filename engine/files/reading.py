"""Reading a file with care: a regular file only, and only so many bytes.

A name that a user gives can be a pipe without a writer, a device without an end, or a file of any size. To open the
first and to read the second would take for ever. So every file is opened here.
"""

import hashlib
import os
import stat
from contextlib import suppress
from io import BufferedReader
from pathlib import Path

from ..errors import InputError

MOST_JSON = 64 * 2**20
"""Bytes of a JSON document: a hundred times the largest one that negengine writes."""


class MissingFileError(InputError):
    """There is no file of that name."""


class LargerError(InputError):
    """A file is larger than a file of its kind can be."""


def open_regular(path: Path, hint: str = "") -> BufferedReader:
    """Open a file for reading, if it is a regular file.

    Args:
        path: The file.
        hint: What the user can do if it cannot be read, for the message.

    Raises:
        MissingFileError: There is no file of that name.
        InputError: It is a folder, a pipe or a device, or it cannot be read.
    """
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
    """The content of a regular file.

    Args:
        path: The file.
        most: The largest size that such a file can have, in bytes.
        hint: What the user can do if it cannot be read, for the message.

    Raises:
        MissingFileError: There is no file of that name.
        LargerError: It is larger.
        InputError: It is not a regular file, or it cannot be read.
    """
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


def is_file(path: Path) -> bool:
    """Whether there is a regular file of that name; also for names that no file can have, which `Path` fails for."""
    return os.path.isfile(path)  # noqa: PTH113


def is_folder(path: Path) -> bool:
    """Whether there is a folder of that name."""
    return os.path.isdir(path)  # noqa: PTH112


def exists(path: Path) -> bool:
    """Whether there is anything of that name."""
    return os.path.exists(path)  # noqa: PTH110


def unreadable(path: Path, error: Exception, hint: str = "") -> InputError:
    """The error for a file that cannot be read."""
    reason = getattr(error, "strerror", None) or error
    return InputError(f"{path}: cannot be read ({reason}){hint and '; '}{hint}")
