"""What the drops mean, in one line: section 3.5 of the paper, with the uncertainty of our figures.

A model passes the test if its drops in the forbidden patterns are above its drops in the controls. A drop is above
another here if their 95 % intervals do not overlap: those with pairs and verbs as clusters, which are the wider ones.
That is a stricter rule than a test of the difference, as `compare` has it: the intervals of two patterns come from the
same triplets.

The paper claims this for its own patterns, and for targets about the same person. Elsewhere it claims nothing: if the
target is about another person, a repetition stays natural, and a drop is not a sign of understanding.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl

from ...choices import Coreference
from ...text.pattern import PatternSet, Role
from ...text.pattern_files import load_patterns

Row = Mapping[str, Any]
SAME_PERSON = {Coreference.PRONOUN, Coreference.SAME_NAME}
_TWO_WAY = ("drop_low_two_way", "drop_high_two_way")
_ONE_WAY = ("drop_low", "drop_high")  # of runs from before, which do not have the others


def reading(rates: pl.DataFrame, patterns: PatternSet, coreference: str) -> str:
    """What the drops of a run mean: the test's verdict where the paper has one.

    Args:
        rates: the content of rates.parquet.
        patterns: the set of the run.
        coreference: whom the target sentence is about, a value of `grid.Coreference`.
    """
    known = {row["pattern"]: row for row in rates.iter_rows(named=True) if row["drop"] is not None}
    forbidden, controls = (
        [known[pattern.name] for pattern in patterns.scored if pattern.role is role and pattern.name in known]
        for role in (Role.FORBIDDEN, Role.CONTROL)
    )
    if coreference not in SAME_PERSON:
        return _other_person(forbidden, coreference)
    if not forbidden or not controls:
        return "No verdict: the test (§3.5) compares forbidden patterns with controls, and this run does not have both."
    if patterns.sha256 != load_patterns().sha256:
        said = _below(forbidden, controls, _clearly_below) or _overlapping(forbidden, controls)
        said = said or _all_above(forbidden, controls)
        return f"No verdict: the test (§3.5) is defined for the paper's patterns. {said[0].upper()}{said[1:]}"
    if said := _below(forbidden, controls, _clearly_below):
        return f"Does not pass the test (§3.5): {said}"
    if said := _overlapping(forbidden, controls):
        passes = "does not pass" if _below(forbidden, controls, _not_above) else "passes"
        return f"Not decided (§3.5): {said} By the drops alone the model {passes}."
    return f"Passes the test (§3.5): {_all_above(forbidden, controls)}"


def told(rates: pl.DataFrame, patterns: PatternSet) -> str:
    """The drops in words, without a verdict: for verbs that the paper's test does not have.

    Args:
        rates: in the columns of rates.parquet.
        patterns: the set of the run.
    """
    known = {row["pattern"]: row for row in rates.iter_rows(named=True) if row["drop"] is not None}
    drops = [_with_interval(known[pattern.name]) for pattern in patterns.scored if pattern.name in known]
    if not drops:
        return "none was selected."
    n = max(int(row["n"]) for row in known.values())
    return f"the drops of {n:,} triplets are {', '.join(drops)}."


def _other_person(forbidden: Sequence[Row], coreference: str) -> str:
    said = (
        f"No verdict: the target sentence is about another person ({coreference}), so that a repetition stays natural "
        "and a drop is not a sign of understanding."
    )
    if not forbidden:
        return said
    largest = max(forbidden, key=lambda row: row["drop"])
    return (
        f"{said} The forbidden pattern with the largest drop is {_with_interval(largest)}; `negengine compare` "
        "shows it next to a run about the same person."
    )


def _all_above(forbidden: Sequence[Row], controls: Sequence[Row]) -> str:
    which = {1: "the control", 2: "both controls,"}.get(len(controls), "all controls,")
    drops = "drop of {} is" if len(forbidden) == 1 else "drops of {} are"
    return f"the {drops.format(_and(forbidden))} above {which} {_and(controls)}; {_apart(controls[0])}"


def _below(forbidden: Sequence[Row], controls: Sequence[Row], test: Callable[[Row, Row], bool]) -> str:
    """The forbidden patterns that fall short of controls by a test; empty if none does."""
    short = [(row, [control for control in controls if test(row, control)]) for row in forbidden]
    parts = [f"{_drop(row)} is below {_and(over)}" for row, over in short if over]
    return f"the drop of {'; the drop of '.join(parts)}; {_apart(controls[0])}" if parts else ""


def _overlapping(forbidden: Sequence[Row], controls: Sequence[Row]) -> str:
    """The pairs of a forbidden pattern and a control that the intervals do not separate; empty if there are none."""
    overlapping = [(f, [c for c in controls if _overlap(f, c)]) for f in forbidden]
    parts = [
        f"{_drop(f)} overlaps with the interval{'s' if len(with_) > 1 else ''} of {_and(with_)}"
        for f, with_ in overlapping
        if with_
    ]
    which = f"the 95 % interval{_clusters(controls[0])}"
    return f"{which} of {'; the interval of '.join(parts)}." if parts else ""


def _clearly_below(one: Row, other: Row) -> bool:
    return not _overlap(one, other) and bool(one["drop"] < other["drop"])


def _not_above(one: Row, other: Row) -> bool:
    return bool(one["drop"] <= other["drop"])


def _overlap(one: Row, other: Row) -> bool:
    """Whether two intervals have a point in common. A missing interval counts as the whole range."""
    (low, high), (other_low, other_high) = _ends(one), _ends(other)
    if low is None or high is None or other_low is None or other_high is None:
        return True
    return low <= other_high and other_low <= high


def _ends(row: Row) -> tuple[float | None, float | None]:
    """The interval that decides: with pairs and verbs as clusters, where the run has it."""
    low, high = _TWO_WAY if _TWO_WAY[0] in row else _ONE_WAY
    return row[low], row[high]


def _clusters(row: Row) -> str:
    return " with pairs and verbs as clusters" if _TWO_WAY[0] in row else ""


def _apart(row: Row) -> str:
    return f"the 95 % intervals{_clusters(row)} do not overlap."


def _drop(row: Row) -> str:
    return f"{row['pattern']} ({row['drop']:.1f})"


def _with_interval(row: Row) -> str:
    low, high = _ends(row)
    if low is None or high is None:
        return _drop(row)
    return f"{row['pattern']} ({row['drop']:.1f}, from {low:.1f} to {high:.1f})"


def _and(rows: Sequence[Row]) -> str:
    words = [_drop(row) for row in rows]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
