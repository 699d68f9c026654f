"""A selection whose decider is open already, so that only its own time is measured."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ..engine.choices import Precision
from ..engine.experiments.negation.select import Selection
from ..engine.inference.device import CPU
from ..engine.inference.model import Decider
from ..engine.inference.precision import Models
from ..engine.runs.executors import ThisProcess
from ..engine.runs.loop import Execution, run_stage
from ..engine.runs.masked_stages import PatternDeciders
from ..engine.runs.progress import Reporter
from ..engine.runs.stage import ModelOptions


@dataclass(frozen=True, eq=False)
class _Decided(Selection):
    """A selection by one decider."""

    models: Models  # stand for the opened models; nothing but their deciders is asked
    decider: Decider  # decides the selecting pattern

    def open(self, options: ModelOptions) -> PatternDeciders:  # noqa: ARG002
        return PatternDeciders(self.models, Precision.FP32, {self.patterns.selecting.name: self.decider})

    def describe(self, model: PatternDeciders) -> Mapping[str, Any]:  # noqa: ARG002
        return {}

    def calibrate(self, *_: Any) -> dict[str, Any]:
        return {}

    def use(self, model: PatternDeciders, calibration: Mapping[str, Any]) -> PatternDeciders:  # noqa: ARG002
        return model


def run_selection(selection: Selection, models: Models, decider: Decider, folder: Path) -> None:
    """Run a selection from end to end."""
    own = {field.name: getattr(selection, field.name) for field in fields(Selection)}
    stage = _Decided(**own, models=models, decider=decider)
    run_stage(stage, folder, Execution(ThisProcess(CPU), reporter=Reporter(silent=True)))
