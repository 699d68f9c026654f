"""What `bench` compares: systems that do the same items, and their table.

A subject is a file: its items, the systems that do them, and `SUBJECT`.
"""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ..engine.basics.errors import InputError
from ..engine.basics.limits import cpu_threads
from ..engine.inference.device import choose_device
from ..engine.inference.devices.cpu import CPU
from ..engine.inference.devices.cuda import Cuda
from ..engine.inference.session import Device
from ..engine.views import Column, Table
from ..export.source import locate
from .machine import describe
from .rounds import INTERRUPTED, Compared, Effort, Keep, Outcome, Say, Start, compare, in_a_process
from .shapes import SHAPES, Measured, cache_folder, prepare
from .system import LOOP, Place, System

_TRIED_ON_CUDA = 4096  # items for finding the best settings, where batches are larger
COMPUTED = "computed"  # the key of rows that nothing was measured for


def differences(_work: Any, one: Outcome, reference: Outcome) -> Mapping[str, Any]:
    """How far scores are from those of the reference; values that neither side has do not count."""
    n = min(one.items, reference.items)
    answers, right = one.answers[:n], reference.answers[:n]
    both = np.isnan(answers) & np.isnan(right)
    return {"difference": float(np.where(both, 0.0, np.abs(answers - right)).max())}


@dataclass(frozen=True)
class Measurement:
    """What the systems are given to do with one model."""

    systems: Sequence[System[Any]]
    make: Callable[[int], Any]  # number of items → the items; it may give fewer
    # the items of a round → what else is reported about them, as JSON values
    known: Callable[[Any], Mapping[str, Any]] = lambda _: {}
    # the items, a system's outcome and that of the reference → further figures of the system, as JSON values
    judged: Callable[[Any, Outcome, Outcome], Mapping[str, Any]] = differences


@dataclass(frozen=True)
class Subject:
    """One command that is measured beside other programs."""

    name: str  # of the command
    unit: str  # what its items are called
    # the model, where it runs, how much is measured, what says so → what is measured, one after the other
    measurements: Callable[[Measured, Device, Any, Say], Iterable[Measurement]]
    effort: Effort
    # key of a ratio → the system that it is counted from; missing systems have no ratio
    times: Mapping[str, str]
    # the figures of a measurement → what the title of its table says about the items
    described: Callable[[Mapping[str, Any]], str]
    reference: str = LOOP  # the system whose answers are right
    columns: Sequence[Column] = (Column("largest difference", "difference", significant=2),)  # what is judged
    notes: Callable[[Mapping[str, Any]], Sequence[str]] = lambda _: ()
    baselines: Sequence[str] = ()  # the systems that a user may leave out
    on_any_device: bool = False  # or all systems run on the CPU
    # all figures, the device, the cache, how much is measured → rows that are computed of them, put into the figures
    compute: Callable[[Sequence[dict[str, Any]], Device, Path, Any, Say], None] = lambda *_: None

    def measure(
        self, measured: Measured, measurement: Measurement, effort: Effort, device: Device, cache: Path, say: Say,
        start: Start, keep: Keep,
    ) -> dict[str, Any]:  # fmt: skip
        """Time systems; the figures are JSON values, and `keep` is given them whenever more is known."""

        def figures(compared: Compared) -> dict[str, Any]:
            outcomes = compared.by_name
            reference, known = outcomes[self.reference], {key: outcomes.get(of) for key, of in self.times.items()}
            work, rows = measurement.make(reference.items), []
            for one in compared.outcomes:
                times = {key: other and one.rate / other.rate for key, other in known.items()}
                opened = one.items / (one.opened.seconds + one.items / one.rate)
                judged = measurement.judged(work, one, reference)
                rows.append({**one.row(), **times, "with opening/s": opened, **judged})
            return {
                "model": measured.name,
                "random weights": measured.is_random,
                "device": str(device),
                "threads": place.threads,
                "items": self.unit,
                "sentences": max(one.items for one in compared.outcomes),
                "rounds": max(1, reference.rounds),
                INTERRUPTED: compared.interrupted,
                "systems": rows,
                COMPUTED: [],
                "missing": dict(compared.missing),
                **measurement.known(work),
            }

        def tell(found: Compared) -> None:
            if self.reference in found.by_name:
                keep(figures(found))

        place = Place(measured.checkpoint, measured.exported.folder, device, cpu_threads(), cache)
        compared = compare(measurement.systems, place, measurement.make, effort, say, start, tell)
        if self.reference not in compared.by_name:  # interrupted before there was anything to compare with
            raise KeyboardInterrupt
        return figures(compared)

    def table(self, found: Mapping[str, Any]) -> Table:
        """The figures of one measurement as a table."""
        rows = found["systems"]
        floats = {key: pl.Float64 for row in rows for key, own in row.items() if not isinstance(own, str | bool | list)}
        columns = [
            Column("system", "system", wrap=False),
            Column("a second", "sentences/s", significant=3),
            Column("with opening", "with opening/s", significant=3),
            *(Column(key.replace("times", "×"), key, decimals=2) for key in self.times),
            *self.columns,
            Column("MB", "MB", decimals=0, wrap=False),
        ]
        notes = [
            *(f"{row['system']}: {row['about']}" for row in [*rows, *found[COMPUTED]]),
            f"each system: {found['threads']} threads, a process of its own; MB: peak memory of the process",
            "with opening: items a second if the time to load libraries and the model counts too",
            *self.notes(found),
            *(f"{name} is not measured: {why}" for name, why in found["missing"].items()),
        ]
        many = f"{found['sentences']:,} {self.unit} {self.described(found)}"
        title = f"{found['model']} on {found['device']}: {many}, medians of {found['rounds']} rounds"
        frame = pl.DataFrame([*rows, *found[COMPUTED]], schema_overrides=floats, infer_schema_length=None)
        return Table(title, frame, columns, notes=notes)


