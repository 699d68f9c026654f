"""Whole selections whose model is open already: for a GPU, and the lazy one beside the exhaustive one."""

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..engine.basics.choices import Precision
from ..engine.experiments.negation.negation_runs import SelectionRun
from ..engine.experiments.negation.select import TRIPLETS_FILE, Selection, Settings
from ..engine.inference.model import Decider
from ..engine.inference.precision import Models
from ..engine.runs.masked_stages import PatternDeciders
from .ours import silently, with_open_model


def run_selection(selection: Selection, models: Models, decider: Decider, folder: Path) -> None:
    """Run a selection from end to end, whose selecting pattern a decider decides."""
    opened = PatternDeciders(models, Precision.FP32, {selection.patterns.selecting.name: decider})
    use: Any = lambda _stage, model, _found: model  # noqa: E731
    given = {"describe": lambda *_: {}, "calibrate": lambda *_: {}, "use": use}
    silently(with_open_model(selection, opened, **given), folder)


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
