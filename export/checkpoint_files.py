"""What the files of a checkpoint tell besides its weights: its licence, how it was trained.

The licence is the entry `license` at the head of README.md; training.json is there where `negengine` trained it.
"""

from pathlib import Path
from typing import Any

import msgspec
import yaml
from huggingface_hub import RepoCard

from ..engine.basics.errors import InputError
from ..engine.basics.reading import is_file
from ..engine.basics.sealed import read_sealed
from .quiet import quiet
from .source import Source


def licence_of(source: Source) -> str | None:
    """What the head of the model card names, several separated by commas; None if there is none to read."""
    try:
        with quiet():
            found = RepoCard(source.file("README.md").read_text("utf-8")).data.get("license")
    except (OSError, TypeError, ValueError, yaml.YAMLError):  # the hub's errors are an OSError or a ValueError
        return None
    return (", ".join(map(str, found)) if isinstance(found, list) else str(found or "")) or None


RECORD = "training.json"
FORMAT = 1


class TrainingRecord(msgspec.Struct):
    """The whole of training.json."""

    format: int
    negengine: str
    kind: str  # the command, such as `nli train`
    identity: dict[str, Any]
    metadata: dict[str, Any] = {}
    finished: bool = False
    files: dict[str, str] = {}  # name → SHA-256
    result: dict[str, Any] = {}  # of a finished one: `steps`, `epochs`, `score` and the `history` of scores


def training_of(source: Source) -> dict[str, Any]:
    """What export.json says of the training: `training` with the command, settings, data and result; or nothing."""
    path = Path(source.location) / RECORD
    if not source.is_local or not is_file(path):
        return {}
    try:
        found = read_sealed(path, TrainingRecord, made_as=FORMAT, repair="train it again")
    except InputError:  # a record that was edited or damaged counts for nothing
        return {}
    result = {key: value for key, value in found.result.items() if key != "history"}
    return {"training": {"command": found.kind, **found.identity, **result}}