def bench_subject(
    subject: Subject, names: Sequence[str], *, device: str = "auto", effort: Effort | None = None,
    cache: Path | None = None, only: Sequence[str] = (), start: Start = in_a_process, say: Say,
    keep: Keep = lambda _: None,
) -> dict[str, Any]:  # fmt: skip
    """Measure models: a JSON document of the machine and each model; `keep` is given it whenever more is known.

    `only` names baselines that are measured beside the reference and ours. After an interrupt the document has what was
    measured, and says so. Raises InputError if a model, the device or a baseline does not exist.
    """
    if not subject.on_any_device and device not in {"auto", "cpu"}:
        raise InputError(f"bench {subject.name}: the other systems are measured on the CPU; remove --device")
    chosen, effort = choose_device(device) if subject.on_any_device else CPU, effort or subject.effort
    folder, found = cache or cache_folder(), list[dict[str, Any]]()
    if unknown := next((name for name in only if name not in subject.baselines), None):
        raise InputError(f"--baseline {unknown}: there are {', '.join(subject.baselines)}")
    for name in names:
        if name not in SHAPES:
            locate(name)  # a name that does not exist is told before hours of work
    folder.mkdir(parents=True, exist_ok=True)
    if chosen.kind == Cuda.kind:
        effort = replace(effort, tried=_TRIED_ON_CUDA)

    def document(*more: dict[str, Any]) -> dict[str, Any]:
        models, command = [*found, *more], " ".join(["negengine", *sys.argv[1:]])
        known = {"machine": describe(chosen), "command": command, "subject": subject.name, "models": models}
        return known | {INTERRUPTED: any(own[INTERRUPTED] for own in models)}

    for name in names:
        say(f"{name}: preparing")
        measured = prepare(name, folder)
        for one in subject.measurements(measured, chosen, effort, say):
            left_out = {own for own in subject.baselines if only and own not in only}
            measurement = replace(one, systems=[own for own in one.systems if own.name not in left_out])
            given = (effort, chosen, folder, say, start, lambda own: keep(document(own)))
            found.append(subject.measure(measured, measurement, *given))
            if found[-1][INTERRUPTED]:
                return document()
    subject.compute(found, chosen, folder, effort, say)
    return document()
