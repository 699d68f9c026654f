"""`negengine compare`: finished runs against each other, and the patterns of one run.

    one run of the main job              its patterns, on the same triplets
    several that differ in the target    Tables 8 and 9 of the paper: one column for each --coreference
    two runs of one kind by two models   every metric on the items that both have

Tests are exact (McNemar) for outcomes that are right or wrong and Wilcoxon's for numbers, adjusted after Holm over all
that one command makes. They take items as independent; triplets of one [NAME, PROF] pair are not, so that a p of the
main job is a lower bound: the intervals of `rates` know about pairs, these tests do not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from rich.markup import escape
from rich.table import Table

from ..errors import InputError
from ..negation.grid import Coreference
from ..negation.published import published
from ..negation.score import RATES_FILE, SCORES_FILE, read_selected
from ..negation.score import STAGE as SCORING
from ..negation.select import TRIPLETS_FILE
from ..runs.folder import finished_stage, read_run
from ..statistics import holm
from .gh22 import probe as gh22
from .nli import probe as nli
from .run import ITEMS_FILE
from .summary import ALL, KEYS, paired

MAIN_JOB = "SCNT"
_TRIPLET = ("name", "profession", "verb")
_GROUP = ("dataset", "condition", "split", "metric")
_COLUMNS = {
    Coreference.SAME_NAME: "same name",
    Coreference.SAME_GENDER: "other name, same gender",
    Coreference.OTHER_GENDER: "other name, other gender",
    Coreference.PRONOUN: "pronoun",
}


@dataclass(frozen=True, eq=False)
class Finished:
    """A finished run.

    Attributes:
        folder: the run folder.
        kind: the stage that made its results: `score` for the main job, or the probe's name.
        model: the model's name.
        coreference: what the target is about; for the main job alone.
    """

    folder: Path
    kind: str
    model: str
    coreference: str | None = None

    @property
    def patterns(self) -> list[str]:
        """The patterns of the main job, the selecting one first."""
        return [pattern.name for pattern in read_selected(self.folder).patterns.all]

    def outcomes(self) -> pl.DataFrame:
        """One row an item and metric: dataset, condition, split, metric, item, value (1 and 0, or any number)."""
        if self.kind == SCORING:
            triplets = pl.read_parquet(self.folder / TRIPLETS_FILE)
            scores = pl.read_parquet(self.folder / SCORES_FILE).join(triplets, on="triplet", validate="m:1")
            return scores.select(
                dataset=pl.lit(MAIN_JOB),
                condition=pl.lit(self.coreference),
                split="pattern",
                metric=pl.lit("repetition_rate"),
                item=pl.concat_str(_TRIPLET, separator="|"),
                value=pl.col("repeated").cast(pl.Float64),
            )
        items = pl.read_parquet(self.folder / ITEMS_FILE)
        if self.kind == gh22.STAGE:
            return items.select(
                dataset=pl.lit(gh22.DATASET),
                condition="condition",
                split=pl.format("{}@{}", "pattern", "rank"),
                metric=pl.lit("repetition_rate"),
                item=pl.col("pair").cast(pl.String),
                value=pl.col("repeated").cast(pl.Float64),
            )
        if self.kind == nli.STAGE:
            right = items.select(
                "dataset",
                "condition",
                split="split",
                metric=pl.lit("accuracy"),
                item=pl.col("item").cast(pl.String),
                value=pl.col("correct").cast(pl.Float64),
            )
            whole = right.with_columns(split=pl.lit(ALL))
            return pl.concat([whole, right.filter(pl.col("split") != ALL)])
        metrics = [name for name, kind in items.schema.items() if name not in KEYS and _is_metric(kind)]
        return (
            items.select(*KEYS, *(pl.col(name).cast(pl.Float64) for name in metrics))
            .unpivot(metrics, index=[*KEYS], variable_name="metric")
            .explode("splits")
            .rename({"splits": "split"})
            .drop_nulls("value")
            .select(*_GROUP, "item", "value")
        )


def _is_metric(kind: pl.DataType) -> bool:
    return kind in {pl.Boolean, pl.Float64}


def read_finished(folder: Path) -> Finished:
    """Find out what a run folder holds.

    Raises:
        InputError: it is no run folder, or its last stage is not finished.
    """
    stages = list(read_run(folder)["stages"])
    if stages == ["select"]:
        raise InputError(f"{folder} is selected, not scored: run `negengine score {folder}` first")
    kind = stages[-1]
    record = finished_stage(folder, kind)
    if kind == SCORING:
        summary = read_selected(folder).summary
        return Finished(folder, kind, summary["model"], summary["coreference"])
    return Finished(folder, kind, record["identity"]["model"])


def compare(runs: Sequence[Finished]) -> tuple[pl.DataFrame, Table]:
    """What can be said of these runs: the rows of `between_patterns`, `between_models` or `by_coreference`, as a table.

    Raises:
        InputError: they cannot be compared.
    """
    kinds = {run.kind for run in runs}
    if len(kinds) > 1:
        raise InputError(f"runs of different kinds: {', '.join(f'{run.folder} ({run.kind})' for run in runs)}")
    if len(runs) == 1:
        if kinds != {SCORING}:
            raise InputError(f"{runs[0].folder}: give a second run; only patterns of the main job compare in one")
        tests = between_patterns(runs[0])
        return tests, _tests_table(f"Patterns on the same triplets: {runs[0].model}", ["first", "second"], tests)
    subjects = {run.coreference for run in runs}
    if kinds == {SCORING} and len({run.model for run in runs}) == 1 and len(subjects) == len(runs):
        return by_coreference(runs), coreference_table(runs)
    if len(runs) > 2:
        raise InputError("give two runs of two models, or runs of one model that differ in --coreference")
    first, second = runs
    tests = between_models(first, second)
    return tests, _tests_table(f"{first.model} − {second.model}, on the items of both", list(_GROUP), tests)


def between_patterns(run: Finished) -> pl.DataFrame:
    """The patterns of a run in pairs, on the same triplets.

    Returns:
        One row a pair of scored patterns: first, second, n, difference (of the rates, as a fraction), p, p_holm.
    """
    outcomes = run.outcomes()
    by_pattern = {name: outcomes.filter(pl.col("split") == name) for name in run.patterns[1:]}
    sides = {names: (by_pattern[names[0]], by_pattern[names[1]]) for names in combinations(by_pattern, 2)}
    return _tests(sides, ["first", "second"])


def between_models(first: Finished, second: Finished) -> pl.DataFrame:
    """Two runs, on the items that both have.

    Returns:
        One row a dataset, condition, split and metric: these, n, difference (first - second), p, p_holm.

    Raises:
        InputError: they share no item.
    """
    one, other = (dict(run.outcomes().group_by(*_GROUP, maintain_order=True)) for run in (first, second))
    tests = _tests({key: (one[key], other[key]) for key in one if key in other}, list(_GROUP))
    if tests.is_empty():
        raise InputError(f"{first.folder} and {second.folder} have no item in common")
    return tests


def _tests(sides: Mapping[tuple[Any, ...], tuple[pl.DataFrame, pl.DataFrame]], keys: list[str]) -> pl.DataFrame:
    """Paired tests of outcomes, on the items that both sides have; none where they have none."""
    rows = []
    for key, (first, second) in sides.items():
        both = first.select("item", "value").join(second.select("item", other="value"), on="item")
        if both.is_empty():
            continue
        values = [both["value"], both["other"]]
        if all(set(value.unique()) <= {0.0, 1.0} for value in values):
            values = [value.cast(pl.Boolean) for value in values]
        difference, p = paired(values[0], values[1])
        rows.append((*key, len(both), difference, p))
    frame = pl.DataFrame(rows, schema=[*keys, "n", "difference", "p"], orient="row")
    return frame.with_columns(p_holm=pl.Series(holm(frame["p"].to_numpy().astype(np.float64)), dtype=pl.Float64))


def _tests_table(title: str, keys: list[str], tests: pl.DataFrame) -> Table:
    table = Table(title=escape(title), title_justify="left")
    for heading in keys:
        table.add_column(heading)
    for heading in ("n", "difference", "p", "p (Holm)"):
        table.add_column(heading, justify="right")
    for row in tests.iter_rows(named=True):
        figures = (f"{row['n']:,}", f"{row['difference']:+.3f}", f"{row['p']:.2g}", f"{row['p_holm']:.2g}")
        table.add_row(*(escape(str(row[key])) for key in keys), *figures)
    return table


def by_coreference(runs: Sequence[Finished]) -> pl.DataFrame:
    """The rates of runs that differ in their target, in the order of the paper's columns.

    Returns:
        The columns of rates.parquet, with coreference and selected (triplets) before them.
    """
    ordered = sorted(runs, key=lambda run: list(_COLUMNS).index(Coreference(run.coreference or "pronoun")))
    return pl.concat(
        pl.read_parquet(run.folder / RATES_FILE).select(
            pl.lit(run.coreference).alias("coreference"),
            pl.lit(read_selected(run.folder).summary["selected"]).alias("selected"),
            pl.all(),
        )
        for run in ordered
    )


def coreference_table(runs: Sequence[Finished]) -> Table:
    """Drops in the layout of Tables 8 and 9: a column for each target, with the paper's in brackets."""
    paper = published(runs[0].model)
    title = f"Drop of ACT repetition by what the target is about: {runs[0].model}"
    table = Table(title=escape(title), title_justify="left", caption_justify="left")
    table.add_column("pattern")
    columns: list[list[str]] = []
    for (subject,), rates in by_coreference(runs).group_by("coreference", maintain_order=True):
        table.add_column(_COLUMNS[Coreference(str(subject))], justify="right")
        theirs = paper.coreference.get(str(subject)) if paper else None
        drops = dict(rates.select("pattern", "drop").iter_rows())
        printed = theirs.drops if theirs else {}
        columns.append(
            [
                _beside(rates["selected"][0], theirs.triplets if theirs else None, ",d"),
                *(_beside(drops.get(pattern), printed.get(pattern), ".1f") for pattern in runs[0].patterns[1:]),
            ]
        )
    for label, *cells in zip(["selected triplets", *runs[0].patterns[1:]], *columns, strict=True):
        table.add_row(escape(label), *cells, end_section=label == "selected triplets")
    if paper:
        table.caption = "in brackets: the paper; " + "; ".join(paper.doubts)
    return table


def _beside(ours: float | None, theirs: float | None, form: str) -> str:
    text = "" if ours is None else format(ours, form)
    return text if theirs is None else f"{text} ({format(theirs, form)})"
