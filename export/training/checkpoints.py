"""Checkpoints of a training that goes on: which of them is complete, so that a training resumes from it.

transformers writes the files of a checkpoint one by one. A process that is killed meanwhile leaves a folder without
some of them. A checkpoint counts once a seal is there, which names its files and their sizes and is written last.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ...engine.errors import InputError
from ...engine.files.atomic import flush_folder
from ...engine.files.reading import paths_in
from ...engine.files.sealed import read_sealed, write_sealed

SEAL = "complete.json"
_FORMAT = 1
_NAME = re.compile(r"checkpoint-([0-9]{1,12})")


class _Seal(msgspec.Struct):
    format: int
    files: dict[str, int]


def seal(checkpoint: Path) -> None:
    """Mark a checkpoint as complete.

    Raises:
        InputError: The mark cannot be written.
    """
    (checkpoint / SEAL).unlink(missing_ok=True)
    sizes = {path.name: path.stat().st_size for path in paths_in(checkpoint) if path.is_file()}
    flush_folder(checkpoint)
    write_sealed(checkpoint / SEAL, _Seal(format=_FORMAT, files=sizes))


def complete(folder: Path) -> list[Path]:
    """The complete checkpoints of a folder, which may be missing; the newest first."""
    return [
        checkpoint for checkpoint in sorted(_checkpoints(folder), key=steps_of, reverse=True) if is_complete(checkpoint)
    ]


def incomplete(folder: Path) -> list[Path]:
    """The checkpoints that a killed process has left unfinished."""
    return [checkpoint for checkpoint in _checkpoints(folder) if not is_complete(checkpoint)]


def is_complete(checkpoint: Path) -> bool:
    """Whether all files of a checkpoint are there, with their sizes."""
    try:
        sealed = read_sealed(checkpoint / SEAL, _Seal, made_as=_FORMAT, repair="remove it")
        return all((checkpoint / name).stat().st_size == size for name, size in sealed.files.items())
    except (InputError, OSError):
        return False


def steps_of(checkpoint: Path) -> int:
    """After how many steps a checkpoint was written."""
    match = _NAME.fullmatch(checkpoint.name)
    return int(match[1]) if match else -1


def _checkpoints(folder: Path) -> Iterator[Path]:
    if folder.is_dir():
        yield from (path for path in paths_in(folder) if path.is_dir() and steps_of(path) >= 0)
