"""Sealed documents as somebody else could make them: other content, with the right digest."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from negengine.engine.basics.sealed import seal, unseal


def reseal(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a sealed document, and give it the digest of what it has become."""
    document = unseal(path.read_bytes(), dict[str, Any])
    change(document)
    path.write_bytes(seal(document))
