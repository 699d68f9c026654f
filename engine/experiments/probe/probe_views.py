"""Tables and sections of `probe`: targets by group, and differences."""

from typing import TYPE_CHECKING

import polars as pl

from ...basics.printable import counted
from ...library.sentences import CORRECT
from ...requests.summary import COMPARES
from ...statistics.intervals import CONFIDENCE
from ...views import Column, Section, Table
from ...views.labels import minus
from ..finished_run import GROUP, OTHER
from ..own_table import MOST_GROUPS, ROW
from ..view import PERCENT, POINTS, Chart, Values, View
from .probe_columns import IS_TOP1, LOGPROB, PREFERRED

if TYPE_CHECKING:
    from .probe import ProbeRun

_KEYS = ("condition", "split")
_GROUPS, _TARGETS = "Groups compared", "Targets compared"
_QUESTIONS = {_GROUPS: "Do the groups differ?", _TARGETS: "Which target does the model prefer?"}
_LOGARITHM = {"decimals": 2, "unit": "natural logarithm", "wrap": False}
_N = Column("n", "n", wrap=False)
# With the corrected p, where groups have a test.
_OF_LOGPROB = Values("log-probability", LOGPROB, interval=True, tested=True, style={**_LOGARITHM, "signed": True})
_OF_TOP1 = Values("first choice", IS_TOP1, interval=True, tested=True, style=POINTS)
_TEST = "sign flips of clusters, or of rows without a cluster"
_OF_TARGETS = pl.col("condition") != pl.col("other_condition")  # of differences; the others are of groups


def tables(run: "ProbeRun") -> list[Table]:
    """The targets by group; then, where there are any, differences of groups and of targets."""
    compared = [_groups(run), _target_pairs(run)]
    return [_targets(run), *(table for table in compared if not table.frame.is_empty())]


def sections(run: "ProbeRun") -> list[Section]:
    """The verdict and targets by group, then what differs."""
    table, *others = run.tables()
    figures = [
        Chart(
            name,
            metric,
            title,
            f"{what.capitalize()} in each group.",
            label=pl.col(GROUP),
            panel="condition" if len(run.columns.targets) > 1 else None,
            zero=metric != LOGPROB,
            scale=scale,
            unit="%" if scale == 100 else str(_LOGARITHM["unit"]),
        ).figure(run, table)
        for name, metric, title, scale, what in (
            ("correct", CORRECT, "correct", 100, "the share of right answers"),
            ("first-choice", IS_TOP1, "first choice", 100, "the share of rows whose target is the first choice"),
            ("log-probability", LOGPROB, "log-probability", 1, "the mean log-probability"),
        )
        if metric in run.metrics
    ]
    return [
        Section("How probable are the targets?", _verdict(run), figures=figures, notes=run.remarks()),
        *(Section(_QUESTIONS[own.title], tables=[own]) for own in others),
    ]


def _verdict(run: "ProbeRun") -> list[str]:
    """How often the model is right, or else how often the target is its first choice; and whether groups differ."""
    asked = f"{counted(len(run.asked), 'target')} in {counted(run.asked[ROW].n_unique(), 'sentence')}"
    metric, what = (CORRECT, "is right") if CORRECT in run.metrics else (IS_TOP1, "has the target as its first choice")
    shares = [
        run.estimate(target, metric, 100, " %", 1) + (f" ({target})" if len(run.columns.targets) > 1 else "")
        for target in run.columns.targets
    ]
    said = [f"{run.model_name} was asked about {asked}. It {what} in {', '.join(shares)}."]
    tests = run.labelled.filter(COMPARES & ~_OF_TARGETS).drop_nulls("p")
    if tests.is_empty():
        return said
    found, n = tests.filter(pl.col("p_holm") < 1 - CONFIDENCE), counted(len(tests), "test")
    if found.is_empty():
        return [*said, f"No difference between groups is shown: p (Holm) is 0.05 or more ({n})."]
    named = ", ".join(dict.fromkeys(" and ".join(sides) for sides in found.select(GROUP, OTHER).iter_rows()))
    return [*said, f"Groups differ: p (Holm) is below 0.05 in {len(found):,} of {n} ({named})."]


def _targets(run: "ProbeRun") -> Table:
    notes = ["first choice: rows in which the target is the model's first choice"]
    judged = CORRECT in run.metrics
    if judged:
        notes.append("correct: a wanted target is the first choice, or an unwanted one is not")
    for column in run.columns.groups:
        n = run.asked[run.grouped[column]].drop_nulls().n_unique()
        if n > MOST_GROUPS:
            notes.append(f"{column} has {n:,} values; more than {MOST_GROUPS} are not compared with each other")
    return View(
        "Targets by group: {model}",
        _KEYS,
        [
            *_target(run),
            Column("group", "split"),
            _N,
            Values("first choice", IS_TOP1, interval=True, style=PERCENT),
            *([Values("correct", CORRECT, interval=True, style=PERCENT)] if judged else []),
            Values("log-probability", LOGPROB, interval=True, style=_LOGARITHM),
        ],
        section="condition",
        notes=notes,
    ).table(run)


def _groups(run: "ProbeRun") -> Table:
    notes = ["first group minus second"]
    if run.columns.groups and run.columns.item is None:
        notes.append("groups have no test: name the column that the rows of a minimal pair share with --item")
    keys = [["condition", "pair", run.grouped[column]] for column in run.columns.groups]
    if run.columns.item and any(run.asked.select(own).drop_nulls().is_duplicated().any() for own in keys):
        notes.append("several rows of an item in a group count by their mean here, and one by one in the rates above")
    # What both groups have in common stands there once.
    second = pl.when(pl.col("column").n_unique().over("condition") > 1).then("other_split").otherwise(OTHER)
    return View(
        _GROUPS,
        _KEYS,
        [*_target(run), Column("groups", "split"), _N, _OF_LOGPROB, _OF_TOP1],
        where=~_OF_TARGETS,
        texts={"split": minus(GROUP, second)},
        section="condition",
        notes=notes,
        compares=True,
        test=_TEST,
    ).table(run)


def _target_pairs(run: "ProbeRun") -> Table:
    return View(
        _TARGETS,
        _KEYS,
        [
            Column("targets", "condition"),
            Column("group", "split"),
            _N,
            Values("preferred", PREFERRED, interval=True, style=PERCENT),
            _OF_LOGPROB,
        ],
        where=_OF_TARGETS,
        texts={"condition": minus("condition", "other_condition")},
        section="condition",
        notes=[
            "preferred: rows in which the first target is more probable than the second",
            "log-probability: first target minus second",
        ],
        compares=True,
        test=_TEST,
    ).table(run)


def _target(run: "ProbeRun") -> list[Column]:
    return [Column("target", "condition")] if len(run.columns.targets) > 1 else []
