"""A run of the engine whose model is open already, with its run folder and all its files."""

from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from ....engine.basics.choices import Precision, Task
from ....engine.basics.option import Opening
from ....engine.inference.device import choose_device
from ....engine.inference.exported import load_exported
from ....engine.runs.executors import ThisProcess
from ....engine.runs.loop import Execution, run_stage
from ....engine.runs.progress import Reporter
from ....engine.runs.stage import Stage
from ...opened import with_open_model
from ..system import Choice, Place, System
from . import OURS

T = TypeVar("T")


class OwnRun(System[Any]):
    """Our engine, as a finished run; a subclass says which."""

    name = OURS
    ours = True
    command: str
    task: Task | None = None

    def __init__(self, precision: Precision = Precision.AUTO) -> None:
        self._precision = precision

    def about(self, choice: Choice) -> str:  # noqa: ARG002
        return f"`negengine {self.command}`, with its run folder and results"

    def open(self, place: Place) -> None:
        self.exported = load_exported(place.exported, task=self.task)
        self.options = Opening(str(place.device), self._precision, threads=place.threads)
        self.model = self.any_stage().open(self.options)

    @abstractmethod
    def any_stage(self) -> Stage[Any, Any]:
        """A stage that opens the model."""

    def finished(self, stage: Stage[Any, Any], read: Callable[[Path], T]) -> T:
        with TemporaryDirectory() as folder:
            run = Path(folder) / "run"
            run_stage(with_open_model(stage, self.model), run, self.execution)
            return read(run)

    @property
    def execution(self) -> Execution:
        return Execution(ThisProcess(choose_device(self.options.device)), self.options, reporter=Reporter(silent=True))
