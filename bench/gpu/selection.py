"""The main job on the device: a million candidates, and the whole lazy test set."""

import math
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ...engine.experiments.negation.select import Selection, Settings
from ...engine.inference.model import MaskedLM
from ...engine.inference.precision import Models
from ...engine.runs.record import read_run
from ..ceiling import product_rates
from ..main_job import candidates, main_job
from ..parts import run_selection
from ..run import CANDIDATES, least
from .monitor import watched
from .points import low_precision_graph
from .setting import Found, Model, NotHere, Setting

_ROWS = 16_384  # of the products that the peak is measured with
_GOAL = 60.0  # seconds for all candidates of bert-base, on one H200


def selection(setting: Setting) -> Found:
    """Model → rate of a selection from its start to its results, and the shares of device and host."""
    return {"goal, seconds for 10.9 M of bert-base": _GOAL} | {
        model.name: _selected(model, setting) for model in setting.models
    }


def lazy(setting: Setting) -> Found:
    """Model with real weights → the lazy selection of its test set. Raises NotHere if no model has real weights."""
    real = [model for model in setting.models if not model.is_random]
    if not real:
        raise NotHere("all models have random weights")
    pairs = setting.amount.lazy_pairs
    words = ["--lazy", *([] if pairs is None else ["--pairs", str(pairs)])]
    return {model.name: _command(model, setting, words)[0] for model in real}


def _selected(model: Model, setting: Setting) -> dict[str, Any]:
    job = main_job(model.exported)
    pairs = math.ceil(setting.amount.candidates / job.verbs[0].grid.verbs)
    if model.is_random:  # almost every decision would be a close call, so the low-precision graph decides alone
        found, sentences = _alone(model, setting, pairs)
    else:
        found, sentences = _command(model, setting, ["--pairs", str(pairs)])
    sizes = model.exported.info["hidden_size"], model.exported.info["intermediate_size"]
    kind = "int8" if setting.kind == "cpu" else "fp16"
    peak = max(product_rates(setting.device, min(_ROWS, max(setting.amount.batch_tokens)), *sizes, kind).values())
    flops = least(model.exported, candidates(job, 1_000).length)
    rate = sentences / found["seconds"]
    return {
        **found,
        "sentences": sentences,
        "sentences/s": rate,
        "seconds for 10.9 M": CANDIDATES / rate,
        "least GFLOP": flops / 1e9,
        "product GFLOP/s": peak / 1e9,
        "share of the products' peak": rate * flops / peak,
    }


def _alone(model: Model, setting: Setting, pairs: int) -> tuple[dict[str, Any], int]:
    exported = model.exported
    job = main_job(exported)
    first, whole = (
        Selection.plan(exported, job.lexicon, job.patterns, Settings(pairs=number)) for number in (1, pairs)
    )
    low = MaskedLM(exported, setting.device, graph=low_precision_graph(model, setting))
    with TemporaryDirectory() as folder:
        run_selection(first, Models(low), low, Path(folder) / "first")  # the first batches of a session take longer
        with watched(setting.device) as seen:
            run_selection(whole, Models(low), low, Path(folder) / "whole")
    return {"precision": low.precision, **seen}, pairs * job.verbs[0].grid.verbs


def _command(model: Model, setting: Setting, words: list[str]) -> tuple[dict[str, Any], int]:
    """Run `negengine select`, as a user does; what was seen, and how many sentences were decided."""
    with TemporaryDirectory() as temporary:
        folder = Path(temporary) / "run"
        command = ["select", model.folder, "--device", str(setting.device), "--precision", "mixed", *words]
        with watched(setting.device) as seen:
            ended = subprocess.run(
                [sys.executable, "-m", "negengine.engine.cli", *command, "--output", str(folder)],
                capture_output=True,
                text=True,
                check=False,
            )
        if ended.returncode != 0:
            raise RuntimeError(f"negengine select: {ended.stderr.strip().rpartition(chr(10))[2]}")
        record = read_run(folder).stages["select"]
        counts, session = record.counts, record.sessions[-1]
        own = {key: getattr(session, key) for key in ("sentences", "tokens", "precision", "joules", "workers")}
        found = {"command": f"negengine {' '.join(command)}", **seen, "session": own, "counts": counts,
                 "files": record.files, "calibration": record.calibration}  # fmt: skip
        return found, int(counts["tested"])
