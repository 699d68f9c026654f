"""A process that is forked from one that has worked: the threads of Polars and ONNX Runtime are missing in it."""

import os

from .errors import InputError

_has_worked, _is_forked = False, False


def refuse_forked() -> None:
    """Before work begins: `InputError` in a process that was forked from one that has worked."""
    global _has_worked  # noqa: PLW0603 - it is about the process
    if _is_forked:
        raise InputError(
            "this process was forked from one that has used negengine, whose threads are missing here: start it anew, "
            'such as by multiprocessing.get_context("spawn"), or load models in the new process only'
        )
    _has_worked = True


def _mark() -> None:
    global _is_forked  # noqa: PLW0603
    _is_forked = _has_worked


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_mark)
