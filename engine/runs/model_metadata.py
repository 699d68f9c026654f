"""What a stage of a language model records of its model in run.json, so that readers of the run need not open it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..files.paths import without_home
from ..inference.exported import ExportedModel

_FOLDER, _MASK = "model folder", "mask token"


def model_metadata(exported: ExportedModel) -> dict[str, str]:
    """Where the model is, and its mask token."""
    return {_FOLDER: without_home(exported.folder.resolve()), _MASK: exported.mask_token}


def mask_token(metadata: Mapping[str, Any], folder: Path) -> str:
    """The mask token of a stage's model.

    Args:
        metadata: Of the stage.
        folder: The run folder, for the message.

    Raises:
        InputError: The stage was run by a version that did not record it.
    """
    token = metadata.get(_MASK)
    if not isinstance(token, str):
        raise InputError(f"{folder}: run.json does not name the mask token; run the same command again to record it")
    return token
