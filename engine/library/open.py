"""`ng.open` and `ng.merge`: run folders of any probe."""

from collections.abc import Sequence
from pathlib import Path

from ..basics.errors import InputError
from ..runs import merge as merging
from ..runs.divided import default_output, find_shards
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


def merge(shards: str | Path | Sequence[str | Path], output: str | Path | None = None) -> Run:
    """Put the shards of a run together: the same bytes as one whole run.

    Args:
        shards: The folders of all shards of one run, in any order; or a pattern such as `runs/mini-*-of-4`; or the name
            of the whole run, `runs/mini`, if the shards have their default names; or a folder that holds them alone.
        output: The run folder to write; by default the shards' name without `-I-of-N`.

    Returns:
        The whole run.

    Raises:
        InputError: A shard is missing, not finished, or of another run; the output belongs to another run, or is not
            given and the names of the shards do not say it.
    """
    given = [shards] if isinstance(shards, str | Path) else shards
    folders = find_shards([Path(shard) for shard in given])
    whole = Path(output) if output is not None else default_output(folders)
    merging.merge(folders, whole, publishers(), Reporter().say)
    return open_run(whole)
