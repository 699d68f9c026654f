"""A selected test set for a few pairs: the lazy selection beside the exhaustive one, and the speed of mixed precision.

The logits of random weights lie close together, so their close calls say nothing. For them the share of the bundled
model counts. Every decider is open already, so that only its own time is measured.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..engine.basics.choices import Precision
from ..engine.basics.option import Opening
from ..engine.experiments.negation.runs import SelectionRun
from ..engine.experiments.negation.select import TRIPLETS_FILE, Selection, Settings
from ..engine.inference.device import CPU, Device
from ..engine.inference.mixed import SENTENCES, Mixed, calibrate
from ..engine.inference.model import Decider
from ..engine.inference.precision import Models, open_models
from ..engine.runs.executors import ThisProcess
from ..engine.runs.loop import Execution, run_stage
from ..engine.runs.masked_stages import PatternDeciders
from ..engine.runs.progress import Reporter
from .shapes import MINI, prepare
from .systems.mask.own import AUDIT_SHARE
from .workload import Sentences, candidates, main_job


def lazy_beside_exhaustive(
    job: Selection, models: Models, mixed: Decider | None, authors_rate: float, pairs: int
) -> dict[str, Any]:
    """Lazy, in mixed precision where possible, against exhaustive in fp32, and the authors' program at its rate."""
    found: dict[str, Any] = {}
    with TemporaryDirectory() as temporary:
        folders = {name: Path(temporary) / name for name in ("exhaustive", "lazy")}
        deciders = {"exhaustive": models.reference, "lazy": mixed or models.reference}
        for name, folder in folders.items():
            settings = Settings(pairs=pairs, lazy=name == "lazy")
            selection = Selection.plan(job.exported, job.lexicon, job.patterns, settings)
            started = time.perf_counter()
            run_selection(selection, models, deciders[name], folder)
            found[f"{name} seconds"] = time.perf_counter() - started
            summary = SelectionRun.open(folder).summary
            found[f"{name} tested"] = summary["tested"]
            found.setdefault("repeating %", summary["ratio"])
        one, other = ((folder / TRIPLETS_FILE).read_bytes() for folder in folders.values())
        found["same triplets"] = one == other
    return {
        "pairs": pairs,
        **found,
        "times fewer calls": found["exhaustive tested"] / found["lazy tested"],
        "times exhaustive": found["exhaustive seconds"] / found["lazy seconds"],
        "times authors, selection": found["exhaustive tested"] / authors_rate / found["lazy seconds"],
    }


def mixed_decider(models: Models, sentences: Sentences) -> Mixed | None:
    """Both models together, calibrated on some sentences; None without a low-precision model."""
    if models.low_precision is None:
        return None
    pair = models.low_precision, models.reference
    return Mixed(SENTENCES, *pair, calibrate(SENTENCES, *pair, sentences.encoded, audit_share=AUDIT_SHARE))


def close_calls(device: Device, cache: Path, n: int) -> float | None:
    """Share of close calls of the bundled model among n sentences; None without a low-precision model."""
    exported = prepare(MINI, cache).exported
    mixed = mixed_decider(open_models(exported, device, Precision.AUTO), candidates(main_job(exported), n))
    return None if mixed is None else mixed.calibration.close


def expected_rate(exact: float, low_precision: float, close: float) -> float:
    """Sentences a second of mixed precision that is as fast as its two models."""
    return 1 / (1 / low_precision + (close + AUDIT_SHARE) / exact)


@dataclass(frozen=True, eq=False)
class _Decided(Selection):
    models: Models  # stand for the opened models; nothing but their deciders is asked
    decider: Decider  # decides the selecting pattern

    def open(self, options: Opening) -> PatternDeciders:  # noqa: ARG002
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
