"""Files that a system makes once for a model, such as another export of the checkpoint."""

import shutil
from collections.abc import Callable
from pathlib import Path

from ...engine.inference.exported import load_exported
from .system import Place


def once(place: Place, name: str, make: Callable[[Path], None]) -> Path:
    """A folder of the cache that belongs to the exported model's bytes; it is made where it is not complete."""
    digest = load_exported(place.exported).sha256[:16]
    folder = place.cache / "systems" / f"{place.exported.name}-{digest}-{name}"
    if not (folder / "complete").is_file():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        make(folder)
        (folder / "complete").touch()
    return folder
