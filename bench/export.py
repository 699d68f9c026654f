"""`negengine bench export`: time and peak memory of an export, beside plain Optimum on the same checkpoint.

Each export runs in a process of its own, whose peak memory the operating system tells.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from ..engine.basics.errors import InputError
from ..engine.views import Column, Table
from ..export.source import locate
from .shapes import SHAPES, cache_folder, random_checkpoint

# What runs in the process of its own, with the checkpoint and the folder to write.
_CODE = {
    "negengine": """
import sys
from pathlib import Path
from negengine.export.build import build
build(sys.argv[1], Path(sys.argv[2]))
""",
    "Optimum": """
import sys
from optimum.exporters.onnx import main_export
import negengine.export.optimum_trace  # with masks that can be traced
main_export(sys.argv[1], sys.argv[2], task="fill-mask", do_validation=False)
""",
}
SYSTEMS = tuple(_CODE)
_PEAK_UNIT = 1 if sys.platform == "darwin" else 1024  # bytes; ru_maxrss counts in kilobytes on Linux


def measure(
    models: Sequence[str], *, folder: Path | None = None, say: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """Export each model with each system, and give what each export took. Raises InputError if one fails."""
    folder = folder or cache_folder()
    costs = []
    for model in models:
        checkpoint = str(random_checkpoint(model, folder)) if model in SHAPES else locate(model).location
        for system in SYSTEMS:
            say(f"exporting {model} with {system}")
            costs.append(_measure_one(model, checkpoint, system, folder))
    return {"export": costs}


def table(found: Mapping[str, Any]) -> Table:
    """A row for each export."""
    columns = [
        Column("model", "model"),
        Column("system", "system"),
        Column("wall, s", "seconds", decimals=0, unit="s"),
        Column("CPU, s", "cpu_seconds", decimals=0, unit="s"),
        Column("peak, GB", "peak_bytes", decimals=2, scale=1e-9, unit="GB"),
        Column("disk, GB", "disk_bytes", decimals=2, scale=1e-9, unit="GB"),
    ]
    # ours are four: fp32, the same for CPUs, int8, fp16; Optimum checks nothing
    notes = ["Optimum writes one fp32 graph. negengine also writes int8 and fp16 graphs, and compares with PyTorch."]
    return Table("Export", pl.DataFrame(found["export"]), columns, section="model", notes=notes)


def _measure_one(model: str, checkpoint: str, system: str, folder: Path) -> dict[str, Any]:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="export.", dir=folder) as temporary, tempfile.TemporaryFile() as errors:
        output = Path(temporary) / "exported"
        command = [sys.executable, "-c", _CODE[system], checkpoint, str(output)]
        start = time.perf_counter()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors)
        try:
            _, status, used = os.wait4(process.pid, 0)
        except BaseException:
            process.kill()
            raise
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            errors.seek(0)
            last = errors.read().decode(errors="replace").strip().splitlines() or [f"status {process.returncode}"]
            raise InputError(f"{model} cannot be exported with {system}: {last[-1]}")
        disk = sum(path.stat().st_size for path in output.rglob("*") if path.is_file())
    return {
        "model": model,
        "system": system,
        "seconds": seconds,  # wall time, from the start of Python on
        "cpu_seconds": used.ru_utime + used.ru_stime,  # of all cores together
        "peak_bytes": used.ru_maxrss * _PEAK_UNIT,  # most memory at a time
        "disk_bytes": disk,  # of what it wrote
    }
