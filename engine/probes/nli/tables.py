"""What `nli` shows at its end: Tables 5 and 7 of the paper with our figures."""

import tomllib
from pathlib import Path
from typing import Any

import polars as pl
from rich.markup import escape
from rich.table import Table

from ..summary import DIFFERENCE, HOLM, ORIGINAL, P_VALUE
from .pairs import KINDS, NEW, SOURCES

_PUBLISHED = Path(__file__).parent / "published.toml"
_ROWS = (
    (ORIGINAL, "all", "dev"),
    (ORIGINAL, "negation", "dev, cues"),
    *((NEW, kind, kind) for kind in KINDS),
    (NEW, "all", "all new"),
)
Values = dict[tuple[str, str, str, str], dict[str, Any]]


def published() -> dict[str, Any]:
    """The paper's figures: see the head of the file."""
    return tomllib.loads(_PUBLISHED.read_text("utf-8"))


def accuracy_table(summary: pl.DataFrame, model: str, family: str = "") -> Table:
    """Accuracies in the layout of Table 7, in percent.

    Args:
        summary: content of summary.parquet.
        model: what to call the model.
        family: its architecture: beside `bert`, `roberta` and `xlnet` stand the paper's accuracies.
    """
    values, paper = _values(summary), published()
    column = paper["families"].get(family)
    title = f"Accuracy on pairs with negation: {model} (%)"
    table = Table(title=escape(title), title_justify="left", caption_justify="left")
    table.add_column("pairs", no_wrap=True)
    for heading in ("n", "MB", "acc.", "95 % interval", "drop", "rel.", *(["paper"] if column else [])):
        table.add_column(heading, justify="right", no_wrap=True)
    cut = 0
    for source in _sources(summary):
        for condition, split, label in _ROWS:
            accuracy = values.get((source, condition, split, "accuracy"))
            if accuracy is None:
                continue
            majority, drop, relative, truncated = (
                values.get((source, condition, split, metric))
                for metric in ("majority", "drop", "relative_drop", "truncated")
            )
            cut += round(truncated["value"] * truncated["n"]) if truncated and split == "all" else 0
            cells = [
                f"{source} {label}",
                f"{accuracy['n']:,}",
                _percent(majority),
                _percent(accuracy),
                f"{100 * accuracy['low']:.1f} to {100 * accuracy['high']:.1f}",
                _percent(drop),
                _percent(relative),
            ]
            if column:
                cells.append(f"{paper[source]['accuracy'][condition][split][family]:.1f}")
            table.add_row(*cells)
        table.add_section()
    table.caption = f"MB: majority baseline; drop, rel.: from the original dev set; {cut:,} pairs were cut" + (
        f"; paper: {column}" if column else ""
    )
    return table


def label_table(summary: pl.DataFrame) -> Table:
    """Label shares of the new pairs in the layout of Table 5, with the paper's in brackets."""
    values, paper = _values(summary), published()
    table = Table(title="Labels of the new pairs, in brackets the paper's (%)", title_justify="left")
    table.add_column("label", no_wrap=True)
    splits = (*KINDS, "all")
    for split in splits:
        table.add_column(split, justify="right", no_wrap=True)
    for source in _sources(summary.filter(pl.col("condition") == NEW)):
        for number, label in enumerate(SOURCES[source]):
            cells = [
                f"{_percent(values.get((source, NEW, split, f'label_share:{label}')))} "
                f"({paper[source]['labels'][split][number]:.1f})"
                for split in splits
            ]
            table.add_row(f"{source} {label}", *cells)
        table.add_section()
    return table


def comparison_table(summary: pl.DataFrame) -> Table:
    """The types of new pairs against each other: differences of accuracy and McNemar's test, adjusted after Holm."""
    values = _values(summary)
    table = Table(title="Types of pairs against each other, on the same original pairs", title_justify="left")
    for heading in ("", "types"):
        table.add_column(heading)
    for heading in ("difference", "p (exact)", "p (Holm)", "n"):
        table.add_column(heading, justify="right")
    for source, condition, split, metric in values:
        if metric == f"{DIFFERENCE}:accuracy":
            p, adjusted = (values[source, condition, split, f"{name}:accuracy"]["value"] for name in (P_VALUE, HOLM))
            difference = values[source, condition, split, metric]
            table.add_row(
                source,
                split,
                f"{100 * difference['value']:+.1f}",
                f"{p:.2g}",
                f"{adjusted:.2g}",
                f"{difference['n']:,}",
            )
    return table


def _values(summary: pl.DataFrame) -> Values:
    return {
        (row["dataset"], row["condition"], row["split"], row["metric"]): row for row in summary.iter_rows(named=True)
    }


def _sources(summary: pl.DataFrame) -> list[str]:
    present = set(summary["dataset"])
    return [source for source in SOURCES if source in present]


def _percent(row: dict[str, Any] | None) -> str:
    return "" if row is None else f"{100 * row['value']:.1f}"
