"""What `negengine cues train` prints: the detectors, and precision, recall and F1 by kind of cue."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import polars as pl

from ...engine.basics.paths import shell_command
from ...engine.experiments.finished_run import published
from ...engine.library.shown import Shown
from ...engine.views import Column, Table
from .cue_scores import CueCounts

PAPER = "paper: Bi-LSTM with a CRF, on CD-SCO"
_MEASURES = ("precision", "recall", "f1")
_COUNTED = ("gold", "system", "true_positives", "false_positives", "false_negatives", *_MEASURES, "precision_b", "f1_b")
ALL = "all"
_CHOSEN = "the epoch was chosen by its F1 on dev, so this F1 on dev is on average too high"
EXPORTED = "onnx"  # the folder of the export in the folder of a training


@dataclass(frozen=True, eq=False)
class TrainedDetector:
    """One detector."""

    folder: Path
    seed: int
    training: Mapping[str, Any]
    # `all` or the kind of cue → how well its export finds them; empty if that was not asked for
    evaluated: Mapping[str, CueCounts]


@dataclass(frozen=True, eq=False)
class CueTraining(Shown):
    """Trained detectors."""

    folder: Path
    encoder: str
    sizes: Mapping[str, int]  # part of the corpus → its sentences
    detectors: tuple[TrainedDetector, ...]
    on: str

    def tables(self) -> list[Table]:
        known = [{"folder": str(one.folder), "seed": one.seed, **one.training} for one in self.detectors]
        shown = ("folder", "seed", "epochs", "steps")
        f1 = Column("F1 on dev, %", "f1", decimals=2, scale=100, unit="%")
        sizes = ", ".join(f"{n:,} {part}" for part, n in self.sizes.items() if n)
        trainings = Table(
            title=f"Detectors from {self.encoder} (sentences: {sizes})",
            frame=pl.DataFrame([{name: row[name] for name in shown} | {"f1": row["score"]} for row in known]),
            columns=[*(Column(name, name) for name in shown), f1],
            notes=[_CHOSEN],
        )
        if not self.detectors[0].evaluated:
            return [trainings]
        rows = [
            {"detector": f"seed {one.seed}", "cues": kind, **_figures(counts)}
            for one in self.detectors
            for kind, counts in one.evaluated.items()
        ]
        printed = published("cues")["detector"]
        rows.append({"detector": PAPER, "cues": ALL, **{name: printed[name] / 100 for name in _MEASURES}})
        schema = {"detector": pl.String, "cues": pl.String, "gold": pl.Int64, "system": pl.Int64}
        measures = {"precision": "precision, %", "recall": "recall, %", "f1": "F1, %"}
        measures |= {"precision_b": "precision B, %", "f1_b": "F1 B, %"}
        columns = [*(Column(name, name) for name in ("detector", "cues", "gold")), Column("found", "system")]
        columns += [Column(heading, name, decimals=2, scale=100, unit="%") for name, heading in measures.items()]
        found = Table(
            title=f"Cues found by the exported detectors on {self.on}",
            frame=pl.DataFrame(rows, schema=schema | dict.fromkeys(measures, pl.Float64)),
            columns=columns,
            notes=[_CHOSEN] if self.on == "dev" else [],
        )
        return [trainings, found]

    def remarks(self) -> list[str]:
        found = [one.evaluated[ALL].f1 for one in self.detectors if one.evaluated]
        lines = []
        if len(found) > 1:
            mean_, deviation = 100 * mean(found), 100 * stdev(found)
            lines.append(f"F1 of {len(found)} seeds: mean {mean_:.2f} %, standard deviation {deviation:.2f} points")
        if found:
            lines.append(
                "cues are counted as the program of the *SEM 2012 shared task does it; the paper's figures hold for "
                "the test part of CD-SCO only"
            )
        return lines

    def closing(self) -> str:
        first = self.detectors[0]
        if first.evaluated:
            command = ["negengine", "cues", "FILE", "--detector", str(first.folder / EXPORTED)]
        else:
            command = ["negengine", "export", str(first.folder), "--task", "token-classification"]
        return f"{self.folder} is written; next, `{shell_command(command)}`"

    def document(self) -> dict[str, Any]:
        return {
            "folder": str(self.folder),
            "encoder": self.encoder,
            "sentences": dict(self.sizes),
            "evaluated on": self.on,
            "epoch_chosen_on_dev": True,
            "detectors": [
                {
                    "folder": str(one.folder),
                    "seed": one.seed,
                    "training": dict(one.training),
                    "cues": {kind: _figures(counts) for kind, counts in one.evaluated.items()} or None,
                }
                for one in self.detectors
            ],
            "paper": published("cues")["detector"],
        }


def _figures(counts: CueCounts) -> dict[str, Any]:
    return {name: getattr(counts, name) for name in _COUNTED}
