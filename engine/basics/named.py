"""What a text names, such as `negengine.engine.results.report.report:report`, is imported when it is asked for."""

import importlib
from typing import Any


def load(reference: str) -> Any:
    """Import what `module:attribute` names."""
    module, _, attribute = reference.partition(":")
    return getattr(importlib.import_module(module), attribute)
