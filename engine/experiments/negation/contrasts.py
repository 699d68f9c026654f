"""What `compare` sets side by side of this test: the patterns of one run, or runs that differ in their targets.

Runs of one model that differ in whom the target sentence is about are Tables 8 and 9 of the paper.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import polars as pl

from ...basics.choices import Coreference
from ...basics.errors import InputError
from ...library.run import Contrast
from ...runs.record import differences, read_run
from ...views import Column, Table
from .select import Selection
from .tables import published

if TYPE_CHECKING:
    from .runs import ScoresRun

SUBJECTS = {
    Coreference.SAME_NAME: "same name",
    Coreference.SAME_GENDER: "other name, same gender",
    Coreference.OTHER_GENDER: "other name, other gender",
    Coreference.PRONOUN: "pronoun",
}


def contrast(runs: "Sequence[ScoresRun]") -> Contrast | None:
    """The comparison of one run, or of runs of one model that differ in the target; None of any others.

    Raises:
        InputError: The words, patterns or conventions of the runs differ.
    """
    if len(runs) == 1:
        return _patterns(runs[0])
    return _targets(_in_order(runs)) if _differ_in_target(runs) else None


def _patterns(run: "ScoresRun") -> Contrast:
    return Contrast(
        "Do the patterns differ?",
        f"Patterns on the same triplets: {run.model_name}. Difference of the repetition rates: first − second",
        ("first", "second"),
        {pair: ((run, pair[0]), (run, pair[1])) for pair in combinations(_scored(run), 2)},
    )


def _targets(runs: "Sequence[ScoresRun]") -> Contrast:
    """The drops of runs that differ in the target, and each pattern on the triplets that two of them share."""
    sides = {
        (name, first.coreference, second.coreference): ((first, name), (second, name))
        for name in _scored(runs[0])
        for first, second in combinations(runs, 2)
    }
    return Contrast(
        "What is the target sentence about?",
        "Targets on the triplets of both runs. Difference of the repetition rates: first − second",
        ("pattern", "first", "second"),
        sides,
        _rates(runs),
        [_table(runs)],
    )


def _scored(run: "ScoresRun") -> list[str]:
    return [pattern.name for pattern in run.selection.patterns.scored]


def _differ_in_target(runs: "Sequence[ScoresRun]") -> bool:
    return len({run.model_name for run in runs}) == 1 and len({run.coreference for run in runs}) == len(runs)


def _in_order(runs: "Sequence[ScoresRun]") -> "list[ScoresRun]":
    """The runs in the order of the paper's columns; an error where their words, patterns or conventions differ."""
    ordered = sorted(runs, key=lambda run: list(SUBJECTS).index(Coreference(run.coreference)))
    for run in ordered[1:]:
        if unlike := differences(_words(ordered[0]), _words(run), "there"):
            raise InputError(f"{ordered[0].folder} and {run.folder} cannot be compared: {unlike}")
    return ordered


def _rates(runs: "Sequence[ScoresRun]") -> pl.DataFrame:
    """The columns of rates.parquet with coreference and selected before them."""
    return pl.concat(
        (
            run.rates.select(
                pl.lit(run.coreference).alias("coreference"),
                pl.lit(run.selection.summary["selected"]).alias("selected"),
                pl.all(),
            )
            for run in runs
        ),
        how="diagonal",
    )


def _table(runs: "Sequence[ScoresRun]") -> Table:
    """Drops in the layout of Tables 8 and 9: a column for each target, with the published drops in brackets."""
    model = runs[0].model_name
    paper = published(model, runs[0].selection.patterns)
    names = [pattern.name for pattern in runs[0].selection.patterns.scored]
    frame: dict[str, Any] = {"pattern": ["selected triplets", *names], "decimals": [0, *(1 for _ in names)]}
    columns = [Column("pattern", "pattern")]
    for run in runs:
        drops = dict(run.rates.select("pattern", "drop").iter_rows())
        theirs = paper.coreference.get(run.coreference) if paper else None
        printed = theirs.drops if theirs else {}
        frame[run.coreference] = [float(run.selection.summary["selected"]), *(drops.get(name) for name in names)]
        frame[f"{run.coreference}_published"] = [
            theirs.triplets if theirs else None,
            *(printed.get(name) for name in names),
        ]
        columns.append(
            Column(
                SUBJECTS[Coreference(run.coreference)],
                run.coreference,
                beside=f"{run.coreference}_published",
                decimals="decimals",
            )
        )
    published_types = {name: pl.Float64 for name in frame if name.endswith("_published")}
    return Table(
        title=f"Drop of ACT repetition by what the target is about: {model}",
        frame=pl.DataFrame(frame, schema_overrides=published_types).with_columns(
            section=pl.col("pattern") == "selected triplets"
        ),
        columns=columns,
        section="section",
        notes=[f"in brackets: the paper; {'; '.join(paper.doubts)}"] if paper else [],
    )


def _words(run: "ScoresRun") -> dict[str, Any]:
    """What runs that differ in the target must have in common: lexicon, patterns, which verbs are tried."""
    identity = read_run(run.folder).stages[Selection.name].identity
    return {key: identity[key] for key in ("lexicon sha256", "patterns sha256", "verbs")}
