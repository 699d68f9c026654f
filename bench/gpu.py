"""`make gpu`: what a GPU does, by CUDA or WebGPU, measured in one command, as one JSON file.

Each step of `gpu_steps.py` runs in a process of its own with a limit of time, so a step that fails, crashes or hangs
does not stop the others. With `--rehearse` all steps run on the CPU with little work.
"""

import importlib
import json
import os
import pickle
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl

from ..engine.basics.atomic import json_bytes, write_bytes
from ..engine.basics.errors import InputError, shortened
from ..engine.inference.device import choose_device
from ..engine.inference.devices.cpu import CPU
from ..engine.inference.devices.webgpu import WebGpu
from ..engine.inference.session import Device
from ..engine.views import Column, Table
from .rounds import Effort, Say
from .shapes import cache_folder

MODELS = ("mini", "bert-base-shape")
DONE, NOT_HERE, FAILED = "done", "not here", "failed"
_LOG_LINES = 20
Found = dict[str, Any]  # JSON values, whose keys say what they are and in which unit


class NotHere(Exception):  # noqa: N818 - it is not an error
    """A step has nothing to measure here; the message says why."""


@dataclass(frozen=True)
class Amount:
    """How much is measured."""

    compared: int = 2_048  # sentences whose decisions are compared with those of the CPU
    candidates: int = 1_000_000  # candidates of the selection at most
    seconds: float = 45.0  # that the selection of one model is to take
    baselines: Effort = Effort(rounds=2, seconds=4, tried=4_096, fewest=2_000, most=500_000)  # noqa: RUF009 - frozen


# So little that all steps end in a few minutes on two cores, and parity on a software device.
REHEARSAL = Amount(8, 100, 1.0, Effort(rounds=1, seconds=0.1, tried=32, fewest=16))


@dataclass(frozen=True)
class Setting:
    """What a step is given."""

    device: Device
    models: tuple[str, ...]  # as `negengine bench` takes them; after the step `export`, those that it exported
    cache: Path  # a folder for checkpoints, exports, and files that baselines make
    amount: Amount = Amount()


@dataclass(frozen=True)
class Step:
    """One step."""

    name: str  # what it is called in the JSON file
    function: str  # `module:function`, from `Setting` to JSON values
    about: str  # what it shows, in a line
    minutes: float  # when it is stopped
    needs_models: bool = True  # whether it needs exported models


EXPORT = "export"
_HERE = "negengine.bench.gpu_steps"
STEPS = (
    Step("environment", f"{_HERE}:environment", "device, driver, versions", 1, needs_models=False),
    Step(EXPORT, f"{_HERE}:export", "the models, exported", 5, needs_models=False),
    Step("placement", f"{_HERE}:placement", "where each operator runs, and which kernel attention takes", 2),
    Step("kernels", f"{_HERE}:kernels", "time by kind of kernel, measured and simulated", 2),
    Step("parity", f"{_HERE}:parity", "decisions in fp32, fp16 and mixed beside fp32 on the CPU", 3),
    Step("selection", f"{_HERE}:selection", "candidates selected, beside the ceiling of the products", 4),
    Step("baselines", f"{_HERE}:baselines", "PyTorch, torch.compile, Optimum, on CUDA", 6),
)


