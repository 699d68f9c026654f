"""The files of a stage on their way to machines that do not see them: a folder of an exported model, a file of a user.

A machine that holds the same files at the same path reads them there. Another one gets them through Ray's object store,
once, in pieces, and keeps them in a folder that is named by their digest in its folder for temporary files. So a later
run of the same model finds them. Every digest is compared on the machine that will read the file.
"""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock

from ..basics.errors import InputError
from ..basics.reading import file_sha256, is_file, is_folder
from ..inference.exported import VerifiedFiles

PIECE = 64 * 2**20  # bytes
Pieces = Mapping[str, Sequence[Any]]
"""File → references to its pieces in the object store."""


@dataclass(frozen=True)
class SentFile:
    """A file or folder of a stage, as a machine must hold it."""

    place: Path  # where it is on the machine that started the run; absolute
    digests: Mapping[str, str]  # File → SHA-256: of all files of a folder, or of the one file, by its name
    is_folder: bool  # whether it is a folder

    @classmethod
    def at(cls, place: Path) -> "SentFile":
        """What is at a place; hidden files of a folder do not count. Raises InputError if a file cannot be read."""
        place = place.absolute()
        if not is_folder(place):
            return cls(place, {place.name: file_sha256(place)}, is_folder=False)
        names = [path.relative_to(place).as_posix() for path in sorted(place.rglob("*")) if path.is_file()]
        known = VerifiedFiles(place)
        shown = [name for name in names if not any(part.startswith(".") for part in name.split("/"))]
        digests = {name: known.sha256(name) for name in shown}
        known.save()
        return cls(place, digests, is_folder=True)

    def is_at(self, place: Path) -> bool:
        folder = place if self.is_folder else place.parent
        if not all(is_file(folder / name) for name in self.digests):
            return False
        known = VerifiedFiles(folder)
        try:
            same = all(known.sha256(name) == digest for name, digest in self.digests.items())
        except InputError:
            return False
        if self.is_folder:
            known.save()
        return same

    def in_store(self, put: Callable[[Any], Any], piece: int = PIECE) -> Pieces:
        """Put all files into the object store with `ray.put`, in pieces of so many bytes."""
        folder = self.place if self.is_folder else self.place.parent
        return {name: list(_put(folder / name, put, piece)) for name in self.digests}

    def copied(self, pieces: Pieces, get: Callable[[Any], Any], folder: Path | None = None) -> Path:
        """The copy on this machine; made of pieces, which `ray.get` gives, if there is none yet.

        Raises InputError if it cannot be written, or arrived damaged.
        """
        copies = folder or copies_folder()
        own = json.dumps([self.place.name, *sorted(self.digests.items())])
        name = hashlib.sha256(own.encode()).hexdigest()[:32]
        target = copies / name / self.place.name
        with FileLock(copies / f"{name}.lock"):  # the workers of a machine wait for the first one
            if not self.is_at(target):
                part = copies / f"{name}.part"
                for old in (part, target.parent):
                    shutil.rmtree(old, ignore_errors=True)
                inside = part / self.place.name if self.is_folder else part
                try:
                    for file, digest in self.digests.items():
                        _write(inside / file, (get(piece) for piece in pieces[file]), digest)
                    part.rename(target.parent)
                except OSError as error:
                    raise InputError(f"{copies}: the copy of {self.place.name} cannot be written ({error})") from None
                finally:
                    shutil.rmtree(part, ignore_errors=True)
        return target


def copies_folder() -> Path:
    """Where this machine keeps this user's copies; raises InputError if the folder is somebody else's."""
    own = os.getuid() if hasattr(os, "getuid") else 0
    folder = Path(tempfile.gettempdir()) / f"negengine-{own}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise InputError(f"{folder}: cannot be made ({error.strerror})") from None
    if hasattr(os, "getuid") and found.st_uid != own:
        raise InputError(f"{folder}: belongs to another user; set TMPDIR to a folder of your own")
    return folder


def _put(path: Path, put: Callable[[Any], Any], piece: int) -> Iterable[Any]:
    if path.stat().st_size == 0:
        return
    content = np.memmap(path, np.uint8, "r")
    for start in range(0, len(content), piece):
        yield put(np.asarray(content[start : start + piece]))


def _write(path: Path, pieces: Iterable[Any], wanted: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    found = hashlib.sha256()
    with path.open("wb") as stream:
        for piece in pieces:
            stream.write(piece)
            found.update(piece)
    if found.hexdigest() != wanted:
        raise InputError(f"{path.name} arrived damaged (its sha256 is not that of the original): run again")
