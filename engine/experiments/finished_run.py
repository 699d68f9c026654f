"""A finished run with items.parquet and summary.parquet, beside the figures that papers print.

These stand in a file `published.toml` in the folder of an experiment:

hub       the paper's name of a model → the names of that model on the Hugging Face hub
figures   that name → data set → condition → split → metric → percent, or the text that the paper prints: "≈ 50"
doubts    what is uncertain about all figures; marks: about one printed text, such as "37.5 ?"
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import polars as pl

from ..basics.numerals import fixed, interval
from ..library.run import Run
from ..requests.items import ITEMS_FILE, OWN, SUMMARY_FILE
from ..views.labels import told_apart

_FOLDER = Path(__file__).parent
CELL = ("dataset", "condition", "split", "metric")
"""What names a figure, here and in summary.parquet."""
GROUP, OTHER = "group", "other group"  # columns of `SummaryRun.labelled`


@dataclass(frozen=True, eq=False)
class Paper:
    """What a paper prints of one model: the columns of `CELL`, then `published` (a fraction) and `printed` (a text)."""

    figures: pl.DataFrame
    doubts: Sequence[str] = ()
    marks: Mapping[str, str] = ()  # type: ignore[assignment]  # none by default


@cache
def published(experiment: str) -> dict[str, Any]:
    """The content of the file of an experiment, by the name of its folder; empty if there is none."""
    file = _FOLDER / experiment / "published.toml"
    return tomllib.loads(file.read_text("utf-8")) if file.is_file() else {}


def paper_of(experiment: str, model: str) -> Paper:
    """What the paper of an experiment prints of a model; without figures if it did not test it."""
    found = published(experiment)
    tested = next((name for name, hub in found.get("hub", {}).items() if model in hub), None)
    figures = [
        (dataset, condition, split, metric, *_figure(value))
        for dataset, conditions in found.get("figures", {}).get(tested, {}).items()
        for condition, splits in conditions.items()
        for split, metrics in splits.items()
        for metric, value in metrics.items()
    ]
    schema = dict.fromkeys(CELL, pl.String) | {"published": pl.Float64, "printed": pl.String}
    frame = pl.DataFrame(figures, schema=schema, orient="row")
    return Paper(frame, found.get("doubts", ()), found.get("marks", {}))


def _figure(value: float | str) -> tuple[float, str | None]:
    """A figure in percent, or the text that is printed for one, as a fraction; and this text."""
    text = value if isinstance(value, str) else None
    return fraction(float(value if text is None else re.sub(r"[^\d.]", "", text))), text


def fraction(percent: float) -> float:
    """A figure that is printed in percent, as a fraction: 44.2 gives 0.442."""
    return round(percent / 100, 6)


def group_labels(groups: pl.DataFrame) -> pl.Series:
    """What people read of each row's `split`: its name, with its `column` where several have groups, or two a name."""
    several = len(set(groups["column"]) - {None, OWN}) > 1
    own = pl.col("column").is_null()
    named = pl.format("{}: {}", "column", "split")
    short = pl.when(own | pl.lit(not several)).then("split").otherwise(named)
    quoted = pl.format("{} = {}", *(pl.col(name).map_elements(repr, pl.String) for name in ("column", "split")))
    forms = [short, *(pl.when(own).then("split").otherwise(form) for form in (named, quoted))]
    return told_apart(groups, ["column", "split"], *forms)


@dataclass(frozen=True, eq=False)
class SummaryRun(Run):
    """A finished run with these two files; `View` and `Chart` show its summary."""

    @cached_property
    def items(self) -> pl.DataFrame:
        return self.frame(ITEMS_FILE)

    @cached_property
    def summary(self) -> pl.DataFrame:
        return self.frame(SUMMARY_FILE)

    @cached_property
    def labelled(self) -> pl.DataFrame:
        """The summary with a label for people: `GROUP` for `split`, and `OTHER` for `other_split`."""
        sides = [pl.struct(column=f"{side}column", split=f"{side}split") for side in ("", "other_")]
        both = pl.concat([self.summary.select(side).unnest("column") for side in sides])
        labels = group_labels(both)
        return self.summary.with_columns(
            labels.head(len(self.summary)).alias(GROUP), labels.tail(len(self.summary)).alias(OTHER)
        )

    @cached_property
    def paper(self) -> Paper:
        return paper_of(self.stage, self.model_name)

    def told(self, condition: str, split: str, metric: str, other: str | None = None, *, digits: int = 2) -> str:
        """A value by data set, for a sentence: `TREx 0.93 [95 % CI 0.91, 0.95] (n = 120), SQuAD …`; or an empty text.

        With `other`, the difference from this split.
        """

        def shown(value: float | None) -> str | None:
            return None if value is None else fixed(value, digits, (0, 1))  # of fractions

        rows = self.summary.filter(
            pl.col("column").is_null() & pl.col("other_split").eq_missing(pl.lit(other, pl.String)),
            condition=condition,
            split=split,
            metric=metric,
        ).filter(pl.col("value").is_not_nan() & pl.col("value").is_not_null())
        return ", ".join(
            f"{dataset} {shown(value)}{interval(shown(low), shown(high))} (n = {n:,})"
            for dataset, value, low, high, n in rows.select("dataset", "value", "low", "high", "n").iter_rows()
        )

    def document(self) -> dict[str, Any]:
        return {"run": str(self.folder), "summary": self.summary.to_dicts()}
