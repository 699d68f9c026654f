"""Several runs: opened, named, and checked that they can be put side by side.

`ng.items`: the items of several runs as one tidy frame, for a model with random effects in R or Python.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from ...basics.errors import InputError
from ...library.finished import open_run
from ...library.run import Run
from ...runs.record import differences
from .estimates import MODEL

Runs = Run | str | Path | Sequence[Run | str | Path]


def open_runs(runs: Runs) -> list[Run]:
    """Open runs that can be put side by side: finished, of one kind, with the same data and conditions."""
    given = [runs] if isinstance(runs, Run | str | Path) else list(runs)
    if not given:
        raise InputError("no runs given; give one or more run folders")
    opened = [run if isinstance(run, Run) else open_run(run) for run in given]
    refuse_twice(opened)
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


def open_alike(runs: Sequence[Run | str | Path]) -> list[Run]:
    """Open runs of one kind, whose items may be compared: finished, each given once."""
    found = [run if isinstance(run, Run) else open_run(run) for run in runs]
    if not found:
        raise InputError("no runs given; compare takes one or more run folders")
    if len({run.stage for run in found}) > 1:
        raise InputError(f"runs of different kinds: {', '.join(f'{run.folder} ({run.stage})' for run in found)}")
    refuse_twice(found)
    return found


def refuse_unlike(runs: Sequence[Run]) -> None:
    """Refuse runs whose items cannot be compared with those of the first: other data, other conditions."""
    first, *others = runs
    for other in others:
        if unlike := differences(first.conditions, other.conditions, "there"):
            raise InputError(f"{first.folder} and {other.folder} cannot be compared: {unlike}")


def labels(runs: Sequence[Run]) -> list[str]:
    """A name for each run, each another one.

    The run's label, or the model's name; with the conditions in which the runs differ; with the folder's name where two
    are still the same, and with its path where that is not enough.
    """
    names = [run.label or run.model_name for run in runs]
    for key in runs[0].may_differ:
        values = [str(run.conditions[key]) for run in runs]
        if len(set(values)) > 1:
            names = [f"{name}, {value}" for name, value in zip(names, values, strict=True)]
    for folders in ([run.folder.resolve().name for run in runs], [str(run.folder) for run in runs]):
        counts = Counter(names)
        named = [
            name if counts[name] == 1 else f"{name} ({folder})" for name, folder in zip(names, folders, strict=True)
        ]
        if len(set(named)) == len(named):
            break
    return named


def refuse_twice(runs: Sequence[Run]) -> None:
    """Refuse a run that is given more than once."""
    known = Counter((run.folder.resolve(), run.model_name) for run in runs)
    if twice := [folder for (folder, _), n in known.items() if n > 1]:
        raise InputError(f"{twice[0]} is given more than once; give each run once")


def _conditions(run: Run) -> dict[str, object]:
    return {key: value for key, value in run.conditions.items() if key not in run.may_differ}


def item_rows(*runs: Run | str | Path) -> pl.LazyFrame:
    """What `items` collects; it can be written piece by piece."""
    found = open_runs(runs)
    named = zip(found, labels(found), strict=True)
    frames = [run.tidy_rows().select(pl.lit(name).alias(MODEL), pl.all()) for run, name in named]
    return pl.concat(frames, how="diagonal")


def items(*runs: Run | str | Path) -> pl.DataFrame:
    """One row for each item, condition and model.

    Args:
        runs: Finished runs of one kind, or their folders.

    Returns:
        model, then the columns of `Run.sentences` without the texts; truth values are 1 and 0. The Self-Contained
        Negation Test has `pattern` in place of `condition`, and `pair`: name and profession.

    Raises:
        InputError: The runs cannot be put side by side, or have no sentences.
    """
    return item_rows(*runs).collect(engine="streaming")
