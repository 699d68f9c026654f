"""One process at a time in a folder."""

import errno
import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import InputError
from .atomic import unwritable

LOCK_FILE = ".lock"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes out of a folder. The kernel gives the lock back when this process ends, however it ends.

    The lock file stays: to remove it would let two processes hold two files of the same name.

    Raises:
        InputError: Another process holds the folder, or the file system cannot lock.
    """
    path = folder / LOCK_FILE
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise unwritable(path, error) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
        except OSError as error:
            if error.errno != errno.EWOULDBLOCK:
                raise unwritable(path, error) from error
            holder = os.pread(descriptor, 200, 0).decode(errors="replace") or "another process"
            raise InputError(f"{folder}: in use by {holder}; wait until it ends or choose another --output") from error
        yield
    finally:
        os.close(descriptor)
