"""export.json: what an exported folder holds. Its digest and its form are checked when it is read.

A digest of a file costs about a second a gigabyte. So the folder keeps the digest of each of its files beside the
file's size, time of its last change and inode (`VerifiedFiles`), and reuses it while all three are the same. It is not
kept in a folder that cannot be written, nor for a file that was changed a moment ago: some file systems count time in
steps of two seconds, and a second change within the same step would not be seen. A damaged record is as good as none.
"""

import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import msgspec

from ..basics.errors import InputError
from ..basics.paths import is_file_name, is_model_name
from ..basics.reading import MOST_JSON, file_sha256, read_regular
from ..basics.sealed import DamagedError, format_of, read_sealed, unseal, write_sealed

FORMAT = 3  # of export.json and of the graph's inputs and outputs; raised when older exports can no longer be run
MANIFEST = "export.json"
GRAPH, TOKENIZER = "model.onnx", "tokenizer.json"

_Count = Annotated[int, msgspec.Meta(ge=1, le=2**31)]
_Digest = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
_REPAIR = "export the model again with --force"


class Manifest(msgspec.Struct):
    """What the engine reads of export.json; it has further members for people."""

    format: int
    task: str
    name: str  # hub id, or the name of the local folder that the export was made from
    family: str  # the architecture, such as `bert`
    # `revision` (the hub's commit, or the SHA-256 of the local folder), and versions of packages
    made_from: dict[str, str]
    mask_token: str  # such as `[MASK]`; empty for a classifier without one
    padding_id: Annotated[int, msgspec.Meta(ge=0, le=2**31)] | None  # the id that no sentence may hold
    vocab_size: _Count  # number of logits
    max_length: _Count  # the largest number of tokens that a sentence may have
    files: dict[str, _Digest]  # file name → SHA-256
    origin: str = ""  # hub id, or the path of the local folder
    labels: list[str] = []  # of a classifier, in the order of its logits
    truncation_side: str = "right"  # where a classifier shortens a text that is too long

    def __post_init__(self) -> None:
        if not is_model_name(self.name):
            raise ValueError(f"{self.name[:40]!r} is not the name of a model")
        if "revision" not in self.made_from:
            raise ValueError("made_from lacks the revision")
        if wrong := [name for name in self.files if not is_file_name(name)]:
            raise ValueError(f"{wrong[0][:40]!r} is not the name of a file in the folder")
        if missing := {GRAPH, TOKENIZER} - set(self.files):
            raise ValueError(f"files lacks {', '.join(sorted(missing))}")


def write_manifest(folder: Path, info: dict[str, Any]) -> None:
    """Write export.json, with its digest."""
    write_sealed(folder / MANIFEST, info)


def read_manifest(folder: Path) -> tuple[Manifest, dict[str, Any]]:
    """The export.json of a folder: what the engine reads of it, and all of it.

    Raises:
        InputError: It is missing, damaged, edited, or of another format.
    """
    path = folder / MANIFEST
    info = read_sealed(path, dict[str, Any], made_as=FORMAT, repair=_REPAIR)
    try:
        return msgspec.convert(info, Manifest), info
    except msgspec.ValidationError as error:
        raise InputError(f"{path}: not as negengine writes it ({str(error)[:120]}); {_REPAIR}") from None


class Origin(msgspec.Struct):
    """What an export was made from: what export.json says in every format. Empty where it says nothing."""

    task: str = ""
    origin: str = ""
    made_from: dict[str, str] = {}


def read_origin(folder: Path) -> Origin | None:
    """What the export in a folder was made from; None if there is no export.json, or a damaged one.

    Exports of older formats can be recognized by it, to make them again. They had no digest, so theirs is not checked.
    """
    try:
        content = read_regular(folder / MANIFEST, MOST_JSON)
        if (found := format_of(content)) is not None and found < FORMAT:
            return msgspec.json.decode(content, type=Origin)
        return unseal(content, Origin)
    except (InputError, DamagedError, msgspec.DecodeError):
        return None


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
        """SHA-256 of a file of the folder, in hex."""
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
