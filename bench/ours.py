"""The engine as a system: its reference model open, or a whole run whose model is open already."""

from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import numpy as np
import polars as pl

from ..engine.basics.choices import Precision, Task
from ..engine.basics.option import Opening
from ..engine.experiments.items import ITEMS_FILE
from ..engine.inference.causal import open_language_model
from ..engine.inference.cpu import CPU
from ..engine.inference.exported import ExportedModel, load_exported
from ..engine.runs.executors import ThisProcess
from ..engine.runs.loop import Execution, run_stage
from ..engine.runs.progress import Reporter
from ..engine.runs.stage import Stage
from .system import OURS, Answers, Choice, Items, Place, System, W

S = TypeVar("S", bound=Stage[Any, Any])


class Fp32(System[W]):
    """Our reference model, which is open before the clock starts; a subclass says what it does."""

    name, said = OURS, "batches of a fixed number of tokens on each core"
    ours = True

    def open(self, place: Place) -> None:
        self._exported = load_exported(place.exported)
        self._model = open_language_model(self._exported, place.device, threads=place.threads)


class OwnRun(System[Items[Any]]):
    """One of our commands: a whole run, with its run folder and all its files."""

    name = OURS
    ours = True

    def __init__(
        self,
        command: str,
        stage: Callable[[ExportedModel, Sequence[Any]], Stage[Any, Any]],  # it is pickled: a function of a module
        columns: Sequence[str],  # the columns of the items that are its answers
        task: Task | None = None,
        precision: Precision = Precision.AUTO,
    ) -> None:
        self.said = f"`negengine {command}`, with its run folder and results"
        self.stage, self._columns, self._task, self._precision = stage, list(columns), task, precision

    def open(self, place: Place) -> None:
        self.exported = load_exported(place.exported, task=self._task)
        options = Opening(str(place.device), self._precision, threads=place.threads)
        self.execution = Execution(ThisProcess(place.device), options, reporter=Reporter(silent=True))
        self.model = self.stage(self.exported, ()).open(options)

    def run(self, work: Items[Any], choice: Choice) -> Answers:  # noqa: ARG002
        return self.items(self.stage(self.exported, work.items)).to_numpy().astype(np.float64)

    def items(self, stage: Stage[Any, Any]) -> pl.DataFrame:
        """The answers' columns of the items of a run."""
        with TemporaryDirectory() as folder:
            run = Path(folder) / "run"
            run_stage(with_open_model(stage, self.model), run, self.execution)
            return pl.read_parquet(run / ITEMS_FILE, columns=self._columns).select(self._columns)


def with_open_model(stage: S, model: Any, **methods: Callable[..., Any]) -> S:
    """The same stage, which answers `open` with a model that it is given; further methods may be given, too."""
    kind = type(stage)
    own = {"open": lambda _self, _options: model, "__doc__": kind.__doc__, **methods}
    opened = type(kind.__name__, (kind,), own)
    made: S = opened(**{field.name: getattr(stage, field.name) for field in fields(stage)})  # type: ignore[arg-type]
    return made


def silently(stage: Stage[Any, Any], folder: Path) -> None:
    """Run a stage from end to end in this process."""
    run_stage(stage, folder, Execution(ThisProcess(CPU), reporter=Reporter(silent=True)))
