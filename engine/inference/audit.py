"""The audit of mixed precision: how many decisions of the low-precision model the reference model checks.

About 15,000, which bound the wrong ones at 0.02 % if none is found; 5 % where that is fewer, as an audit costs time.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..basics.choices import Precision

CONFIDENCE = 0.95
AIM = 2e-4  # the upper bound on the share of wrong decisions, if the audit finds none
MOST = 0.05  # the largest share of the decisions that is audited, except in runs with few sentences
DISAGREEMENTS = "disagreements"  # the count of audited decisions that were wrong
_SPREAD = 4  # standard deviations: a hash of each sentence decides, so the number of audited ones is random


@dataclass
class Audit:
    """Counts of sentences: the reference model decided the `close` and the `audited` ones."""

    decided: int = 0
    close: int = 0
    audited: int = 0
    disagreements: int = 0


def audit_share(decided: Sequence[tuple[int, float]], fewest: int) -> float:
    """The share of the decisions that is audited, from the least number of sentences and the close ones of patterns."""
    sentences = sum(n for n, _ in decided)
    alone = sum(n * (1 - close) for n, close in decided)
    enough = math.log(1 - CONFIDENCE) / math.log1p(-AIM)
    enough += _SPREAD * math.sqrt(enough)
    share = min(MOST, enough / max(alone, 1.0))
    return min(1.0, max(share, fewest / max(sentences, 1)))


def disagreement_bound(disagreements: int, audited: int, confidence: float = CONFIDENCE) -> float:
    """One-sided upper bound on the share of wrong decisions (Clopper and Pearson 1934); 1 if nothing was audited."""
    if disagreements >= audited:
        return 1.0
    if not disagreements:  # without SciPy, which takes long to import: a share p leaves none with (1 - p) ** audited
        return -math.expm1(math.log1p(-confidence) / audited)
    from scipy import special  # noqa: PLC0415

    return float(special.betaincinv(disagreements + 1, audited - disagreements, confidence))


def audit_summary(counts: Mapping[str, float]) -> dict[str, float | str]:
    """A run's report on its precision, from the sums of its parts' counts."""
    if not counts.get("decided"):
        return {"kind": Precision.FP32}
    audited, disagreements = int(counts["audited"]), int(counts["disagreements"])
    return {
        "kind": Precision.MIXED,
        "close_calls": counts["close"] / counts["decided"],
        "audited": audited,
        "disagreements": disagreements,
        "disagreement_rate_upper_bound": disagreement_bound(disagreements, audited),
        "audit_cost": audited / counts["decided"],
    }


def audit_sentences(found: Mapping[str, float | str]) -> list[str]:
    """A report of `audit_summary` in words, for the notes of a table; none for a run in fp32."""
    if found.get("kind") != Precision.MIXED:
        return []
    names = ("close_calls", "disagreement_rate_upper_bound", "audit_cost")
    close, bound, cost = (100 * float(found[name]) for name in names)
    wrong = f"{found['disagreements']:,} {'was' if found['disagreements'] == 1 else 'were'} wrong"
    text = f"Mixed precision: {close:.1f} % of the decisions were close calls, made in fp32. Of the others, "
    text += f"{found['audited']:,} were made again in fp32: {wrong}, so at most {bound:.3f} % are wrong (95 % "
    return [f"{text}confidence). Cost: {cost:.1f} % of the time of fp32."]
