"""The loop that runs any stage, on any executor, in any run folder; all checks come before a model is opened."""

import importlib
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..basics.choices import Precision
from ..basics.errors import InputError
from ..basics.interrupts import end_waits
from ..basics.option import Opening
from ..basics.printable import counted
from ..inference import tally
from ..inference.precision import widened
from ..inference.session import give_back_freed_memory
from .executors import Executor
from .folder import RunFolder
from .part import EncodedPart
from .progress import Reporter
from .record import Session, StageRecord, used_models
from .shard import Shard
from .stage import Stage, full_identity


@dataclass(frozen=True, eq=False)
class Execution:
    """How a stage runs: the executor, model options, the shard, and messages."""

    executor: Executor  # where parts are decided
    options: Opening = field(default_factory=Opening)  # how models are opened; the executor sets the device
    shard: Shard = field(default_factory=Shard)  # the share of the parts to do
    reporter: Reporter = field(default_factory=Reporter)
    session: Session = field(default_factory=Session)  # what is recorded of this process, such as the command line
    origin: Mapping[str, Any] = field(default_factory=dict)  # what is recorded of the stage: the call and the export
    started: float = field(default_factory=time.monotonic)  # when the command began
    replaces: bool = False  # whether a folder of another run gets another name, rather than being refused


def run_stage(
    stage: Stage[Any, Any], folder: Path, execution: Execution, *, earlier: Mapping[str, Path] | None = None
) -> None:
    """Run a stage, or its unfinished parts, and write its results; InputError for another run's folder."""
    end_waits()
    metadata, parts = {**execution.origin, **stage.metadata}, len(stage.sizes)
    with RunFolder.create_or_resume(
        folder,
        stage.name,
        StageRecord.begun(full_identity(stage), execution.shard, metadata, parts),
        beside=stage.beside,
        kept=execution.origin,
        session=execution.session,
        started=execution.started,
        replaces=execution.reporter.say if execution.replaces else None,
    ) as run:
        for name, source in (earlier or {}).items():
            is_here = source.resolve() == folder.resolve()
            run.carry_stage(run.aside if is_here and run.aside is not None else source, name)
        if run.is_finished:
            execution.reporter.detail(f"{folder}: {stage.name} is finished already")
            return
        if run.missing_parts or run.narrower_parts(run.needed_bounds()):
            _decide(stage, run, execution)
            give_back_freed_memory()  # that of the model
        run.finish(stage.publish)


def _decide(stage: Stage[Any, Any], run: RunFolder, execution: Execution) -> None:
    """Decide the missing parts. Until the first sentence runs, the meter shows what is being prepared."""
    reporter, sizes = execution.reporter, stage.sizes
    whole, todo = (sum(sizes[number] for number in which) for which in (run.parts, run.missing_parts))
    with ExitStack() as stack:
        stack.enter_context(tally.own(reporter.say))
        meter = stack.enter_context(reporter.meter(stage.name, whole, whole - todo, unit=stage.unit))
        for note in stage.notes:
            reporter.say(note)
        with meter.doing("checking the sentences"):
            stage.check(reporter.detail)
        import_ahead(stage.libraries)
        recorded, options = run.choices, execution.options
        if recorded is not None:
            given, own = options.batch_tokens, recorded.batch_tokens
            # a calibration belongs to its batches; fp32 alone does not
            is_mixed = any(choice.get("precision") == Precision.MIXED for choice in recorded.calibration.values())
            if given not in {None, own} and is_mixed:
                own_words = "none" if own is None else own
                raise InputError(
                    f"--batch-tokens {given}: this run was started in mixed precision with --batch-tokens {own_words}, "
                    f"which cannot change: give {own_words}, or choose another --output"
                )
            options = replace(options, batch_tokens=own if given is None else given)
        with meter.doing("opening the model"):
            workers = stack.enter_context(execution.executor.start(stage, options, reporter.detail))
        with meter.doing("choosing the precision") if recorded is None and stage.calibrates else nullcontext():
            choices = recorded or replace(workers.choose(reporter.detail), batch_tokens=options.batch_tokens)
        used_models(run.session, workers.descriptions, choices)

        def finish(number: int, part: EncodedPart) -> None:  # workers of a cluster may join later
            used_models(run.session, workers.descriptions, choices)
            run.write_part(number, part)

        if recorded is None:
            choices = run.set_choices(choices)
        workers.run(run.missing_parts, choices, finish, meter.advance)
        while narrower := run.narrower_parts(needed := run.needed_bounds()):
            reporter.say(
                f"{stage.name}: an audit found a wrong decision; {counted(len(narrower), 'part is', 'parts are')} "
                "decided again"
            )
            meter.extend(sum(sizes[number] for number in narrower))
            wider = {
                pattern: widened(choice, needed.get(pattern, 0.0)) for pattern, choice in choices.calibration.items()
            }
            workers.run(narrower, replace(choices, calibration=wider), finish, meter.advance)


def import_ahead(names: Sequence[str]) -> None:
    """Import modules in a thread while the model is opened. One that fails is imported again where it is used."""

    def load() -> None:
        for name in names:
            with suppress(ImportError):
                importlib.import_module(name)

    # ONNX Runtime opens a graph in one thread and releases Python's lock, so a second core has nothing else to do.
    threading.Thread(target=load, name="import", daemon=True).start()  # an interrupted run does not wait for it
