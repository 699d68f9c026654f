"""The folder of a trained model: a checkpoint as transformers writes it, and the record of how it was made.

training.json says what made it, and once it is finished its files and scores. checkpoints/ is there until then; each of
them counts once its seal is there. The result is moved here from a hidden folder, config.json last.
"""

import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ...engine.basics.atomic import flush_folder, is_leftover, make_folder, remove_leftovers, unwritable, write_bytes
from ...engine.basics.errors import InputError
from ...engine.basics.reading import MissingFileError, file_sha256, paths_in
from ...engine.basics.sealed import read_sealed, write_sealed
from ...engine.basics.versions import source_commit, versions
from ...engine.inference.machine import machine
from ...engine.runs.lock import LOCK_FILE, Held, locked, refuse_links
from ...engine.runs.record import as_json, differences
from ...engine.runs.results import unlike
from ..checkpoint_files import FORMAT, RECORD, TrainingRecord

CHECKPOINTS = "checkpoints"
_STAGED = ".result"
_LAST = "config.json"  # what makes a folder a checkpoint
_REPAIR = "choose another --output, or remove the folder and train again"
_PACKAGES = ("torch", "transformers", "accelerate", "tokenizers", "numpy")


class TrainingFolder:
    """A folder that this process holds; made by `hold`."""

    def __init__(self, folder: Path, record: TrainingRecord, lock: Held) -> None:
        self.folder, self.record = folder, record
        self.refuse_taken = lock.refuse_taken

    @classmethod
    @contextmanager
    def hold(
        cls, folder: Path, kind: str, identity: Mapping[str, Any], metadata: Mapping[str, Any] | None = None
    ) -> Iterator["TrainingFolder"]:
        """Hold a new folder, or one in which the same training (of a command `kind`, such as `nli train`) was begun.

        Raises InputError if the folder is something else, holds another training, is held by another process, or cannot
        be written. Nothing in it is changed then.
        """
        made = {"packages": versions(_PACKAGES), "machine": machine(), "source": source_commit()}
        about = as_json({**(metadata or {}), **made})
        new = TrainingRecord(FORMAT, version("negengine"), kind, as_json(identity), about)
        _refuse_other(folder, _read(folder), new)  # before anything is written
        make_folder(folder)
        with locked(folder) as lock:
            known = _read(folder)
            _refuse_other(folder, known, new)
            refuse_links(folder / CHECKPOINTS, folder / _STAGED)
            remove_leftovers(folder)
            held = cls(folder, known or new, lock)
            held._remove(_STAGED)
            if held.is_finished:
                held._remove(CHECKPOINTS)
            yield held

    def write_record(self) -> None:
        """A training that is refused before this has left nothing but an empty folder."""
        write_sealed(self.folder / RECORD, self.record)

    @property
    def checkpoints(self) -> Path:
        return self.folder / CHECKPOINTS

    @property
    def is_finished(self) -> bool:
        """Whether the result is there as it was written."""
        return self.record.finished and not unlike(self.folder, self.record.files)

    def publish(self, save: Callable[[Path], None], result: Mapping[str, Any]) -> None:
        """Write the result and then the record, remove checkpoints. Raises InputError if a file cannot be written."""
        staged = self.folder / _STAGED
        self.refuse_taken()
        try:
            self._remove(_STAGED)
            staged.mkdir()
            save(staged)
            flush_folder(staged)  # transformers does not: a power cut would leave a record without its weights
            paths = sorted(paths_in(staged), key=lambda path: path.name == _LAST)
            files = {path.name: file_sha256(path) for path in paths}
            (self.folder / _LAST).unlink(missing_ok=True)
            for path in paths:
                path.replace(self.folder / path.name)
            flush_folder(self.folder)
        except OSError as error:
            raise unwritable(self.folder, error) from error
        self.record.files, self.record.result, self.record.finished = files, as_json(result), True
        self.write_record()
        self._remove(_STAGED)
        self._remove(CHECKPOINTS)

    def _remove(self, name: str) -> None:
        try:
            shutil.rmtree(self.folder / name)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise unwritable(self.folder / name, error) from error


def read_training(folder: Path) -> TrainingRecord:
    """The record of a training. Raises InputError if the folder does not hold one, or it is damaged."""
    return read_sealed(folder / RECORD, TrainingRecord, made_as=FORMAT, repair=_REPAIR)


def _read(folder: Path) -> TrainingRecord | None:
    """The record of a training; None for a missing or empty folder."""
    try:
        return read_training(folder)
    except MissingFileError:
        foreign = [path.name for path in paths_in(folder) if path.name != LOCK_FILE and not is_leftover(path)]
        if foreign:
            told = f"holds {foreign[0]!r} but no {RECORD}, so it is not the folder of a training"
            raise InputError(f"{folder}: {told}; choose another --output") from None
        return None


def _refuse_other(folder: Path, old: TrainingRecord | None, new: TrainingRecord) -> None:
    if old is None:
        return
    if changed := differences({"command": old.kind, **old.identity}, {"command": new.kind, **new.identity}):
        raise InputError(f"{folder}: was trained with {changed}: choose another --output")


SEAL = "complete.json"  # the sizes of a checkpoint's files, once they are on the disk
_NAME = re.compile(r"checkpoint-([0-9]{1,12})")


def seal(checkpoint: Path) -> None:
    """Mark a checkpoint as complete. Raises InputError if the mark cannot be written."""
    flush_folder(checkpoint)
    write_bytes(checkpoint / SEAL, json.dumps(_sizes(checkpoint)).encode())


def _sizes(checkpoint: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in paths_in(checkpoint) if path.is_file() and path.name != SEAL}


def checkpoints_in(folder: Path) -> list[Path]:
    """The checkpoints of a folder, which may be missing; the newest first."""
    found = (path for path in paths_in(folder) if path.is_dir() and steps_of(path) >= 0)
    return sorted(found, key=steps_of, reverse=True)


def is_complete(checkpoint: Path) -> bool:
    """Whether all files of a checkpoint are there, with their sizes: one that is being removed may have its mark."""
    try:
        return bool(json.loads((checkpoint / SEAL).read_bytes()) == _sizes(checkpoint))
    except (OSError, ValueError):
        return False


def steps_of(checkpoint: Path) -> int:
    """After how many steps a checkpoint was written."""
    match = _NAME.fullmatch(checkpoint.name)
    return int(match[1]) if match else -1
