"""Memory that ONNX Runtime has freed, given back to the system.

While it opens a graph, ONNX Runtime rewrites and packs the weights. The first copies are freed, but the C library keeps
their memory: of a model of 65 MB, 68 of 138 MB.
"""

import ctypes
from functools import cache
from typing import Any


def give_back_freed_memory() -> None:
    """Ask the C library to give back what it keeps; nothing happens where it cannot (it is not glibc)."""
    if (trim := _malloc_trim()) is not None:
        trim(0)


@cache
def _malloc_trim() -> Any:
    try:
        return getattr(ctypes.CDLL(None), "malloc_trim", None)
    except (OSError, TypeError):  # Windows has no library of the process itself
        return None
