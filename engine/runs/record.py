"""run.json: how a run was made, stage by stage. Its digest and its form are checked when it is read."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from ..errors import InputError
from ..files.atomic import is_leftover
from ..files.listing import paths_in
from ..files.names import is_file_name
from ..files.reading import MissingFileError, exists
from ..files.sealed import read_sealed, write_sealed
from .lock import LOCK_FILE
from .session import Session
from .shard import Shard

FORMAT = 3
RUN_FILE = "run.json"
PARTS_FOLDER = "parts"
_MOST_SHOWN = 60  # characters of a value in a message
_REPAIR = "choose another --output, or run its command again into one"


class Recorded(dict[str, Any]):
    """What run.json says of a stage. A key that it lacks is bad input, not a bug: the run may be from elsewhere."""

    def __missing__(self, key: str) -> Any:
        raise InputError(f"{RUN_FILE} does not say {key!r} of a stage, so it is not as negengine writes it; {_REPAIR}")


class StageRecord(msgspec.Struct):
    """One stage of a run.

    Attributes:
        identity: Everything that the stage's rows depend on.
        parts: Number of parts of the whole stage.
        shard: The shard that the folder holds, as `I/N`; None for all.
        metadata: What publication and later readers need of the stage.
        finished: Whether the final files are those of all parts.
        files: Final file → its SHA-256.
        counts: The parts' counts, summed; once finished.
        calibration: Pattern → how it is decided; None before it is known.
        kernels: The graph and the size of the batches that decide in fp32 on CPUs; empty where there was no choice.
        sessions: One entry for each process that worked on it.
    """

    identity: dict[str, Any]
    parts: int
    shard: str | None = None
    metadata: dict[str, Any] = {}
    finished: bool = False
    files: dict[str, str] = {}
    counts: dict[str, int | float] = {}
    calibration: dict[str, dict[str, Any]] | None = None
    kernels: dict[str, Any] = {}
    sessions: list[Session] = []

    def __post_init__(self) -> None:
        self.identity, self.metadata = Recorded(self.identity), Recorded(self.metadata)
        if self.parts < 0:
            raise ValueError("parts must not be negative")
        if wrong := [name for name in self.files if not _is_file_of_a_run(name)]:
            raise ValueError(f"{wrong[0][:40]!r} is not the name of a final file")
        if self.shard is not None:
            Shard.parse(self.shard)


class RunRecord(msgspec.Struct):
    """The whole of run.json: stages in the order in which they ran."""

    format: int
    negengine: str
    stages: dict[str, StageRecord]

    def write(self, folder: Path) -> None:
        """Write run.json into a folder, atomically.

        Raises:
            InputError: It cannot be written.
        """
        write_sealed(folder / RUN_FILE, self)


def read_record(folder: Path) -> RunRecord | None:
    """The record of a run folder; None for a missing or empty folder, or one in which a run was only about to begin.

    Raises:
        InputError: The folder is something else, or run.json cannot be used.
    """
    try:
        return read_sealed(folder / RUN_FILE, RunRecord, made_as=FORMAT, repair=_REPAIR)
    except MissingFileError:
        _refuse_foreign(folder)
        return None


def read_run(folder: Path) -> RunRecord:
    """The record of a run folder.

    Raises:
        InputError: The folder is not a run folder.
    """
    record = read_record(folder) if exists(folder / RUN_FILE) else None
    if record is None:
        raise InputError(f"{folder} is not a run folder: it has no {RUN_FILE}")
    return record


def differences(old: Mapping[str, Any], new: Mapping[str, Any], then: str = "now") -> str:
    """Each key whose values differ, as `seed 0, now 1`; empty where there is none.

    Args:
        old: One side.
        new: The other.
        then: The word for the other side.
    """
    keys = [key for key in {**old, **new} if key not in old or key not in new or old[key] != new[key]]
    return "; ".join(f"{key} {_shown(old.get(key))}, {then} {_shown(new.get(key))}" for key in keys)


def refuse_other_identity(folder: Path, stage: str, old: StageRecord, new: StageRecord) -> None:
    """Refuse to continue a stage that was started with another model, other words or other options.

    Raises:
        InputError: The two differ.
    """
    then, now = ({**side.identity, "parts": side.parts, "shard": side.shard} for side in (old, new))
    if changed := differences(then, now):
        raise InputError(f"{folder}: {stage} was made with {changed}: choose another --output")


def as_json(value: Any) -> Any:
    """The value as it comes back from run.json, so that the two can be compared."""
    return json.loads(json.dumps(value))


def _is_file_of_a_run(name: str) -> bool:
    """Whether a name stays inside the folder and does not belong to a file with another purpose."""
    return is_file_name(name) and not name.startswith(".") and name.casefold() not in {RUN_FILE, PARTS_FOLDER}


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    most = 12 if re.fullmatch(r"[0-9a-f]{40,}", text) else _MOST_SHOWN
    return text if len(text) <= most else f"{text[:most]}…"


def _refuse_foreign(folder: Path) -> None:
    foreign = [entry.name for entry in paths_in(folder) if entry.name != LOCK_FILE and not is_leftover(entry)]
    if foreign:
        raise InputError(
            f"{folder}: holds {foreign[0]!r} but no {RUN_FILE}, so it is not a run folder; choose another --output"
        )
