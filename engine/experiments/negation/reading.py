"""What a run means, in sentences: the verdict of section 3.5 of the paper, and the paragraph of methods.

A model passes the test if its drops in the forbidden patterns are above its drops in the controls. A drop is above
another here if their 95 % intervals do not overlap: those with pairs and verbs as clusters, which are the wider ones.
That is stricter than the test of the difference in `compare`: the intervals of two patterns come from the same
triplets.

The paper claims this for its own patterns, and for targets about the same person. Elsewhere it claims nothing: if the
target is about another person, a repetition stays natural, and a drop is not a sign of understanding.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from ...basics.choices import Coreference
from ...text.pattern import PatternSet, Role
from ...text.pattern_files import load_patterns
from .select import SEVERAL_TOKENS

Row = Mapping[str, Any]
SAME_PERSON = {Coreference.PRONOUN, Coreference.SAME_NAME}
_INTERVALS = "the 95 % intervals with pairs and verbs as clusters do not overlap."
_TARGET = {
    Coreference.PRONOUN: "refers to the person of the context sentence with a pronoun",
    Coreference.SAME_NAME: "repeats the name of the context sentence",
    Coreference.SAME_GENDER: "has another name of the same gender",
    Coreference.OTHER_GENDER: "has a name of the other gender",
}


def reading(rates: pl.DataFrame, patterns: PatternSet, coreference: str) -> str:
    """What the drops of a run, the content of rates.parquet, mean: the test's verdict where the paper has one."""
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
    """The drops in words, without a verdict: for verbs that the paper's test does not have."""
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
    return f"the {drops.format(_and(forbidden))} above {which} {_and(controls)}; {_INTERVALS}"


def _below(forbidden: Sequence[Row], controls: Sequence[Row], test: Callable[[Row, Row], bool]) -> str:
    """The forbidden patterns that fall short of controls by a test; empty if none does."""
    parts = [f"{_drop(row)} is below {_and(own)}" for row, own in _which(forbidden, controls, test)]
    return f"the drop of {'; the drop of '.join(parts)}; {_INTERVALS}" if parts else ""


def _overlapping(forbidden: Sequence[Row], controls: Sequence[Row]) -> str:
    """The pairs of a forbidden pattern and a control that the intervals do not separate; empty if there are none."""
    parts = [
        f"{_drop(row)} overlaps with the interval{'s' if len(own) > 1 else ''} of {_and(own)}"
        for row, own in _which(forbidden, controls, _overlap)
    ]
    which = "the 95 % interval with pairs and verbs as clusters"
    return f"{which} of {'; the interval of '.join(parts)}." if parts else ""


def _which(
    forbidden: Sequence[Row], controls: Sequence[Row], test: Callable[[Row, Row], bool]
) -> Iterator[tuple[Row, list[Row]]]:
    """Each forbidden pattern for which a test holds, with the controls for which it does."""
    for row in forbidden:
        if own := [control for control in controls if test(row, control)]:
            yield row, own


def _clearly_below(one: Row, other: Row) -> bool:
    return not _overlap(one, other) and bool(one["drop"] < other["drop"])


def _not_above(one: Row, other: Row) -> bool:
    return bool(one["drop"] <= other["drop"])


def _overlap(one: Row, other: Row) -> bool:
    """Whether two intervals have a point in common. A missing interval counts as the whole range."""
    (low, high), (other_low, other_high) = _ends(one), _ends(other)
    return None in (low, high, other_low, other_high) or bool(low <= other_high and other_low <= high)


def _ends(row: Row) -> tuple[Any, Any]:
    """The interval that decides: with pairs and verbs as clusters."""
    return row["drop_low_two_way"], row["drop_high_two_way"]


def _drop(row: Row) -> str:
    return f"{row['pattern']} ({row['drop']:.1f})"


def _with_interval(row: Row) -> str:
    low, high = _ends(row)
    return _drop(row) if low is None else f"{row['pattern']} ({row['drop']:.1f}, from {low:.1f} to {high:.1f})"


def _and(rows: Sequence[Row]) -> str:
    words = [_drop(row) for row in rows]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def selection_methods(summary: Mapping[str, Any], identity: Mapping[str, Any], test: str) -> str:
    """What was selected; `test` is the paper of the test as a text cites it."""
    candidates = summary["pairs"] * summary["verbs"]
    ratio = f"{summary['ratio']:.1f} %"
    if lazy := summary.get("lazy"):
        tested = (
            f"Each pair was tested until {identity['max verbs']} verbs were repeated, which took {summary['tested']:,} "
            f"of {candidates:,} candidates; by an estimate the model repeats the verb in {ratio} of all candidates "
            f"(95 % interval {lazy['ratio_low']:.1f} to {lazy['ratio_high']:.1f} %)."
        )
    else:
        tested = f"Of {candidates:,} candidates, the model repeated the verb in {summary['repeating']:,} ({ratio})."
    return (
        f"We selected the triplets of the Self-Contained Negation Test ({test}) from {summary['pairs']:,} pairs of a "
        f"name and a profession and {summary['verbs']:,} verbs that are one token of the model. The target sentence "
        f"{_TARGET[Coreference(summary['coreference'])]}. {tested} At most {identity['max verbs']} verbs were kept for "
        f"each pair, chosen by a keyed hash (seed {identity['seed']}), which gave {summary['selected']:,} triplets."
        + _several(summary)
    )


def _several(summary: Mapping[str, Any]) -> str:
    if (apart := summary.get(SEVERAL_TOKENS)) is None:
        return ""
    share = "by an estimate " if "lazy" in apart else ""
    return (
        f" Apart from these, we tested {apart['verbs']:,} verbs of several tokens in the same way. Such a verb counts "
        "as repeated if each of its tokens is the model's first choice at its mask, where the masks are filled from "
        "left to right with the verb's tokens (Kauf and Ivanova, 2023). The model "
        f"{share}repeated {apart['ratio']:.1f} % of these candidates, and {apart['selected']:,} triplets were kept."
    )


def scores_methods(rates: pl.DataFrame, patterns: PatternSet) -> str:
    """What was scored, and the drops."""
    rows, names = {row["pattern"]: row for row in rates.to_dicts()}, [pattern.name for pattern in patterns.scored]
    drops = []
    for row in (rows[name] for name in names if name in rows and rows[name]["drop"] is not None):
        low, high = _ends(row)
        drops.append(f"{row['pattern']} {row['drop']:.1f}{'' if low is None else f' [{low:.1f}, {high:.1f}]'}")
    return (
        f"Each triplet was scored in the patterns {', '.join(names)}. The drops (100 minus the repetition rate, in "
        "percentage points, with 95 % intervals for which pairs and verbs are clusters) are: "
        f"{', '.join(drops)}."
    )
