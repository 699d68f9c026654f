"""What a selection would do, and how wide its intervals would be: said before a run, from the plan alone.

Correlations between two triplets of one pair, or verb, are the largest of the bundled model (600 pairs, four patterns);
beside that of pairs stands 0.3, for a model that looks at names and professions.
"""

from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Any

import polars as pl

from ...runs.shard import Shard
from ...statistics.intervals import UPPER, normal_quantile
from ...statistics.power import POWER, clusters_needed
from ...views import Column, Table
from ..plan import Plan
from .grid import Verbs
from .select import SEVERAL, Selection

PAIR_CORRELATION, VERB_CORRELATION = 0.006, 0.95
LARGE_PAIR_CORRELATION = 0.3
WIDTHS = (10.0, 5.0, 2.0, 1.0)  # percentage points
_RATE = 0.5  # the rate whose interval is widest
_SPEEDS = (100, 1_000, 10_000)  # sentences a second: a laptop, a server, a GPU


@dataclass(frozen=True, eq=False)
class SelectionPlan(Plan):
    """A selection that was planned, not run."""

    widths: pl.DataFrame  # width, pairs, pairs_large_correlation, width_two_way; widths in percentage points

    def tables(self) -> list[Table]:
        return [
            *super().tables(),
            Table(
                "How many pairs a 95 % interval needs",
                self.widths,
                [
                    Column("width of the interval", "width", decimals=0, unit="percentage points"),
                    Column("pairs, if pairs differ little", "pairs"),
                    Column("pairs, if they differ much", "pairs_large_correlation"),
                    Column("width with verbs as clusters too", "width_two_way", decimals=1, unit="percentage points"),
                ],
                notes=[
                    "pair: a name and a profession; width: from end to end, of a rate of 50 %, which is the widest",
                    f"if pairs differ little: correlation within a pair {PAIR_CORRELATION}, as of the bundled model",
                    f"if they differ much: {LARGE_PAIR_CORRELATION}, as of a model that looks at names and professions",
                    "width with verbs as clusters too: for the first number of pairs",
                    f"correlation within a verb: {VERB_CORRELATION}, as of the bundled model",
                ],
            ),
        ]

    def document(self) -> dict[str, Any]:
        return {**super().document(), "widths": self.widths.to_dicts()}


def plan_of(stage: Selection, folder: Path, shard: Shard) -> SelectionPlan:
    """What a selection would do; no model is opened. Figures are about mono-token verbs unless they say otherwise."""
    single, *several = stage.verbs
    # Of the patterns, the selection answers the selecting one.
    pairs, verbs, patterns = len(single.pairs), single.n, len(stage.patterns.scored)
    most = min(stage.settings.max_verbs, verbs)
    parts, own = _of_shard(single, shard)
    work: dict[str, int | float] = {
        "verbs that are one token": verbs,
        "pairs": pairs,
        "candidates": single.size,
        "parts of this run" if shard.is_whole else f"parts of shard {shard}": parts,
    }
    if stage.settings.lazy:
        work |= {"sentences, at least": own * most, "sentences, at most": own * verbs}
    else:
        work["sentences"] = own * verbs
    for more in several:  # a candidate needs one sentence at least, and one for each token at most
        parts, own_pairs = _of_shard(more, shard)
        fewest = min(stage.settings.max_verbs, more.n) if stage.settings.lazy else more.n
        work |= {
            SEVERAL: more.n,
            f"{SEVERAL}: parts": parts,
            f"{SEVERAL}: sentences, at least": own_pairs * fewest,
            f"{SEVERAL}: sentences, at most": own_pairs * int(more.words.counts.sum()),
        }
    work |= {f"minutes at {speed:,} sentences a second": own * verbs / speed / 60 for speed in _SPEEDS}
    work |= {"selected triplets, at most": pairs * most, "sentences of the scoring, at most": pairs * most * patterns}
    # With a power of 80 % (5 %, two-sided); the two rates are taken as independent, which is careful: they are rates of
    # the same triplets. The formula is in `statistics.power`.
    quantiles = normal_quantile(UPPER) + normal_quantile(POWER)
    if smallest := quantiles * sqrt(2 * two_way_variance(pairs, most, verbs)):
        work["smallest difference that is found (percentage points)"] = 100 * smallest
    needed, large = (
        [clusters_needed(width / 100, _RATE, most, correlation) for width in WIDTHS]
        for correlation in (PAIR_CORRELATION, LARGE_PAIR_CORRELATION)
    )
    both = [100 * 2 * normal_quantile(UPPER) * sqrt(two_way_variance(own, most, verbs)) for own in needed]
    widths = {"width": WIDTHS, "pairs": needed, "pairs_large_correlation": large, "width_two_way": both}
    return SelectionPlan(stage.exported.name, folder, work, stage.notes, pl.DataFrame(widths))


def _of_shard(verbs: Verbs, shard: Shard) -> tuple[int, int]:
    numbers = shard.parts(len(verbs.parts))
    return len(numbers), sum(len(verbs.parts[number]) for number in numbers)


def two_way_variance(
    pairs: int, size: int, verbs: int, by_pair: float = PAIR_CORRELATION, by_verb: float = VERB_CORRELATION
) -> float:
    """The variance of a rate of 50 % with pairs and verbs as clusters; each pair has `size` random verbs.

    Of n = pairs · size triplets, two share a pair with probability 1 / pairs, a verb with (1 - size / verbs) / n + 1 /
    verbs, each with itself included:

        p (1 - p) · [(1 - a - b) / n + a / pairs + b · ((1 - size / verbs) / n + 1 / verbs)]
    """
    n = pairs * size
    same_verb = (1 - size / verbs) / n + 1 / verbs
    alone = max(0.0, 1 - by_pair - by_verb) / n
    return _RATE * (1 - _RATE) * (alone + by_pair / pairs + by_verb * same_verb)
