"""A cache of the SHA-256 digests of an exported folder's files.

A digest costs about a second a gigabyte. So a folder keeps a small file with the digest of each of its files, beside
the file's size, time of its last change and inode. A digest is reused while all three are the same. It is not kept in a
folder that cannot be written, nor for a file that was changed a moment ago: some file systems count time in steps of
two seconds, and a second change within the same step would not be seen.
"""

import hashlib
import json
import os
import time
from contextlib import suppress
from pathlib import Path

_RECORD = ".verified.json"
_COARSEST_CLOCK = 2 * 10**9  # nanoseconds


class VerifiedFiles:
    """The digests of the files of one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known = _read(folder / _RECORD)
        self._changed = False

    def sha256(self, name: str) -> str:
        """SHA-256 of a file of the folder, in hex.

        Args:
            name: of a file that exists.

        Raises:
            OSError: it cannot be read.
        """
        path = self._folder / name
        before = _stamp(path)
        match self._known.get(name):
            case [*stamp, str(digest)] if stamp == before:
                return digest
        digest = file_sha256(path)
        if before == _stamp(path) and time.time_ns() - before[1] > _COARSEST_CLOCK:
            self._known[name] = [*before, digest]
            self._changed = True
        return digest

    def save(self) -> None:
        """Save the digests for the next time, if the folder can be written."""
        if not self._changed:
            return
        temporary = self._folder / f"{_RECORD}.{os.getpid()}"
        try:
            temporary.write_text(json.dumps(self._known), encoding="utf-8")
            temporary.replace(self._folder / _RECORD)
        except OSError:  # a folder that cannot be written is verified each time
            with suppress(OSError):
                temporary.unlink(missing_ok=True)


def _read(record: Path) -> dict[str, list[int | str]]:
    try:
        known = json.loads(record.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _stamp(path: Path) -> list[int]:
    """Size in bytes, time of the last change in nanoseconds, inode."""
    found = path.stat()
    return [found.st_size, found.st_mtime_ns, found.st_ino]


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's bytes, in hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
