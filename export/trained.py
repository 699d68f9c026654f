"""How a checkpoint was trained, where `negengine` trained it: from training.json beside the weights."""

from pathlib import Path
from typing import Annotated, Any

import msgspec

from ..engine.errors import InputError
from ..engine.files.paths import is_file_name
from ..engine.files.reading import is_file
from ..engine.files.sealed import read_sealed
from .checkpoint import Source

RECORD = "training.json"
FORMAT = 1


_Count = Annotated[int, msgspec.Meta(ge=1, le=2**53)]


class _Result(msgspec.Struct):
    """What the result of every finished training has."""

    steps: _Count
    epochs: _Count
    score: float


class TrainingRecord(msgspec.Struct):
    """The whole of training.json.

    Attributes:
        format: Of this document.
        negengine: Version.
        kind: The command, such as `nli train`.
        identity: Everything that the result depends on, except the versions and the machine.
        metadata: What else is told of the training: the first command, versions, machine.
        finished: Whether the result is complete.
        files: Its files → SHA-256.
        result: Steps, epochs and score, and the scores after each epoch; empty until it is finished.

    Raises:
        ValueError: A file is not one of the folder itself, or a finished training has no result.
    """

    format: int
    negengine: str
    kind: str
    identity: dict[str, Any]
    metadata: dict[str, Any] = {}
    finished: bool = False
    files: dict[str, str] = {}
    result: dict[str, Any] = {}

    def __post_init__(self) -> None:
        if wrong := [name for name in self.files if not is_file_name(name)]:
            raise ValueError(f"{wrong[0][:40]!r} is not the name of a file")
        if self.finished:
            msgspec.convert(self.result, _Result)


def training_of(source: Source) -> dict[str, Any]:
    """What export.json says of the training: `training` with the command, settings, data and result; or nothing.

    A record that was edited or damaged counts for nothing.

    Args:
        source: The checkpoint.
    """
    path = Path(source.location) / RECORD
    if not source.is_local or not is_file(path):
        return {}
    try:
        found = read_sealed(path, TrainingRecord, made_as=FORMAT, repair="train it again")
    except InputError:
        return {}
    result = {key: value for key, value in found.result.items() if key != "history"}
    return {"training": {"command": found.kind, **found.identity, **result}}
