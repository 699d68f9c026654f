"""A cache of the SHA-256 digests of an exported folder's files.

A digest costs about a second a gigabyte. So a folder keeps a small file with the digest of each of its files, beside
the file's size, time of its last change and inode. A digest is reused while all three are the same. It is not kept in a
folder that cannot be written, nor for a file that was changed a moment ago: some file systems count time in steps of
two seconds, and a second change within the same step would not be seen. A damaged record is as good as none.
"""

import time
from contextlib import suppress
from pathlib import Path

import msgspec

from ..errors import InputError
from ..files.reading import MOST_JSON, file_sha256, read_regular
from ..files.sealed import DamagedError, unseal, write_sealed

_RECORD = ".verified.json"
_COARSEST_CLOCK = 2 * 10**9  # nanoseconds


class _Verified(msgspec.Struct, forbid_unknown_fields=True):
    """A file's digest, and its state when it was read: size, time of the last change in nanoseconds, inode."""

    stamp: tuple[int, int, int]
    sha256: str


class _Record(msgspec.Struct):
    files: dict[str, _Verified]


class VerifiedFiles:
    """The digests of the files of one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._record = _read(folder / _RECORD)
        self._changed = False

    def sha256(self, name: str) -> str:
        """SHA-256 of a file of the folder, in hex.

        Args:
            name: of a file that exists.

        Raises:
            InputError: it cannot be read.
        """
        path = self._folder / name
        before = _stamp(path)
        known = self._record.files.get(name)
        if known is not None and known.stamp == before:
            return known.sha256
        digest = file_sha256(path)
        if before == _stamp(path) and time.time_ns() - before[1] > _COARSEST_CLOCK:
            self._record.files[name] = _Verified(before, digest)
            self._changed = True
        return digest

    def save(self) -> None:
        """Save the digests for the next time, if the folder can be written."""
        if self._changed:
            with suppress(InputError):  # a folder that cannot be written is verified each time
                write_sealed(self._folder / _RECORD, self._record)


def _read(record: Path) -> _Record:
    try:
        return unseal(read_regular(record, MOST_JSON), _Record)
    except (InputError, DamagedError):
        return _Record({})


def _stamp(path: Path) -> tuple[int, int, int]:
    """Size in bytes, time of the last change in nanoseconds, inode."""
    found = path.stat()
    return found.st_size, found.st_mtime_ns, found.st_ino
