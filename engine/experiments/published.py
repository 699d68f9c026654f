"""Figures that papers print, shown next to ours: a file `published.toml` in the folder of an experiment.

hub       the paper's name of a model → the names of that model on the Hugging Face hub
figures   that name → data set → condition → split → metric → percent, or the text that the paper prints: "≈ 50"
doubts    what is uncertain about all figures; marks: about one printed text, such as "37.5 ?"
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl

_FOLDER = Path(__file__).parent
CELL = ("dataset", "condition", "split", "metric")
"""What names a figure, here and in summary.parquet."""


@dataclass(frozen=True, eq=False)
class Paper:
    """What a paper prints of one model: the columns of `CELL`, then `published` (a fraction) and `printed` (a text)."""

    figures: pl.DataFrame
    doubts: Sequence[str] = ()
    marks: Mapping[str, str] = ()  # type: ignore[assignment]  # none by default

    @classmethod
    def of(cls, cells: Mapping[tuple[str, ...], float | str], doubts: Sequence[str] = (), **marks: str) -> "Paper":
        rows = []
        for cell, value in cells.items():
            text = value if isinstance(value, str) else None
            rows.append((*cell, fraction(float(value if text is None else re.sub(r"[^\d.]", "", text))), text))
        schema = dict.fromkeys(CELL, pl.String) | {"published": pl.Float64, "printed": pl.String}
        return cls(pl.DataFrame(rows, schema=schema, orient="row"), doubts, marks)


@cache
def published(experiment: str) -> dict[str, Any]:
    """The content of the file of an experiment, by the name of its folder; empty if there is none."""
    file = _FOLDER / experiment / "published.toml"
    return tomllib.loads(file.read_text("utf-8")) if file.is_file() else {}


def paper_of(experiment: str, model: str) -> Paper:
    """What the paper of an experiment prints of a model; without figures if it did not test it."""
    found = published(experiment)
    tested = next((name for name, hub in found.get("hub", {}).items() if model in hub), None)
    own = found.get("figures", {}).get(tested, {})
    cells: dict[tuple[str, ...], float | str] = {
        (dataset, condition, split, metric): value
        for dataset, conditions in own.items()
        for condition, splits in conditions.items()
        for split, metrics in splits.items()
        for metric, value in metrics.items()
    }
    return Paper.of(cells, found.get("doubts", ()), **found.get("marks", {}))


def fraction(percent: float) -> float:
    """A figure that is printed in percent, as a fraction: 44.2 gives 0.442."""
    return round(percent / 100, 6)
