"""Stages of pure Python for the tests of run folders, the loop and the executors.

Worker processes and killed processes import this module, so it imports no test library.
"""

import os
import signal
import time
from collections.abc import Container, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import polars as pl
from negengine.engine.basics.errors import InputError
from negengine.engine.basics.option import Opening
from negengine.engine.inference import tally
from negengine.engine.inference.devices.cpu import CPU
from negengine.engine.runs.executors import ThisProcess
from negengine.engine.runs.folder import RunFolder
from negengine.engine.runs.loop import Execution, run_stage
from negengine.engine.runs.part import EncodedPart
from negengine.engine.runs.progress import Reporter
from negengine.engine.runs.record import StageRecord, read_run
from negengine.engine.runs.shard import Shard
from negengine.engine.runs.stage import Files, FinishedParts, PartResult, Stage

IDENTITY = {"model sha256": "ab" * 32, "seed": 0, "pairs": None}
PARTS = 3
CALIBRATION = -1  # stands for a part


def rows(number: int) -> pl.DataFrame:
    return pl.DataFrame({"part": [number] * (number + 2), "verb": [f"verb {i}" for i in range(number + 2)]})


def part(number: int, **more: Any) -> EncodedPart:
    return EncodedPart.of(PartResult(rows(number), {"tested": 10 + number}, **more))


def publish(parts: FinishedParts) -> Files:
    return {"triplets.parquet": parts.rows, "selection.json": dict(parts.counts)}


def hold(folder: Path, stage: str = "select", *, identity: Any = None, parts: int = PARTS, **options: Any) -> Any:
    shard, origin = options.pop("shard", Shard()), options.pop("origin", {})
    metadata = {**origin, **options.pop("metadata", {})}
    new = StageRecord.begun(identity or IDENTITY, shard, metadata, parts)
    beside = {"beside": ("select", "score", "agreement", "verify")}
    return RunFolder.create_or_resume(folder, stage, new, kept=origin, **beside | options)


def everything(folder: Path, but: Container[str] = (".lock",)) -> dict[str, bytes]:
    """All files of a run but the lock, which tells a process."""
    paths = [path for path in folder.rglob("*") if path.is_file() and path.relative_to(folder).parts[0] not in but]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def results(folder: Path) -> dict[str, bytes]:
    """Those that do not tell times and processes."""
    return everything(folder, (".lock", "run.json", "sessions"))


def work(folder, stage="select", *, upto=float("inf"), publish=publish, selection=None, **options: Any) -> Path:
    """What a run does: the missing parts with smaller numbers than `upto`; then, if there are all, the final files."""
    with hold(folder, stage, **options) as run:
        if selection is not None:
            run.carry_stage(selection, "select")
        for number in run.missing_parts:
            if number < upto:
                run.write_part(number, part(number))
        if not run.missing_parts:
            run.finish(publish)
    return folder


def run(stage: Any, folder: Path, executor: Any = None, *, reporter: Reporter | None = None, **options: Any) -> Path:
    """Run a stage, in this process or elsewhere."""
    reporter = reporter or Reporter(silent=True)
    run_stage(stage, folder, Execution(executor or ThisProcess(CPU), reporter=reporter, **options))
    return folder


def record(folder: Path, stage: Any) -> StageRecord:
    return read_run(folder).stages[stage.name]


def watched() -> tuple[Reporter, list[str]]:
    """A reporter, and the list of what it says."""
    reporter, said = Reporter(silent=True), list[str]()
    reporter.say = reporter.detail = said.append  # type: ignore[method-assign]
    return reporter, said


@dataclass(frozen=True)
class Squares(Stage[dict[str, Any], int]):
    """Squares of numbers; a part is a number. What goes wrong, and where, is not part of the identity."""

    name: ClassVar[str] = "squares"
    parts: int = 4  # how many there are
    seed: int = 0  # something that decides the rows
    fault: str = ""  # what happens in the part `at`, in the calibration, or in `open` or `check`
    at: int = 1
    # for `hang`: a pipe that is opened in the part `at`; a fault `… once` notes beside it that it was met
    fifo: str = ""
    note: Mapping[str, Any] = field(default_factory=dict)

    @property
    def identity(self) -> Mapping[str, Any]:
        return {"seed": self.seed}

    @property
    def metadata(self) -> Mapping[str, Any]:
        return self.note

    @property
    def sizes(self) -> Sequence[int]:
        return [number + 1 for number in range(self.parts)]

    def check(self, say: Any) -> None:
        say("checked")
        if self.fault == "check":
            raise InputError("the sentence is too long")

    def open(self, options: Opening) -> dict[str, Any]:
        if self.fault == "open":
            raise InputError(f"{options.device} has no memory")
        if self.fault == "kill one worker":
            _kill_one_worker(Path(self.fifo))
        return {"device": str(options.device), "threads": options.threads, "batch tokens": options.batch_tokens}

    def describe(self, model: dict[str, Any]) -> Mapping[str, Any]:
        return {"device": model["device"], "threads": model["threads"]}

    def calibrate(self, model: dict[str, Any], say: Any) -> dict[str, Any]:
        if self.at == CALIBRATION and self.fault:
            _go_wrong(self.fault, self.fifo)
        say("calibrated")
        return {"Cp": {"precision": "fp32"}, "Cn": {"precision": "mixed", "bound": 0.5}}

    def prepare(self, number: int) -> int:
        return number + self.seed

    def decide(self, model: Any, number: int, prepared: int | None, advance: Any) -> PartResult:
        if number == self.at and self.fault:
            _go_wrong(self.fault, self.fifo)
        base = number + self.seed if prepared is None else prepared
        advance(number + 1, number + 1)
        print("a library that prints on stdout")  # noqa: T201
        return PartResult(pl.DataFrame({"number": [number] * 3, "square": [base * base + i for i in range(3)]}))

    @staticmethod
    def publish(parts: FinishedParts) -> Files:
        return {"squares.parquet": parts.rows, "squares.json": {**parts.counts, **parts.metadata}}


