"""What a run means, in sentences: the verdict of section 3.5 of the paper, and the paragraph of methods.

"Passing our test implies having strong drops for the CpTn and CnTp patterns", which are the forbidden ones, "and that
these drops be greater than in the control pattern CpTv, and to a lesser extent in the CnTn pattern." The paper names no
limit for a strong drop; it praises "a drop of over 50%", so that is the limit here. A model that meets this in some of
the forbidden patterns passes in part, as roberta-base does in the paper. A drop is above 50, or above another one, if
its 95 % interval is: the wider one, with pairs and verbs as clusters. That is stricter than the test in `compare`.

The paper claims this for its own patterns, and for targets about the same person. If the target is about another
person, a repetition stays natural, and a drop is not a sign of understanding.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import polars as pl

from ...basics.choices import Coreference
from ...basics.numerals import fixed, interval, percent
from ...text.pattern import PatternSet, Role
from ...text.pattern_files import load_patterns
from .grid import SEVERAL

PAPERS_PRONOUNS = ("she", "he")
SAME_PERSON = {Coreference.PRONOUN, Coreference.SAME_NAME}
STRONG = 50.0
"""Percentage points; a strong drop is above this."""
_WHERE = "Kletz et al. 2023, section 3.5"
_DECIDE = "The 95 % intervals with pairs and verbs as clusters decide."
_TARGET = {
    Coreference.PRONOUN: "refers to the person of the context sentence with a pronoun",
    Coreference.SAME_NAME: "repeats the name of the context sentence",
    Coreference.SAME_GENDER: "has another name of the same gender",
    Coreference.OTHER_GENDER: "has a name of the other gender",
}


@dataclass(frozen=True)
class Drop:
    """The drop of a pattern in percentage points, and the interval that decides; None where it has none."""

    pattern: str
    value: float
    low: float | None
    high: float | None

    @property
    def interval(self) -> tuple[float, float]:  # a missing one counts as the whole range
        if self.low is None or self.high is None:
            return -inf, inf
        return self.low, self.high

    def overlaps(self, other: "Drop") -> bool:
        """Whether the two intervals have a point in common."""
        (low, high), (other_low, other_high) = self.interval, other.interval
        return low <= other_high and other_low <= high

    def __str__(self) -> str:
        return f"{self.pattern} ({_points(self.value)})"


def reading(
    rates: pl.DataFrame,
    patterns: PatternSet,
    coreference: str,
    pronouns: Collection[str] = PAPERS_PRONOUNS,
    *,
    has_several: bool = False,
) -> str:
    """What the drops of a run, the content of rates.parquet, mean: the test's verdict where the paper has one."""
    drops = _drops(rates)
    forbidden, controls = (
        [drops[own.name] for own in patterns.scored if own.role is role and own.name in drops]
        for role in (Role.FORBIDDEN, Role.CONTROL)
    )
    if coreference not in SAME_PERSON:
        said = (
            f"No verdict: the target sentence is about another person ({coreference}), so that a repetition stays "
            "natural and a drop is not a sign of understanding."
        )
        if forbidden:
            one = max(forbidden, key=lambda own: own.value)
            ends = "" if one.low is None or one.high is None else f", from {_points(one.low)} to {_points(one.high)}"
            said += (
                f" The forbidden pattern with the largest drop is {one.pattern} ({_points(one.value)}{ends}); "
                "`negengine compare` shows it next to a run about the same person."
            )
        return said
    if not forbidden or not controls:
        return (
            f"No verdict: the test ({_WHERE}) compares forbidden patterns with controls; this run does not have both."
        )
    others = sorted({*pronouns} - {*PAPERS_PRONOUNS}) if coreference == Coreference.PRONOUN else []
    papers = patterns.sha256 == load_patterns().sha256 and not others and not has_several
    judged = {own: _judge(own, controls, strong=papers) for own in forbidden}
    met = [own for own, (meets, _) in judged.items() if meets]
    failed, undecided = ([why for meets, why in judged.values() if meets is state] for state in (False, None))
    found = [*failed, *undecided]
    if met:
        which = {1: "the control", 2: "both controls,"}.get(len(controls), "all controls,")
        above = f"drop{'s' * (len(met) > 1)} of {_and(met)} {'is' if len(met) == 1 else 'are'}"
        found.insert(0, f"the {above} above {f'{STRONG:g} and above ' * papers}{which} {_and(controls)}")
    said = f"{'; '.join(found)}. {_DECIDE}"
    if not papers:
        own = f"pronouns, not for {', '.join(others)}" if others else "patterns"
        own = "verbs, which are of one token" if has_several else own
        return f"No verdict: the test ({_WHERE}) is defined for the paper's {own}. {said[0].upper()}{said[1:]}"
    if failed:
        return f"{'Passes the test in part' if met else 'Does not pass the test'} ({_WHERE}): {said}"
    if undecided:
        limit = max(STRONG, *(own.value for own in controls))
        passes = "passes" if all(own.value > limit for own in forbidden) else "does not pass"
        return f"Not decided ({_WHERE}): {said} By the drops alone the model {passes}."
    return f"Passes the test ({_WHERE}): {said}"


