"""The runs of a report: opened, and checked that they can be put side by side."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ..errors import InputError
from ..library.open import open_run
from ..library.run import Run
from ..negation.runs import ScoresRun
from ..runs.record import differences

Runs = Run | str | Path | Sequence[Run | str | Path]


def open_runs(runs: Runs) -> list[Run]:
    """Open runs that can be put side by side.

    Args:
        runs: Finished runs or their folders.

    Raises:
        InputError: There are none, one is not finished, or they are of different kinds, data or conditions.
    """
    given = [runs] if isinstance(runs, Run | str | Path) else list(runs)
    if not given:
        raise InputError("no runs given; give one or more run folders")
    opened = [run if isinstance(run, Run) else open_run(run) for run in given]
    folders = Counter(run.folder.resolve() for run in opened)
    if twice := [folder for folder, n in folders.items() if n > 1]:
        raise InputError(f"{twice[0]} is given more than once; give each run once")
    first, *others = opened
    for other in others:
        if first.stage != other.stage:
            raise InputError(
                f"{first.folder} ({first.stage}) and {other.folder} ({other.stage}) are runs of different kinds; make "
                "one report for each kind"
            )
        if unlike := differences(_conditions(first), _conditions(other), "there"):
            raise InputError(f"{first.folder} and {other.folder} cannot be put side by side: {unlike}")
    return opened


def labels(runs: Sequence[Run]) -> list[str]:
    """A name for each run: the model's, then the target's if it differs, and the folder's where models are the same."""
    names = [run.model_name for run in runs]
    targets = [run.coreference for run in runs if isinstance(run, ScoresRun)]
    if len(set(targets)) > 1:
        names = [f"{name}, {target}" for name, target in zip(names, targets, strict=True)]
    counts = Counter(names)
    return [
        name if counts[name] == 1 else f"{name} ({run.folder.resolve().name})"
        for name, run in zip(names, runs, strict=True)
    ]


def _conditions(run: Run) -> dict[str, object]:
    """What must agree; runs that differ in the target alone are shown beside each other, as in Tables 8 and 9."""
    return {key: value for key, value in run.conditions.items() if key != "coreference"}
