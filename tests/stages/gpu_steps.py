"""Steps for the tests of `bench gpu`: one that ends well, and one for each way in which a step can end badly."""

import os
import threading

from negengine.bench.gpu import NotHere


def well(setting):
    """Finds something."""
    return {"kind": setting.kind, "models": [model.name for model in setting.models]}


def export(setting):
    """Exports nothing, and says where a model is."""
    model = {"name": setting.names[0], "checkpoint": "somewhere", "folder": setting.cache, "is_random": True}
    return {"models": [model], "failed": {}}


def not_here(_):
    """Has nothing to measure."""
    raise NotHere("no such device")


def raises(_):
    """Fails."""
    print("a line of a library")  # noqa: T201 - as libraries do
    raise ValueError("a first line\nand a second one")


def crashes(_):
    """Ends its process, as a library's crash does."""
    os._exit(7)


def hangs(_):
    """Never ends."""
    threading.Event().wait()