class Unreadable(Squares):
    """A stage that another process cannot read."""

    def __reduce__(self) -> Any:
        return int, ("this stage cannot be unpickled",)


def _kill_one_worker(chosen: Path) -> None:
    """Kill all processes of the actor of Ray that comes first."""
    import ray

    own = ray.get_runtime_context().get_actor_id()
    with suppress(FileExistsError), chosen.open("x") as stream:
        stream.write(own)
    if chosen.read_text() == own:
        os.kill(os.getpid(), signal.SIGKILL)


def _go_wrong(fault: str, fifo: str) -> None:
    if fault.endswith(" once"):  # where a first process met the fault, a later one does not
        try:
            Path(f"{fifo}.met").touch(exist_ok=False)
        except FileExistsError:
            return
        fault = fault.removesuffix(" once")
    if fault == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
        while True:  # another thread takes the signal: until then this one goes on
            time.sleep(60)
    if fault in {"kill", "kill machine"}:  # its parent is the process that stands for a machine of Ray
        os.kill(os.getppid() if fault == "kill machine" else os.getpid(), signal.SIGKILL)
    if fault == "exit":
        os._exit(3)
    errors = {"refuse": InputError("--batch-tokens 16: too few"), "interrupt": KeyboardInterrupt()}
    errors["fail"] = ZeroDivisionError("nobody expected this")
    if fault in errors:
        raise errors[fault]
    if fault == "hang":
        held = os.open(fifo, os.O_WRONLY)  # closed by the end of the process alone
        os.write(held, str(os.getpid()).encode())
        while True:
            signal.pause()


@dataclass(frozen=True)
class Margins(Stage[float, None]):
    """Parts whose audits ask for margins; what a part gives depends on the margin that decided it."""

    name: ClassVar[str] = "margins"
    asks: tuple[float, ...]  # the margin that the audit of each part asks for, if a narrower one decided
    own_bound: float = 0.5  # the margin of the calibration

    @property
    def identity(self) -> Mapping[str, Any]:
        return {"asks": list(self.asks)}

    @property
    def sizes(self) -> Sequence[int]:
        return [1] * len(self.asks)

    def open(self, options: Opening) -> float:
        return 0.0

    def calibrate(self, model: float, say: Any) -> dict[str, Any]:
        return {"Cp": {"precision": "mixed", "bound": self.own_bound}}

    def use(self, model: float, calibration: Mapping[str, Any]) -> float:
        return float(calibration["Cp"]["bound"])

    def decide(self, model: float, number: int, prepared: None, advance: Any) -> PartResult:
        needed = self.asks[number] if self.asks[number] > model else 0.0
        frame = pl.DataFrame({"part": [number], "bound": [model]})
        return PartResult(frame, {"audited": 1}, {"Cp": model}, {"Cp": needed})

    @staticmethod
    def publish(parts: FinishedParts) -> Files:
        return {"margins.parquet": parts.rows, "margins.json": dict(parts.counts)}


class InterruptedAfter(ThisProcess):
    """This process as executor, with Ctrl-C once a number of parts are finished."""

    def __init__(self, parts: int) -> None:
        super().__init__(CPU)
        object.__setattr__(self, "left", [parts])

    @contextmanager
    def start(self, stage: Any, options: Opening, say: Any) -> Any:
        with super().start(stage, options, say) as workers:

            def run(numbers: Any, choices: Any, finish: Any, advance: Any) -> None:
                def finish_and_count(number: int, part: EncodedPart) -> None:
                    if not self.left[0]:
                        raise KeyboardInterrupt
                    self.left[0] -= 1
                    finish(number, part)

                workers.run(numbers, choices, finish_and_count, advance)

            yield SimpleNamespace(descriptions=workers.descriptions, choose=workers.choose, run=run)


class Batched(Squares):
    """Squares whose rows tell the size of the batches that computed them."""

    name: ClassVar[str] = "batched"

    def decide(self, model: Any, number: int, prepared: int | None, advance: Any) -> PartResult:
        rows = super().decide(model, number, prepared, advance).rows
        return PartResult(rows.with_columns(tokens=pl.lit(model["batch tokens"] or 0)))


class Counted(Squares):
    """Squares whose model counts what it runs: as many sentences as the part's size, of seven tokens each."""

    name: ClassVar[str] = "counted"

    def decide(self, model: Any, number: int, prepared: int | None, advance: Any) -> PartResult:
        tally.count(self.sizes[number], 7)
        return super().decide(model, number, prepared, advance)
