"""How often do the 95 % intervals hold the truth? Simulated samples of pairs and verbs, as a table in Markdown.

    python tests/stages/simulated_intervals.py --samples 2000

Every interval is computed by the function that the program uses. A cell is the percentage of samples whose interval
holds the true value; with 2,000 samples its standard error is 0.5 at 95 %.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any

import click
import numpy as np
from negengine.engine.experiments.negation.lazy import first_repeating, share_interval
from negengine.engine.statistics.clusters import bounded_interval, clustered_mean, crossed_mean, proportion_interval
from negengine.engine.statistics.differences import paired_difference
from negengine.engine.statistics.intervals import Ends, proportion, relative_drop_interval
from numpy.typing import NDArray
from scipy import special

PAIRS = (6, 12, 30, 60, 200, 1000)
RATES = (0.002, 0.02, 0.2, 0.5, 0.8, 0.95, 0.98, 0.995)
CORRELATIONS = (0.05, 0.3)
SIDES = ((0.5, 0.4), (0.2, 0.2), (0.8, 0.17), (0.98, 0.83), (0.995, 0.98), (0.03, 0.002))
MOST_VERBS, VERBS = 20, 500
_PAIR_SHARE, _VERB_SHARE, _TOGETHER = 0.1, 0.4, 0.7
_LAZY = ((1, 0.2), (1, 0.65), (2, 0.65), (20, 0.03), (20, 0.65), (20, 0.97))  # verbs that are enough, rate
_LAZY_VERBS, _LAZY_CORRELATION = 200, 0.1
_MEANS = (-0.5, 0.0, 0.3, 0.8, 0.95)  # of rank correlations, which lie between -1 and 1
_MEAN_SPREAD = 4  # of the beta distribution that they come from
_RATIOS = ((0.9, 0.85), (0.9, 0.6), (0.6, 0.55), (0.5, 0.1), (0.98, 0.95))  # before, after
_UNEQUAL = (0.2, 0.5, 0.8, 0.95)  # rates
_UNEQUAL_CORRELATION = 0.1
# fmt: off
_TREX = (850, 764, 616, 594, 545, 514, 470, 437, 420, 419, 339, 336, 323, 302, 289, 278, 273, 270, 255, 239,
         238, 232, 211, 210, 191, 168, 138, 119, 102, 80, 56, 42, 39, 35, 27, 21, 12, 6, 6, 3)
# fmt: on
_CLUSTERS, _EFFECTS = (5, 10, 20, 60, 200), (1, 2, 5, 20, 50)
_DESIGN_RATES = (0.003, 0.01, 0.02, 0.1, 0.5, 0.9, 0.98, 0.99, 0.997)
# The sizes of so many clusters
SHAPES: Mapping[str, Callable[[int], NDArray[np.int64]]] = {
    "equal": lambda clusters: np.full(clusters, 100),
    "falling, 100:1": lambda clusters: np.geomspace(1_000, 10, clusters).astype(np.int64),
    "one larger, 100:1": lambda clusters: np.array([2_500, *[25] * (clusters - 1)]),
}
_FALLING = tuple(max(1, round(200 * 0.6**place)) for place in range(16))
_DIFFERING = ((12, 500), (60, 500), (60, 30), (600, 106))  # pairs, verbs

Random = np.random.Generator
Interval = tuple[float, float]
Rows = list[tuple[str, list[float]]]


def _known(ends: Ends, lowest: float = 0.0, highest: float = 1.0) -> Interval:
    """An interval that is not there holds everything that the quantity can be."""
    low, high = ends
    return (lowest, highest) if low is None or high is None else (low, high)


def rate_interval(random: Random, pairs: int, rate: float, correlation: float, sizes: Sequence[int] = ()) -> Interval:
    """Pairs with rates of their own (beta-binomial), 1 to 20 verbs each, and clusters of other sizes; of one sample."""
    spread = 1 / correlation - 1
    own = np.concatenate([np.array(sizes, np.int64), random.integers(1, MOST_VERBS + 1, pairs)])
    rates = random.beta(rate * spread, (1 - rate) * spread, len(own))
    return _known(proportion_interval(clustered_mean(random.binomial(own, rates), own)))


def designed_interval(random: Random, sizes: NDArray[np.int64], rate: float, effect: float) -> Interval:
    """Clusters of these sizes whose rates (beta-binomial) make this design effect (Kish 1965); of one sample."""
    correlation = (effect - 1) / (float((sizes**2).sum() / sizes.sum()) - 1)
    return rate_interval(random, 0, rate, max(correlation, 1e-9), sizes.tolist())


def designed_difference(
    random: Random, sizes: NDArray[np.int64], rates: tuple[float, float], effect: float
) -> Interval:
    """The difference of two rates of the same items in clusters of these sizes with this design effect."""
    return _difference(random, sizes, rates, max((effect - 1) / (float((sizes**2).sum() / sizes.sum()) - 1), 1e-6))


def difference_interval(random: Random, pairs: int, rates: tuple[float, float]) -> Interval:
    """The difference of two rates of the same triplets."""
    return _difference(random, np.full(pairs, MOST_VERBS), rates, CORRELATIONS[-1])


def _difference(random: Random, sizes: NDArray[np.int64], rates: tuple[float, float], correlation: float) -> Interval:
    """The clusters' rates of both sides go together."""
    clusters, spread = np.repeat(np.arange(len(sizes)), sizes), 1 / correlation - 1
    common, sides = random.normal(size=len(sizes)), list[NDArray[np.bool_]]()
    for rate in rates:
        place = special.ndtr(_TOGETHER**0.5 * common + (1 - _TOGETHER) ** 0.5 * random.normal(size=len(sizes)))
        own = special.betaincinv(rate * spread, (1 - rate) * spread, place)
        sides.append(random.random(len(clusters)) < own[clusters])
    found = paired_difference(sides[0], sides[1], clusters)
    return _known((found.low, found.high), -1.0)


