"""One process at a time in a folder.

The locks of some shared file systems do not reach other machines. So the lock file also holds a random token of the
process that took the folder last: a process that finds another one than its own ends.
"""

import errno
import os
import secrets
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from filelock import lock_descriptor

from ..basics.atomic import unwritable
from ..basics.errors import InputError
from ..basics.reading import paths_in, unreadable

LOCK_FILE = ".lock"
_TEXT = 1  # where the holder's name begins: Windows lets no other process read the locked first byte
# A run can come from elsewhere: a link would have us write another file, and a pipe would have us wait for ever.
_NO_OTHER_FILE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_IS_OTHER = {errno.ELOOP, errno.EMLINK, errno.ENXIO}
_ATTEMPTS, _SECONDS_BETWEEN = 4, 0.02


@dataclass(frozen=True)
class Held:
    """A folder that this process holds."""

    folder: Path
    text: str  # what this process has written into the lock file

    def refuse_taken(self) -> None:
        """Raise InputError if another process has taken the folder meanwhile, which a lock did not stop."""
        path = self.folder / LOCK_FILE
        try:
            descriptor = os.open(path, os.O_RDONLY | _NO_OTHER_FILE)  # opened anew: NFS looks at the server then
            try:
                text = _text(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise unreadable(path, error) from error
        if text != self.text:
            raise InputError(
                f"{self.folder}: {_name(text)} has begun to work here, as the locks of this file system do not reach "
                "other machines; finished parts are kept, and it goes on with them"
            )


@contextmanager
def locked(folder: Path) -> Iterator[Held]:
    """Keep other processes out of a folder. Raises InputError if one holds it, or if the file system cannot lock."""
    path = folder / LOCK_FILE
    held = Held(folder, f"process {os.getpid()} on {socket.gethostname()[:100]}\n{secrets.token_hex(8)}")
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | _NO_OTHER_FILE, 0o666)
    except OSError as error:
        raise (_other_file(path) if error.errno in _IS_OTHER else unwritable(path, error)) from error
    try:
        if not _is_own_file(descriptor):  # before anything is written
            raise _other_file(path)
        try:
            attempts = iter(range(_ATTEMPTS - 1))  # who asks for the holder has the lock for an instant
            while not (is_ours := lock_descriptor(descriptor, blocking=False)) and next(attempts, None) is not None:
                time.sleep(_SECONDS_BETWEEN)
            if is_ours:
                os.ftruncate(descriptor, 0)
                os.write(descriptor, f" {held.text}".encode())
        except OSError as error:
            raise unwritable(path, error) from error
        if not is_ours:
            raise InputError(
                f"{folder}: in use by {_name(_text(descriptor))}; wait until it ends or choose another --output"
            )
        try:
            yield held
        except InputError:  # such as a temporary file that the other process has removed
            held.refuse_taken()
            raise
    finally:  # the file stays: else two processes could hold two files of the same name
        os.close(descriptor)


def refuse_links(*folders: Path) -> None:
    """Raise InputError for a link among the folders or in them: a run from elsewhere could write behind it."""
    for path in (each for own in folders for each in (own, *paths_in(own))):
        if path.is_symlink():
            raise InputError(f"{path}: a link, not a folder, so nothing is written there; choose another --output")


def refuse_held(folder: Path) -> None:
    """Raise InputError for a folder that another process holds; nothing in the folder is changed."""
    if (name := holder(folder)) is not None:
        raise InputError(f"{folder}: in use by {name}; wait until it ends")


def holder(folder: Path) -> str | None:
    """What the process that holds a folder says about itself: `process 123 on HOST`; None if none is found."""
    descriptor = None
    for flags in (os.O_RDWR, os.O_RDONLY):  # NFS asks for a file that may be written before it locks it
        with suppress(OSError):
            descriptor = os.open(folder / LOCK_FILE, flags | _NO_OTHER_FILE)
            break
    if descriptor is None:  # nobody has held it yet, or only its owner may know
        return None
    try:
        with suppress(OSError):  # a file system that cannot lock
            if _is_own_file(descriptor) and not lock_descriptor(descriptor, blocking=False):
                return _name(_text(descriptor))
        return None
    finally:
        os.close(descriptor)


def _is_own_file(descriptor: int) -> bool:
    """Whether it is a regular file of one name: a second name could be any file of the user's."""
    found = os.fstat(descriptor)
    return stat.S_ISREG(found.st_mode) and found.st_nlink == 1


def _other_file(path: Path) -> InputError:
    return InputError(
        f"{path}: not a lock file of negengine (a link, a pipe or a device), so it is not written; remove it, then "
        "run the same command again"
    )


def _text(descriptor: int) -> str:
    os.lseek(descriptor, _TEXT, os.SEEK_SET)
    return os.read(descriptor, 200).decode(errors="replace")


def _name(text: str) -> str:
    return text.partition("\n")[0] or "another process"
