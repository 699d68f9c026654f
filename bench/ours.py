"""The engine as a system: its reference model is open before the clock starts."""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from ..engine.inference.causal import open_language_model
from ..engine.inference.devices.cpu import CPU
from ..engine.inference.exported import load_exported
from ..engine.inference.session import Device
from ..engine.runs.executors import ThisProcess
from ..engine.runs.loop import Execution, run_stage
from ..engine.runs.progress import Reporter
from ..engine.runs.stage import Stage
from .system import OURS, Place, System, W

S = TypeVar("S", bound=Stage[Any, Any])


class Fp32(System[W]):
    """Our reference model, which is open before the clock starts; a subclass says what it does."""

    name, said = OURS, "batches of a fixed number of tokens on each core"
    ours = True

    def open(self, place: Place) -> None:
        self._exported = load_exported(place.exported)
        self._model = open_language_model(self._exported, place.device, threads=place.threads)


def with_open_model(stage: S, model: Any, **methods: Callable[..., Any]) -> S:
    """The same stage, which answers `open` with a model that it is given; further methods may be given, too."""
    kind = type(stage)
    own = {"open": lambda _self, _options: model, "__doc__": kind.__doc__, **methods}
    opened = type(kind.__name__, (kind,), own)
    made: S = opened(**{field.name: getattr(stage, field.name) for field in fields(stage)})  # type: ignore[arg-type]
    return made


def silently(stage: Stage[Any, Any], folder: Path, device: Device = CPU) -> None:
    """Run a stage from end to end in this process."""
    run_stage(stage, folder, Execution(ThisProcess(device), reporter=Reporter(silent=True)))