def false_positives(random: Random, pairs: int, verbs: int) -> tuple[bool, bool]:
    """Whether p is below 0.05 for two outcomes of one rate: with pairs as clusters, and with pairs and verbs."""
    pair = np.repeat(np.arange(pairs), MOST_VERBS)
    verb = random.integers(0, verbs, len(pair))
    one, other = (_effects(random, pair, verb, pairs, verbs) < 0 for _ in range(2))
    return paired_difference(one, other, pair).p < 0.05, paired_difference(one, other, pair, verb).p < 0.05


def _effects(
    random: Random, pair: NDArray[np.int64], verb: NDArray[np.int64], pairs: int, verbs: int
) -> NDArray[np.float64]:
    """The sum of three normal effects: of the pair, of the verb, of the triplet."""
    total: NDArray[np.float64] = (
        _PAIR_SHARE**0.5 * random.normal(size=pairs)[pair]
        + _VERB_SHARE**0.5 * random.normal(size=verbs)[verb]
        + (1 - _PAIR_SHARE - _VERB_SHARE) ** 0.5 * random.normal(size=len(pair))
    )
    return total


def crossed_intervals(random: Random, pairs: int, rate: float) -> tuple[Interval, Interval]:
    """By pair, and by pair and verb: 20 of 500 verbs, drawn for each pair; both have effects on an outcome."""
    pair = np.repeat(np.arange(pairs), MOST_VERBS)
    verb = random.integers(0, VERBS, len(pair))
    repeated = _effects(random, pair, verb, pairs, VERBS) < special.ndtri(rate)
    by_pair = clustered_mean(np.bincount(pair, repeated), np.full(pairs, MOST_VERBS))
    both = crossed_mean(repeated, pair, verb)
    return _known(proportion_interval(by_pair)), _known(proportion_interval(both))


def mean_interval(random: Random, n: int, truth: float) -> Interval:
    """The mean of n values between -1 and 1, such as rank correlations, one for each relation."""
    half = (truth + 1) / 2
    values = 2 * random.beta(half * _MEAN_SPREAD, (1 - half) * _MEAN_SPREAD, n) - 1
    return _known(bounded_interval(clustered_mean(values, np.ones(n, np.int64), (-1, 1)), -1, 1), -1.0)


