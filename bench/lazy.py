"""A selected test set for a few pairs: the lazy selection beside the exhaustive one."""

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..engine.experiments.negation.runs import SelectionRun
from ..engine.experiments.negation.select import TRIPLETS_FILE, Selection, Settings
from ..engine.inference.model import Decider
from ..engine.inference.precision import Models
from .decided import run_selection


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
