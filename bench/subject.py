"""What `bench likelihood`, `probe`, `lama` and the others compare, and the one loop over models that they have."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..engine.basics.errors import InputError
from ..engine.experiments.data_sets.sources import find
from ..engine.inference.device import CPU, cpu_threads
from ..engine.views import Table
from .comparison import Comparison, Effort, Measurement, Say, comparison_table, measure_comparison
from .machine import describe
from .rounds import Start
from .shapes import SHAPES, Measured, Shape, cache_folder, prepare

Measurements = Callable[[Measured, Path | None], Iterable[Measurement[Any]]]
"""The model, and the data or None → what is measured with it, one after the other."""
OWN, MADE, LEXICON = "the paper's", "made items of the same lengths", "the bundled lexicon"


@dataclass(frozen=True)
class Subject:
    """One command that is measured."""

    name: str  # of the command
    unit: str  # what its items are called
    comparison: Comparison  # what is compared with what
    measurements: Measurements  # what is measured with a model
    effort: Effort  # how much is measured
    # the figures of a measurement → what the title of its table says about the items
    described: Callable[[Mapping[str, Any]], str] = lambda found: f"({found['data']})"
    data: str = ""  # the data set that it reads; empty if its items are made of the bundled lexicon
    # makes a model, or finds it; see `shapes.prepare`
    prepare: Callable[[str, Path, Mapping[str, Shape]], Measured] = prepare

    def table(self, found: Mapping[str, Any]) -> Table:
        title = f"{found['model']}: {found['sentences']:,} {self.unit} {self.described(found)}"
        return comparison_table(found, title, self.comparison)


def bench_subject(
    subject: Subject,
    names: Sequence[str],
    *,
    data: Path | None = None,
    effort: Effort | None = None,
    cache: Path | None = None,
    shapes: Mapping[str, Shape] = SHAPES,
    start: Start | None = None,
    say: Say,
) -> dict[str, Any]:
    """Measure models: the machine, and the systems' figures. Raises InputError if a model or the data do not exist."""
    folder, found = cache or cache_folder(), []
    path = _data(subject, data)
    items = LEXICON if not subject.data else MADE if path is None else OWN
    say(f"{subject.name}: {path or items}")
    for name in names:
        measured = subject.prepare(name, folder, shapes)
        for measurement in subject.measurements(measured, path):
            result = measure_comparison(
                measured, measurement, subject.comparison, effort or subject.effort, folder, say, start
            )
            found.append({**result, "items": subject.unit, "data": items})
    return {"machine": describe(CPU), "threads": cpu_threads(), "subject": subject.name, "models": found}


def _data(subject: Subject, given: Path | None) -> Path | None:
    if not subject.data:
        if given is not None:
            raise InputError(f"--data {given}: `bench {subject.name}` reads no data; its items are made of {LEXICON}")
        return None
    try:
        return find(subject.data, given)
    except InputError:
        if given is not None:
            raise
        return None
