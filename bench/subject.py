"""What `bench likelihood` and `bench probe` compare: systems that do the same items, and their table.

A subject is a file: its items, the systems that do them, and `SUBJECT`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ..engine.basics.limits import cpu_threads
from ..engine.inference.devices.cpu import CPU
from ..engine.views import Column, Table
from .machine import describe
from .rounds import INTERRUPTED, Compared, Effort, Keep, Say, Start, compare, in_a_process
from .shapes import Measured, cache_folder, prepare
from .system import LOOP, Place, System

_DIFFERENCE, _SAME = "difference", "same"


@dataclass(frozen=True)
class Measurement:
    """What the systems are given to do with one model."""

    systems: Sequence[System[Any]]
    make: Callable[[int], Any]  # number of items → the items; it may give fewer
    # the items of a round → what else is reported about them, as JSON values
    known: Callable[[Any], Mapping[str, Any]] = lambda _: {}


@dataclass(frozen=True)
class Subject:
    """One command that is measured beside other programs. The answers of `LOOP` are right."""

    name: str  # of the command
    unit: str  # what its items are called
    # the model → what is measured with it, one after the other; items are made of the bundled lexicon
    measurements: Callable[[Measured], Iterable[Measurement]]
    effort: Effort
    # key of a ratio → the system that it is counted from; missing systems have no ratio
    times: Mapping[str, str]
    # the figures of a measurement → what the title of its table says about the items
    described: Callable[[Mapping[str, Any]], str]

    def measure(
        self, measured: Measured, measurement: Measurement, effort: Effort, cache: Path, say: Say,
        start: Start, keep: Keep,
    ) -> dict[str, Any]:  # fmt: skip
        """Time systems on the CPU; the figures are JSON values, and `keep` is given them whenever more is known."""

        def figures(compared: Compared) -> dict[str, Any]:
            outcomes, rows = compared.by_name, []
            reference = outcomes[LOOP]
            for one in compared.outcomes:
                known = {key: outcomes.get(of) for key, of in self.times.items()}
                times = {key: other and one.rate / other.rate for key, other in known.items()}
                opened = one.items / (one.opened.seconds + one.items / one.rate)
                answers, right = one.answers[: reference.items], reference.answers[: one.items]
                if right.dtype.kind == "f":  # scores; values that neither side has do not count
                    both = np.isnan(answers) & np.isnan(right)
                    judged = {_DIFFERENCE: float(np.where(both, 0.0, np.abs(answers - right)).max())}
                else:
                    judged = {_SAME: float(np.mean(answers == right))}
                rows.append({**one.row(), **times, "with opening/s": opened, **judged})
            return {
                "model": measured.name,
                "random weights": measured.is_random,
                "threads": place.threads,
                "sentences": max(one.items for one in compared.outcomes),
                "rounds": max(1, reference.rounds),
                INTERRUPTED: compared.interrupted,
                "systems": rows,
                "missing": [f"{name}: {why}" for name, why in compared.missing.items()],
                **measurement.known(measurement.make(reference.items)),
            }

        def tell(found: Compared) -> None:
            if LOOP in found.by_name:
                keep(figures(found))

        place = Place(measured.checkpoint, measured.exported.folder, CPU, cpu_threads(), cache)
        compared = compare(measurement.systems, place, measurement.make, effort, say, start, tell)
        if LOOP not in compared.by_name:  # interrupted before there was anything to compare with
            raise KeyboardInterrupt
        return figures(compared)

    def table(self, found: Mapping[str, Any]) -> Table:
        """The figures of one measurement as a table."""
        rows = found["systems"]
        floats = {key: pl.Float64 for row in rows for key, own in row.items() if not isinstance(own, str | bool | list)}
        judged = Column("same answers", _SAME, decimals=1, scale=100, unit="%")
        if _DIFFERENCE in rows[0]:
            judged = Column("largest difference", _DIFFERENCE, significant=2)
        columns = [
            Column("system", "system", wrap=False),
            Column("a second", "sentences/s", significant=3),
            Column("with opening", "with opening/s", significant=3),
            *(Column(key.replace("times", "×"), key, decimals=2) for key in self.times),
            judged,
            Column("MB", "MB", decimals=0, wrap=False),
        ]
        notes = [
            *(f"{row['system']}: {row['about']}" for row in rows),
            f"each system: {found['threads']} threads, a process of its own; MB: peak memory of the process",
            "with opening: items a second if the time to load libraries and the model counts too",
            *(f"missing: {why}" for why in found["missing"]),
        ]
        title = f"{found['model']}: {found['sentences']:,} {self.unit} {self.described(found)}"
        frame = pl.DataFrame(rows, schema_overrides=floats, infer_schema_length=None)
        return Table(title, frame, columns, notes=notes)


def bench_subject(
    subject: Subject, names: Sequence[str], *, effort: Effort | None = None, cache: Path | None = None,
    start: Start = in_a_process, say: Say, keep: Keep = lambda _: None,
) -> dict[str, Any]:  # fmt: skip
    """Measure models: the machine, and the systems' figures. Raises InputError if a model does not exist."""
    folder, found = cache or cache_folder(), list[dict[str, Any]]()

    def document(*more: dict[str, Any]) -> dict[str, Any]:
        models = [{**own, "items": subject.unit} for own in (*found, *more)]
        known = {"machine": describe(CPU), "threads": cpu_threads(), "subject": subject.name, "models": models}
        return known | {INTERRUPTED: any(own[INTERRUPTED] for own in models)}

    for name in names:
        measured = prepare(name, folder)
        for measurement in subject.measurements(measured):
            given = (effort or subject.effort, folder, say, start, lambda own: keep(document(own)))
            found.append(subject.measure(measured, measurement, *given))
            if found[-1][INTERRUPTED]:
                return document()
    return document()
