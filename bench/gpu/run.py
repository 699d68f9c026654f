"""Run the steps one after the other, each in a process of its own, keep what they found, and make a table of it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import polars as pl

from ...engine.basics.atomic import json_bytes, write_bytes
from ...engine.basics.errors import InputError, shortened
from ...engine.inference.device import CPU, choose_device
from ...engine.views import Column, Table
from .. import shapes
from .child import DONE, FAILED, NOT_HERE
from .setting import EXPORT, REHEARSAL, STEPS, Amount, Model, Setting, Step

MINUTES = 25.0
MODELS = ("mini", "bert-base-shape")
_LOG_LINES = 20
Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """What is measured."""

    models: Sequence[str] = MODELS  # as `negengine bench` takes them
    device: str = "cuda"  # as for `choose_device`; a rehearsal runs on the CPU
    rehearse: bool = False  # whether all steps run with little work on the CPU
    minutes: float = MINUTES  # when everything is stopped
    steps: Sequence[Step] = STEPS
    cache: Path | None = None  # for checkpoints and exports; in the user's cache by default

    def setting(self) -> Setting:
        """What the first step is given. Raises InputError without the device, or on the CPU without a rehearsal."""
        device = CPU if self.rehearse else choose_device(self.device)
        if device == CPU and not self.rehearse:
            raise InputError("bench gpu: measures CUDA devices; give --rehearse to run all its steps on the CPU")
        amount = REHEARSAL if self.rehearse else Amount()
        return Setting(device.kind, device.index, tuple(self.models), str(self.cache or shapes.cache_folder()), amount)


def measure(plan: Plan, output: Path, say: Say) -> dict[str, Any]:
    """Run all steps, and give what the file holds. Raises InputError without the device, or if writing fails."""
    setting, began = plan.setting(), time.monotonic()
    until = began + 60 * plan.minutes
    document: dict[str, Any] = {
        "negengine gpu": 1,
        "began": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": " ".join(["negengine", *sys.argv[1:]]),
        "device": str(setting.device),
        "rehearsal": plan.rehearse,
        "models": list(plan.models),
        "steps": {},
    }
    _write(output, document)
    for step in plan.steps:
        say(f"{step.name}: {step.about}")
        found = _step(step, setting, until)
        document["steps"][step.name] = found
        document["minutes"] = round((time.monotonic() - began) / 60, 2)
        _write(output, document)
        say(f"{step.name}: {found['status']} after {found['seconds']:.0f} s{_reason(found)}")
        if step.name == EXPORT and found["status"] == DONE:
            models = tuple(msgspec.convert(model, Model) for model in found["found"]["models"])
            setting = msgspec.structs.replace(setting, models=models)
    return document


def _write(output: Path, document: dict[str, Any]) -> None:
    write_bytes(output, json_bytes(document))


def _reason(found: dict[str, Any]) -> str:
    return f": {found['why']}" if "why" in found else ""


def _step(step: Step, setting: Setting, until: float) -> dict[str, Any]:
    began = time.monotonic()
    limit = min(60 * step.minutes, until - began)
    if limit <= 0:
        found = {"status": FAILED, "why": "the time was over before it began"}
    elif step.needs_models and not setting.models:
        found = {"status": FAILED, "why": "no model was exported"}
    else:
        found = _in_process(step, setting, limit)
    return {**found, "seconds": round(time.monotonic() - began, 2)}


def _in_process(step: Step, setting: Setting, limit: float) -> dict[str, Any]:
    with TemporaryDirectory() as temporary:
        given, result, log = (Path(temporary) / name for name in ("setting.json", "result.json", "log.txt"))
        given.write_bytes(msgspec.json.encode(setting))
        words = [sys.executable, "-m", f"{__package__}.child", str(given), step.function, str(result)]
        with log.open("wb") as stream:
            process = subprocess.Popen(words, stdout=stream, stderr=stream, start_new_session=True)
            try:
                status = process.wait(limit)
            except BaseException as stopped:
                _kill(process)
                if not isinstance(stopped, subprocess.TimeoutExpired):
                    raise
                return {"status": FAILED, "why": f"stopped after {limit:.0f} s", "log": _tail(log)}
        if not result.exists():
            return {"status": FAILED, "why": f"its process ended with status {status}", "log": _tail(log)}
        found: dict[str, Any] = json.loads(result.read_bytes())
        return found if found["status"] in {DONE, NOT_HERE} else {**found, "log": _tail(log)}


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """End a process and all that it has started."""
    if hasattr(os, "killpg"):
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()


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
    what = "Rehearsal" if document["rehearsal"] else "Measurements"
    return Table(f"{what} on {document['device']}", pl.DataFrame(rows), columns)


def failed(document: Mapping[str, Any]) -> list[str]:
    """The steps that failed."""
    return [name for name, found in document["steps"].items() if found["status"] == FAILED]
