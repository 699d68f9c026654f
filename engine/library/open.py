"""`ng.open` and `ng.merge`: run folders of any probe."""

from collections.abc import Sequence
from pathlib import Path

from ..errors import InputError
from ..runs import merge as merging
from ..runs.progress import Reporter
from ..runs.results import begun_stages, resume_hint
from .registry import publishers, run_class
from .run import Run


def open_run(folder: str | Path) -> Run:
    """Read a finished run of any probe.

    Args:
        folder: The run folder.

    Returns:
        The results of its last stage.

    Raises:
        InputError: The folder is not a run, its last stage is not finished, or no probe here reads it.
    """
    path = Path(folder)
    stages = begun_stages(path)
    name, record = next(reversed(stages.items()))
    found = run_class(name)
    if found is None:
        if name in publishers():
            state = "finished, but the run is not" if record.finished else "not finished"
            raise InputError(f"{path}: {name} is {state}; {resume_hint(record)}")
        raise InputError(f"{path}: no probe here reads the results of {name}; is the package that made them installed?")
    return found.open(path)


def merge(shards: Sequence[str | Path], output: str | Path) -> Run:
    """Put the shards of a run together: the same bytes as one whole run.

    Args:
        shards: The folders of all shards of one run, in any order.
        output: The run folder to write.

    Returns:
        The whole run.

    Raises:
        InputError: A shard is missing, not finished, or of another run; the output belongs to another run.
    """
    merging.merge([Path(shard) for shard in shards], Path(output), publishers(), Reporter().say)
    return open_run(output)
