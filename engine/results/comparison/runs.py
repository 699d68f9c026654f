"""Several runs: opened, named, and checked that they can be put side by side; `ng.items`, all their items."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from ...basics.errors import InputError
from ...library.run import Run
from ...runs.record import differences
from ...views.labels import numbered
from ..finished import open_run
from .estimates import MODEL

Runs = Run | str | Path | Sequence[Run | str | Path]


def open_runs(runs: Runs) -> list[Run]:
    """Open runs that can be put side by side: finished, of one kind, with the same data and conditions."""
    opened = open_alike(runs)
    refuse_unlike(opened, opened[0].may_differ)
    return opened


def open_alike(runs: Runs) -> list[Run]:
    """Open runs of one kind: finished, each given once."""
    given = [runs] if isinstance(runs, Run | str | Path) else list(runs)
    if not given:
        raise InputError("no runs given; give one or more run folders")
    opened = [run if isinstance(run, Run) else open_run(run) for run in given]
    if len({run.stage for run in opened}) > 1:
        kinds = ", ".join(f"{run.folder} ({run.stage})" for run in opened)
        raise InputError(f"runs of different kinds: {kinds}; give those of one kind")
    known = Counter((run.folder.resolve(), run.model_name) for run in opened)
    if twice := [folder for (folder, _), n in known.items() if n > 1]:
        raise InputError(f"{twice[0]} is given more than once; give each run once")
    return opened


def refuse_unlike(runs: Sequence[Run], may_differ: Sequence[str] = ()) -> None:
    """Refuse runs whose items cannot be compared with those of the first: other data, other conditions."""
    conditions = [{key: own for key, own in run.conditions.items() if key not in may_differ} for run in runs]
    for run, own in zip(runs[1:], conditions[1:], strict=True):
        if unlike := differences(conditions[0], own, "there"):
            raise InputError(f"{runs[0].folder} and {run.folder} cannot be compared: {unlike}")


def other_vocabularies(runs: Sequence[Run], frame: pl.DataFrame) -> list[str]:
    """A warning where models with different vocabularies are compared by other numbers than rates."""
    known = {run.tokenizer_sha256 for run in runs} - {""}
    if len(known) < 2 or frame.filter(pl.col("unit").eq("") & pl.col("metric").ne("spearman")).is_empty():
        return []
    said = "each log-probability is about the tokens of its own model, so a difference of them says little"
    return [f"the models have different vocabularies: {said}; compare rates"]


def labels(runs: Sequence[Run]) -> list[str]:
    """Another name for each run: its label or model, conditions in which runs differ, and if needed the folder."""
    names = [run.label or run.model_name for run in runs]
    for key in runs[0].may_differ:
        values = [str(run.conditions[key]) for run in runs]
        if len(set(values)) > 1:
            names = [f"{name}, {value}" for name, value in zip(names, values, strict=True)]
    for folders in ([run.folder.resolve().name for run in runs], [str(run.folder) for run in runs]):
        counts = Counter(names)
        both = zip(names, folders, strict=True)
        named = [name if counts[name] == 1 else f"{name} ({folder})" for name, folder in both]
        if len(set(named)) == len(named):
            break
    return numbered(named)


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