def relative_interval(random: Random, n: int, before: float, after: float) -> Interval:
    """The relative drop between two samples of n independent items, as of NLI; everything where there is none."""
    ends = relative_drop_interval(int(random.binomial(n, after)), n, int(random.binomial(n, before)), n)
    return _known(ends, -np.inf, np.inf)


def lazy_interval(random: Random, pairs: int, rate: float, enough: int) -> tuple[float, list[Interval]]:
    """The share of verbs that repeat in one sample of pairs with rates of their own, and its interval."""
    spread = 1 / _LAZY_CORRELATION - 1
    numbers = np.rint(_LAZY_VERBS * random.beta(rate * spread, (1 - rate) * spread, pairs))
    repeats = random.permuted(np.arange(_LAZY_VERBS) < numbers[:, None], axis=1)
    order = np.tile(np.arange(_LAZY_VERBS), (pairs, 1))
    found = first_repeating(order, enough, lambda pair, verb: np.asarray(repeats[pair, verb]))
    share, variance = found.repeating.sum() / repeats.size, found.variance.sum() / repeats.size**2
    interval = share_interval(float(share), float(variance), pairs, int(found.stopped.sum()), enough)
    return float(repeats.mean()), [interval]


def coverage(samples: int, draw: Callable[[Random], tuple[float, Sequence[Interval]]], seed: int) -> list[float]:
    """The percentage of samples whose interval holds the truth, for each kind of interval."""
    random = np.random.default_rng(seed)
    drawn = (draw(random) for _ in range(samples))
    held = [[low - 1e-12 <= truth <= high + 1e-12 for low, high in intervals] for truth, intervals in drawn]
    return [float(share) for share in 100 * np.mean(held, axis=0)]


