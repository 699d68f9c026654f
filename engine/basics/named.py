"""What a text names, such as `module:attribute`, is imported when it is asked for.

A room below may ask for what a room above has, by a short name: it does not know who answers.
"""

import importlib
from typing import Any


def load(reference: str) -> Any:
    """Import what `module:attribute` names."""
    module, _, attribute = reference.partition(":")
    return getattr(importlib.import_module(module), attribute)


PLUGGED: dict[str, str] = {}  # a short name → the place; `import negengine` fills it, which stands above all rooms


def plugged(name: str) -> Any:
    """What stands above under this short name."""
    return load(PLUGGED[name])
