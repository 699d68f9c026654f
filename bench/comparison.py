"""Systems that do the same items, compared: how each subject of `bench` is measured, and the table of its figures."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic

import numpy as np
import polars as pl

from ..engine.inference.device import CPU, cpu_threads
from ..engine.views import Column, Table
from .rounds import Start, compare
from .shapes import Measured
from .systems.system import Answers, Place, System, W

Say = Callable[[str], None]
Judge = Callable[[Answers, Answers], Mapping[str, float]]
_DIFFERENCE, _SAME = "difference", "same"


@dataclass(frozen=True)
class Effort:
    """How much is measured."""

    rounds: int = 5  # how often each system is timed
    seconds: float = 8  # about how long a round of the slowest baseline takes
    tried: int = 64  # items for finding the fastest settings
    fewest: int = 64  # fewest items of a round
    most: int = 20_000  # most items of a round


@dataclass(frozen=True)
class Comparison:
    """What is compared with what."""

    reference: str  # the system whose answers are right
    times: Mapping[str, str]  # key of a ratio → the system that it is counted from; missing systems have no ratio
    judge: Judge  # answers of a system and of the reference → figures, such as their largest difference
    unjudged: Sequence[str] = ()  # systems that answer something else


@dataclass(frozen=True)
class Measurement(Generic[W]):
    """What the systems are given to do with one model."""

    systems: Sequence[System[W]]
    make: Callable[[int], W]  # number of items → the items; it may give fewer
    # the items of a round → what else is reported about them, as JSON values
    known: Callable[[W], Mapping[str, Any]] = lambda _: {}


def largest_difference(answers: Answers, reference: Answers) -> dict[str, float]:
    """How far scores lie apart; values that neither side has do not count."""
    both = np.isnan(answers) & np.isnan(reference)
    return {_DIFFERENCE: float(np.where(both, 0.0, np.abs(answers - reference)).max())}


def share_of_same(answers: Answers, reference: Answers) -> dict[str, float]:
    """The share of equal answers."""
    return {_SAME: float(np.mean(answers == reference))}


def measure_comparison(
    measured: Measured,
    measurement: Measurement[W],
    comparison: Comparison,
    effort: Effort,
    cache: Path,
    say: Say,
    start: Start | None = None,
) -> dict[str, Any]:
    """Time systems on the CPU; the figures are JSON values."""
    systems, make = measurement.systems, measurement.make
    place = Place(measured.checkpoint, measured.exported.folder, CPU, cpu_threads(), cache)
    shares = {system.name: system.fewer for system in systems if not system.ours}

    def work(rates: Mapping[str, float]) -> W:
        slowest = min(rate * shares[name] for name, rate in rates.items() if name in shares)
        return make(int(min(max(effort.seconds * slowest, effort.fewest), effort.most)))

    compared = compare(
        systems, place, make(effort.tried), work, effort.rounds, say, warm_up=max(1, effort.tried // 8), start=start
    )
    outcomes = compared.by_name
    reference = outcomes[comparison.reference]
    return {
        "model": measured.name,
        "random weights": measured.is_random,
        "threads": place.threads,
        "sentences": max(outcome.items for outcome in compared.outcomes),
        "rounds": effort.rounds,
        "systems": [
            {
                **outcome.row(),
                **{
                    key: outcome.rate / outcomes[name].rate if name in outcomes else None
                    for key, name in comparison.times.items()
                },
                "with opening/s": outcome.items / (outcome.opened.seconds + outcome.items / outcome.rate),
                **(
                    {}
                    if outcome.system.name in comparison.unjudged
                    else comparison.judge(outcome.answers[: reference.items], reference.answers[: outcome.items])
                ),
            }
            for outcome in compared.outcomes
        ],
        "missing": [f"{name}: {why}" for name, why in compared.missing.items()],
        **measurement.known(make(reference.items)),
    }


def comparison_table(found: Mapping[str, Any], title: str, comparison: Comparison) -> Table:
    """The figures of one comparison as a table."""
    numbers = {key: pl.Float64 for row in found["systems"] for key, value in row.items() if not _is_kept(value)}
    frame = pl.DataFrame(found["systems"], schema_overrides=numbers, infer_schema_length=None)
    is_difference = any(_DIFFERENCE in row for row in found["systems"])
    columns = [
        Column("system", "system", wrap=False),
        Column("a second", "sentences/s", significant=3),
        Column("with opening", "with opening/s", significant=3),
        *(Column(key.replace("times", "×"), key, decimals=2) for key in comparison.times),
        Column("largest difference", _DIFFERENCE, significant=2)
        if is_difference
        else Column("same answers", _SAME, decimals=1, scale=100, unit="%"),
        Column("MB", "MB", decimals=0, wrap=False),
    ]
    notes = [
        *(f"{row['system']}: {row['about']}" for row in found["systems"]),
        f"each system: {found['threads']} threads, a process of its own; MB: peak memory of the process",
        "with opening: items a second if the time to load libraries and the model counts too",
        *(f"missing: {why}" for why in found["missing"]),
    ]
    return Table(title, frame, columns, notes=notes)


def _is_kept(value: Any) -> bool:
    return isinstance(value, str | bool | list)