def _drops(rates: pl.DataFrame) -> dict[str, Drop]:
    """Of each pattern that has one."""
    columns = ("pattern", "drop", "drop_low_two_way", "drop_high_two_way")
    return {row[0]: Drop(*row) for row in rates.drop_nulls("drop").select(columns).iter_rows()}


def _judge(own: Drop, controls: Sequence[Drop], *, strong: bool) -> tuple[bool | None, str]:
    """Whether the drop is above the controls, and strong if that is asked; and what is missing. None: not decided."""
    if own.low is None or own.high is None:
        return None, f"{own} has no interval"
    below = [control for control in controls if own.value < control.value and not own.overlaps(control)]
    weak = [f"not above {STRONG:g}"] if strong and own.high <= STRONG else []
    if missing := [*weak, *([f"below {_and(below)}"] if below else [])]:
        return False, f"the drop of {own} is {' and '.join(missing)}"
    near = [control for control in controls if own.overlaps(control)]
    uncertain = [f"reaches below {STRONG:g}"] if strong and own.low <= STRONG else []
    uncertain += [f"overlaps with the interval{'s' if len(near) > 1 else ''} of {_and(near)}"] if near else []
    return (None, f"the interval of {own} {' and '.join(uncertain)}") if uncertain else (True, "")


def _points(drop: float) -> str:
    return fixed(drop, 1, (-100, 0, STRONG, 100))


def _and(drops: Sequence[Drop]) -> str:
    *first, last = map(str, drops)
    return f"{', '.join(first)} and {last}" if first else last


def selection_methods(summary: Mapping[str, Any], identity: Mapping[str, Any], test: str) -> str:
    """What was selected; `test` is the paper of the test as a text cites it."""
    candidates = summary["pairs"] * summary["verbs"]
    ratio = f"{percent(summary['ratio'] / 100)} %"
    if lazy := summary.get("lazy"):
        tested = (
            f"Each pair was tested until {identity['max verbs']} verbs were repeated, which took {summary['tested']:,} "
            f"of {candidates:,} candidates; by an estimate the model repeats the verb in {ratio} of all candidates "
            f"(95 % interval {percent(lazy['ratio_low'] / 100)} to {percent(lazy['ratio_high'] / 100)} %)."
        )
    else:
        tested = f"Of {candidates:,} candidates, the model repeated the verb in {summary['repeating']:,} ({ratio})."
    verbs, several = "verbs that are one token of the model", ""
    if identity["verbs"] == SEVERAL:
        verbs = "verbs that are several tokens of the model"
        several = (
            " Such a verb counts as repeated if each of its tokens is the model's first choice at its mask, where the "
            "masks are filled from left to right with the verb's tokens (Kauf and Ivanova, 2023)."
        )
    return (
        f"We selected the triplets of the Self-Contained Negation Test ({test}) from {summary['pairs']:,} pairs of a "
        f"name and a profession and {summary['verbs']:,} {verbs}.{several} The target sentence "
        f"{_TARGET[Coreference(summary['coreference'])]}. {tested} At most {identity['max verbs']} verbs were kept for "
        f"each pair, chosen by a keyed hash (seed {identity['seed']}), which gave {summary['selected']:,} triplets."
    )


def scores_methods(rates: pl.DataFrame, patterns: PatternSet) -> str:
    """What was scored, and the drops."""
    sizes, drops = dict(rates.select("pattern", "n").iter_rows()), list[str]()
    for name, own in _drops(rates).items():
        if name != patterns.selecting.name:
            ends = (None if end is None else _points(end) for end in (own.low, own.high))
            drops.append(f"{name} {_points(own.value)}{interval(*ends)} (n = {sizes[name]:,})")
    return (
        f"Each triplet was scored in the patterns {', '.join(pattern.name for pattern in patterns.scored)}. The drops "
        "(100 minus the repetition rate, in percentage points; pairs and verbs are "
        f"clusters) are: {', '.join(drops)}."
    )
