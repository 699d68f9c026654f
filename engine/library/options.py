"""The options of all run functions, and the execution that they describe."""

import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypedDict, cast

from ..basics.option import Opening, OpeningOptions, options_of
from ..basics.paths import shell_command, without_home
from ..inference.device import refuse_fp32
from ..runs.divided import refuse_other_division
from ..runs.executors import Executor, ThisProcess
from ..runs.loop import Execution
from ..runs.processes import Processes
from ..runs.progress import Reporter
from ..runs.record import PYTHON, Session
from ..runs.results import command_for
from ..runs.shard import AUTO, Shard, find_shard, is_automatic
from .model import Model, opening_of

RUNS = Path("runs")


class RunOptions(TypedDict, total=False):
    """Keyword arguments of every run function.

    Attributes:
        output: The run folder; `runs/MODEL` with the probe's name by default. An unfinished run in it is resumed.
        shard: `I/N`: do the I-th of N shards; `merge` puts them together. `auto` or `auto:FIRST-LAST`: the shard that
            the batch system names; the folder's name gets `-I-of-N` then. See `negengine.engine.runs.shard`.
        executor: Where parts run; the model's devices by default.
        replace: Whether another run in the folder, such as one of an older table, is kept under the name `RUN.1`.
            Without it, such a folder is refused.
        progress: Whether to show how far the run is.
        verbose: Whether to print more messages.
        command: The command line for run.json; by default the script that runs.
        again: The same without --shard and --output, where the run function has a command of its own.
        went_on_from: The word of `again` that is a run folder: the run that this one goes on from.
        call: How the run function was called, for run.json; `recorded` sets it.
        started: When the work began, in seconds of `time.monotonic`; by default the moment when the run function has
            planned it.
    """

    output: str | Path | None
    shard: str | None
    executor: Executor | None
    replace: bool
    progress: bool
    verbose: bool
    command: str
    again: str
    went_on_from: str | None
    call: dict[str, Any]
    started: float


class AllOptions(RunOptions, OpeningOptions, total=False):
    """Keyword arguments of functions that run, and find their models by name or folder."""


def divided(options: AllOptions) -> tuple[OpeningOptions, RunOptions]:
    """What is said of how models are opened, and the run options. Raises InputError if a device does not exist."""
    names = options_of(Opening)
    opening = cast("OpeningOptions", {name: value for name, value in options.items() if name in names})
    if opening:
        opening_of(opening)
    return opening, cast("RunOptions", {name: value for name, value in options.items() if name not in names})


def execution(model: Model, options: RunOptions) -> Execution:
    """Where and how a run function works; an InputError if the shard is not one, or the batch system names none."""
    executor = options.get("executor")
    if executor is None:
        executor = ThisProcess(model.devices[0]) if len(model.devices) == 1 else Processes(model.devices)
    exported, devices = model.exported, ",".join(map(str, model.devices))
    if device := getattr(executor, "device", None):  # a cluster decides where the model runs, not this machine
        if model.opening.is_exact:
            refuse_fp32(str(device))
        devices = str(device)
    again = options.get("again")
    line = PYTHON  # in a notebook, or at the prompt
    if again:
        line = explicit(again, options.get("shard"), options.get("output"))
    elif sys.argv and sys.argv[0] not in {"", "-c", "-m"} and "ipykernel" not in sys.argv[0]:
        line = shell_command([PYTHON, *sys.argv])
    made_with = {
        "folder": without_home(exported.folder.resolve()),
        "task": exported.task,
        **asdict(model.opening),
        "device": devices,
    }
    export = {
        "name": exported.name,
        "revision": exported.revision,
        "family": exported.family,
        "files": dict(exported.info["files"]),
        "parameters": exported.info.get("parameters"),
        "licence": exported.info.get("licence"),
        "made from": {key: value for key, value in exported.info["made_from"].items() if key != "revision"},
    }
    return Execution(
        executor=executor,
        options=model.opening,
        shard=shard_of(options),
        reporter=Reporter(verbose=options.get("verbose", False), silent=not options.get("progress", True)),
        session=Session(command=options.get("command") or line, again=again, run=options.get("went_on_from")),
        origin={"call": {**options.get("call", {}), "model": made_with}, "export": export},
        started=options.get("started") or time.monotonic(),
        replaces=options.get("replace", False),
    )


def shard_of(options: RunOptions) -> Shard:
    """The shard to do, by default the whole run."""
    return find_shard(options.get("shard") or "1/1")


def run_folder(model: Model, options: RunOptions, probe: str = "") -> Path:
    """The run folder: as given, or `runs/MODEL-PROBE-I-of-N`; the main job's has no probe."""
    return folder_of(options, RUNS / f"{model.name}{'-' if probe else ''}{probe}")


def folder_of(options: RunOptions, whole: Path) -> Path:
    """The run folder: as given, or that of a whole run, with the shard's suffix, also if `auto` names the shard.

    Raises InputError if the shard was guessed from a job array, and the run has been divided in another way before.
    """
    shard = shard_of(options)
    given = options.get("output")
    if given and not is_automatic(options.get("shard") or ""):
        return Path(str(given))
    base = Path(str(given)) if given else whole
    if options.get("shard") == AUTO:  # the environment alone says how many there are
        refuse_other_division(base, shard)
    return with_suffix(base, shard)


def with_suffix(base: Path, shard: Shard) -> Path:
    """The folder of a shard: `runs/NAME-I-of-N`."""
    if shard.is_whole:
        return base
    named = base if base.name not in {"", ".."} else base.resolve()
    return named.with_name(f"{named.name}{shard.suffix}")


def explicit(again: str, shard: str | None, output: str | Path | None, *, shares_folder: bool = False) -> str:
    """A command line with the shard and the folder of this process: `--shard auto` becomes I/N."""
    own = find_shard(shard or "1/1")
    if output is not None and is_automatic(shard or "") and not shares_folder:
        output = with_suffix(Path(output), own)
    return command_for(again, output, own if shard else None)