def tables(samples: int, seed: int, pairs: Sequence[int] = PAIRS) -> Iterator[tuple[str, Sequence[str], Rows]]:
    """All tables: title, headings, and rows of a name and percentages."""

    def held(truth: float, draw: Callable[..., Interval], *given: Any) -> float:
        return coverage(samples, lambda g: (truth, [draw(g, *given)]), seed)[0]

    @cache
    def positive(p: int, verbs: int) -> list[float]:
        random = np.random.default_rng(seed)
        found = np.mean([false_positives(random, p, verbs) for _ in range(samples)], axis=0)
        return [float(share) for share in 100 * found]

    def designed(r: float, sizes: NDArray[np.int64]) -> float:
        return min(held(r, designed_interval, sizes, r, effect) for effect in _EFFECTS)

    def paired(r: float, sizes: NDArray[np.int64]) -> float:
        both = [(r, r), (r, 0.5)]  # two outcomes of one rate, and a rate against another one
        given = [(own, effect) for own in both for effect in _EFFECTS]
        return min(held(own[0] - own[1], designed_difference, sizes, own, effect) for own, effect in given)

    def lazy(of: tuple[int, float], p: int) -> float:
        return coverage(samples, lambda g: lazy_interval(g, p, of[1], of[0]), seed)[0]

    rates, of_pairs = [f"{r:.1%}" for r in RATES], {f"{p:,} pairs": p for p in pairs}
    few = {name: p for name, p in of_pairs.items() if p <= 200}
    shapes = {
        f"{c} clusters, {shape}": sizes(c) for shape, sizes in SHAPES.items() for c in _CLUSTERS if c <= max(pairs)
    }
    groups = {
        "3 relations of Google-RE": ((2937, 1825, 765), 0),
        "40 relations of T-REx": (_TREX, 0),
        "16 sizes that fall by 0.6": (_FALLING, 0),
        **{f"one of 200, {smaller} others": ((200,), smaller) for smaller in (5, 11, 59)},
    }
    sizes = {f"{p:,} pairs, {verbs:,} verbs": (p, verbs) for p, verbs in _DIFFERING if p <= max(pairs)}
    crossed = {
        (r, p): coverage(samples, lambda g, r=r, p=p: (r, crossed_intervals(g, p, r)), seed)
        for p in pairs
        for r in RATES
    }
    of_clusters = f"of clusters, the lowest of the design effects {', '.join(map(str, _EFFECTS))}"
    design, of_design = [f"{100 * r:g} %" for r in _DESIGN_RATES], (shapes, _DESIGN_RATES)
    items = {f"{n:,} items": n for n in pairs}
    relations = {f"{n:,} relations": n for n in pairs if n <= 200}
    # title, headings, name of a row → what it is, what the columns are, the percentage of a column and a row
    for title, headings, named, columns, cell in [
        *(
            (f"Rates, pairs as clusters, correlation {own}", rates, of_pairs, RATES,
             lambda r, p, own=own: held(r, rate_interval, p, r, own))
            for own in CORRELATIONS
        ),
        (f"Rates {of_clusters}", design, *of_design, designed),
        (f"Differences of two rates of the same items {of_clusters}", design, *of_design, paired),
        (f"Rates, clusters of unequal size, correlation {_UNEQUAL_CORRELATION}", [f"{r:.0%}" for r in _UNEQUAL], groups,
         _UNEQUAL, lambda r, own: held(r, rate_interval, own[1], r, _UNEQUAL_CORRELATION, own[0])),
        ("Samples without a difference that have p < 0.05, pairs and verbs have effects",
         ["pairs as clusters", "pairs and verbs"], sizes, (0, 1), lambda which, own: positive(*own)[which]),
        *(
            (f"Rates where pairs and verbs have effects, interval {kind}", rates, of_pairs, RATES,
             lambda r, p, which=which: crossed[r, p][which])
            for which, kind in enumerate(("by pair alone", "by pair and verb"))
        ),
        ("Differences of two rates of the same triplets, pairs as clusters",
         [f"{100 * one:g} − {100 * other:g}" for one, other in SIDES], of_pairs, SIDES,
         lambda s, p: held(s[0] - s[1], difference_interval, p, s)),
        ("Share of the verbs that repeat, lazy selection", [f"{enough} of {100 * r:g} %" for enough, r in _LAZY], few,
         _LAZY, lazy),
        ("Rates of independent items (Wilson)", rates, items, RATES,
         lambda r, n: held(r, lambda g: proportion(int(g.binomial(n, r)), n)[1:])),
        ("Means of independent rank correlations", [f"{truth:g}" for truth in _MEANS], relations, _MEANS,
         lambda truth, n: held(truth, mean_interval, n, truth)),
        ("Relative drop between two rates of independent items (Katz)",
         [f"{before:g} to {after:g}" for before, after in _RATIOS], items, _RATIOS,
         lambda s, n: held(1 - s[1] / s[0], relative_interval, n, *s)),
    ]:  # fmt: skip
        yield title, headings, [(name, [cell(column, row) for column in columns]) for name, row in named.items()]


def markdown(samples: int, seed: int, pairs: Sequence[int] = PAIRS) -> str:
    """All tables as Markdown."""
    lines = []
    for title, headings, rows in tables(samples, seed, pairs):
        lines += [f"**{title}**", "", f"| | {' | '.join(headings)} |", f"|---|{'---:|' * len(headings)}"]
        lines += [f"| {name} | {' | '.join(f'{cell:.1f}' for cell in cells)} |" for name, cells in rows]
        lines.append("")
    return "\n".join(lines)


@click.command()
@click.option("--samples", type=click.IntRange(1), default=2_000, help="Samples for each cell.")
@click.option("--seed", type=click.IntRange(0), default=0, help="Seed of the samples.")
def main(samples: int, seed: int) -> None:
    """Print the measured coverage of all intervals as Markdown."""
    click.echo(f"{samples:,} samples for each cell, seed {seed}, {datetime.now(UTC):%Y-%m-%d}\n")
    click.echo(markdown(samples, seed))


if __name__ == "__main__":
    main()
