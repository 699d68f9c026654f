"""Libraries that take long to import, imported while a run waits for its model to be opened.

ONNX Runtime opens a graph in one thread and releases Python's lock, so a second core has nothing else to do.
"""

import importlib
import threading
from collections.abc import Sequence
from contextlib import suppress


def import_ahead(names: Sequence[str]) -> threading.Thread:
    """Import modules in a thread, and return it. One that fails is imported again where it is used, and fails there.

    Args:
        names: Their full names.
    """

    def load() -> None:
        for name in names:
            with suppress(ImportError):
                importlib.import_module(name)

    thread = threading.Thread(target=load, name="import", daemon=True)  # an interrupted run does not wait for it
    thread.start()
    return thread