def measure(
    models: Sequence[str], output: Path, say: Say, *, device: str = "auto", rehearse: bool = False,
    minutes: float | None = None, steps: Sequence[Step] = STEPS, cache: Path | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Run all steps and give what the file holds; they take 10 minutes at most, 16 where there are baselines.

    Raises InputError if the device does not exist, or is the CPU and this is not a rehearsal, or the file cannot be
    written.
    """
    chosen = CPU if rehearse else choose_device(device)
    if chosen == CPU and not rehearse:
        said = "no GPU was found; `negengine doctor` says what is missing, --rehearse runs all steps on the CPU"
        raise InputError(f"bench gpu: {said}")
    if chosen.is_software:
        say(f"{chosen} is software: its results are compared, and nothing is timed")
    models = models or (MODELS[:1] if chosen.is_software else MODELS)
    amount = REHEARSAL if rehearse or chosen.is_software else Amount()
    setting = Setting(chosen, tuple(models), cache or cache_folder(), amount)
    if minutes is None:
        minutes = 10 if chosen.kind == WebGpu.kind else 16
    began = time.monotonic()
    document: dict[str, Any] = {
        "negengine gpu": 1,
        "began": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": " ".join(["negengine", *sys.argv[1:]]),
        "device": str(setting.device),
        "software": chosen.is_software,
        "rehearsal": rehearse,
        "models": list(models),
        "steps": {},
    }
    write_bytes(output, json_bytes(document))
    for step in steps:
        say(f"{step.name}: {step.about}")
        started = time.monotonic()
        limit = min(60 * step.minutes, began + 60 * minutes - started)
        if limit <= 0:
            found: Found = {"status": FAILED, "why": "the time was over before it began"}
        elif step.needs_models and not setting.models:
            found = {"status": FAILED, "why": "no model was exported"}
        else:
            found = _in_process(step, setting, limit)
        found["seconds"] = round(time.monotonic() - started, 2)
        document["steps"][step.name] = found
        document["minutes"] = round((time.monotonic() - began) / 60, 2)
        write_bytes(output, json_bytes(document))
        reason = f": {found['why']}" if "why" in found else ""
        say(f"{step.name}: {found['status']} after {found['seconds']:.0f} s{reason}")
        if step.name == EXPORT:
            exported = found["found"]["models"] if found["status"] == DONE else ()
            setting = replace(setting, models=tuple(model["name"] for model in exported))
    return document


def _in_process(step: Step, setting: Setting, limit: float) -> Found:
    with TemporaryDirectory() as temporary:
        given, result, log = (Path(temporary) / name for name in ("setting", "result.json", "log.txt"))
        given.write_bytes(pickle.dumps(setting))
        words = [sys.executable, "-m", "negengine.bench.gpu", str(given), step.function, str(result)]
        with log.open("wb") as stream:
            process = subprocess.Popen(words, stdout=stream, stderr=stream, start_new_session=True)
            try:
                status = process.wait(limit)
            except BaseException as stopped:
                if hasattr(os, "killpg"):  # and all that it has started
                    os.killpg(process.pid, signal.SIGKILL)
                else:
                    process.kill()
                process.wait()
                if not isinstance(stopped, subprocess.TimeoutExpired):
                    raise
                return {"status": FAILED, "why": f"stopped after {limit:.0f} s", "log": _tail(log)}
        if not result.exists():
            return {"status": FAILED, "why": f"its process ended with status {status}", "log": _tail(log)}
        found: Found = json.loads(result.read_bytes())
        return found if found["status"] in {DONE, NOT_HERE} else {**found, "log": _tail(log)}


def _tail(log: Path) -> list[str]:
    lines = log.read_text("utf-8", errors="replace").splitlines()
    return [shortened(line) for line in lines[-_LOG_LINES:]]


def table(document: Mapping[str, Any]) -> Table:
    """One row for each step: how it ended, after how many seconds, and the reason where it did not run."""
    rows = [
        {"step": name, "status": found["status"], "seconds": found["seconds"], "why": found.get("why", "")}
        for name, found in document["steps"].items()
    ]
    columns = [
        Column("step", "step", wrap=False),
        Column("status", "status", wrap=False),
        Column("seconds", "seconds", decimals=1, wrap=False),
        Column("why", "why"),
    ]
    what = "Rehearsal" if document["rehearsal"] else "Comparisons" if document["software"] else "Measurements"
    return Table(f"{what} on {document['device']}", pl.DataFrame(rows), columns)


def failed(document: Mapping[str, Any]) -> list[str]:
    """The steps that failed."""
    return [name for name, found in document["steps"].items() if found["status"] == FAILED]


def run_step(setting: str, function: str, result: str) -> None:
    """In the process of a step: run it, and write its status and what it found."""
    given = pickle.loads(Path(setting).read_bytes())  # noqa: S301 - from the parent
    module, _, name = function.partition(":")
    found: Found
    try:
        found = {"status": DONE, "found": getattr(importlib.import_module(module), name)(given)}
    except NotHere as reason:
        found = {"status": NOT_HERE, "why": str(reason)}
    except Exception as error:  # noqa: BLE001 - whatever a step raises is a line of the result
        traceback.print_exc()
        found = {"status": FAILED, "why": f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"}
    Path(result).write_text(json.dumps(found, ensure_ascii=False), "utf-8")


if __name__ == "__main__":
    # The steps import this module by its name, so its own classes must be those of that name.
    importlib.import_module("negengine.bench.gpu").run_step(*sys.argv[1:])
