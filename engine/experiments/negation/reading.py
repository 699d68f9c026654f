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
from typing import Any

import polars as pl

from ...basics.choices import Coreference
from ...basics.numerals import fixed, interval, percent
from ...text.pattern import Pattern, PatternSet, Role
from ...text.pattern_files import load_patterns
from .grid import SEVERAL

Row = Mapping[str, Any]
PAPERS_PRONOUNS = ("she", "he")
SAME_PERSON = {Coreference.PRONOUN, Coreference.SAME_NAME}
STRONG = 50.0
"""Percentage points; a strong drop is above this."""
_WHERE = "Kletz et al. 2023, section 3.5"
_DECIDE = "The 95 % intervals with pairs and verbs as clusters decide."
_ENDS = ("drop_low_two_way", "drop_high_two_way")  # the interval that decides
_TARGET = {
    Coreference.PRONOUN: "refers to the person of the context sentence with a pronoun",
    Coreference.SAME_NAME: "repeats the name of the context sentence",
    Coreference.SAME_GENDER: "has another name of the same gender",
    Coreference.OTHER_GENDER: "has a name of the other gender",
}


def reading(
    rates: pl.DataFrame,
    patterns: PatternSet,
    coreference: str,
    pronouns: Collection[str] = PAPERS_PRONOUNS,
    *,
    has_several: bool = False,
) -> str:
    """What the drops of a run, the content of rates.parquet, mean: the test's verdict where the paper has one."""
    forbidden, controls = (
        _known(rates, [pattern for pattern in patterns.scored if pattern.role is role])
        for role in (Role.FORBIDDEN, Role.CONTROL)
    )
    if coreference not in SAME_PERSON:
        said = (
            f"No verdict: the target sentence is about another person ({coreference}), so that a repetition stays "
            "natural and a drop is not a sign of understanding."
        )
        if forbidden:
            largest = _with_interval(max(forbidden, key=lambda row: row["drop"]))
            said += f" The forbidden pattern with the largest drop is {largest}; `negengine compare` "
            said += "shows it next to a run about the same person."
        return said
    if not forbidden or not controls:
        return (
            f"No verdict: the test ({_WHERE}) compares forbidden patterns with controls; this run does not have both."
        )
    others = sorted({*pronouns} - {*PAPERS_PRONOUNS}) if coreference == Coreference.PRONOUN else []
    papers = patterns.sha256 == load_patterns().sha256 and not others and not has_several
    judged = [(row, *_judge(row, controls, strong=papers)) for row in forbidden]
    met = [row for row, meets, _ in judged if meets]
    failed, undecided = ([said for _, meets, said in judged if meets is state] for state in (False, None))
    found = [*failed, *undecided]
    if met:
        which = {1: "the control", 2: "both controls,"}.get(len(controls), "all controls,")
        drops = f"drop{'s' * (len(met) > 1)} of {_and(met)} {'is' if len(met) == 1 else 'are'}"
        found.insert(0, f"the {drops} above {f'{STRONG:g} and above ' * papers}{which} {_and(controls)}")
    said = f"{'; '.join(found)}. {_DECIDE}"
    if not papers:
        own = f"pronouns, not for {', '.join(others)}" if others else "patterns"
        own = "verbs, which are of one token" if has_several else own
        return f"No verdict: the test ({_WHERE}) is defined for the paper's {own}. {said[0].upper()}{said[1:]}"
    if failed:
        return f"{'Passes the test in part' if met else 'Does not pass the test'} ({_WHERE}): {said}"
    if undecided:
        alone = [_at_its_drop(row) for row in controls]
        passes = all(_judge(_at_its_drop(row), alone, strong=True)[0] for row in forbidden)
        return f"Not decided ({_WHERE}): {said} By the drops alone the model {'passes' if passes else 'does not pass'}."
    return f"Passes the test ({_WHERE}): {said}"


def _known(rates: pl.DataFrame, patterns: Sequence[Pattern]) -> list[Row]:
    """The rows of the patterns that have a drop."""
    rows = {row["pattern"]: row for row in rates.iter_rows(named=True) if row["drop"] is not None}
    return [rows[pattern.name] for pattern in patterns if pattern.name in rows]


def _judge(row: Row, controls: Sequence[Row], *, strong: bool) -> tuple[bool | None, str]:
    """Whether the drop is above the controls, and strong if that is asked; and what is missing. None: not decided."""
    low, high = _ends(row)
    if low is None:
        return None, f"{_drop(row)} has no interval"
    below = [control for control in controls if row["drop"] < control["drop"] and not _overlap(row, control)]
    weak = strong and high is not None and high <= STRONG
    if missing := [*([f"not above {STRONG:g}"] if weak else []), *([f"below {_and(below)}"] if below else [])]:
        return False, f"the drop of {_drop(row)} is {' and '.join(missing)}"
    near = [control for control in controls if _overlap(row, control)]
    uncertain = [f"reaches below {STRONG:g}"] if strong and low <= STRONG else []
    uncertain += [f"overlaps with the interval{'s' if len(near) > 1 else ''} of {_and(near)}"] if near else []
    return (None, f"the interval of {_drop(row)} {' and '.join(uncertain)}") if uncertain else (True, "")


def _at_its_drop(row: Row) -> Row:
    return {"pattern": row["pattern"], "drop": row["drop"], **dict.fromkeys(_ENDS, row["drop"])}


def _overlap(one: Row, other: Row) -> bool:
    """Whether two intervals have a point in common. A missing interval counts as the whole range."""
    (low, high), (other_low, other_high) = _ends(one), _ends(other)
    if low is None or high is None or other_low is None or other_high is None:
        return True
    return low <= other_high and other_low <= high


def _ends(row: Row) -> tuple[float | None, float | None]:
    low, high = (row[name] for name in _ENDS)
    return low, high


def _drop(row: Row) -> str:
    return f"{row['pattern']} ({_points(row['drop'])})"


def _with_interval(row: Row) -> str:
    low, high = _ends(row)
    if low is None or high is None:
        return _drop(row)
    return f"{row['pattern']} ({_points(row['drop'])}, from {_points(low)} to {_points(high)})"


def _points(drop: float) -> str:
    return fixed(drop, 1, (-100, 0, STRONG, 100))


def _and(rows: Sequence[Row]) -> str:
    words = [_drop(row) for row in rows]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


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
    drops = []
    for row in _known(rates, patterns.scored):
        ends = (None if end is None else _points(end) for end in _ends(row))
        drops.append(f"{row['pattern']} {_points(row['drop'])}{interval(*ends)} (n = {row['n']:,})")
    return (
        f"Each triplet was scored in the patterns {', '.join(pattern.name for pattern in patterns.scored)}. The drops "
        "(100 minus the repetition rate, in percentage points; pairs and verbs are "
        f"clusters) are: {', '.join(drops)}."
    )
