"""What `nli` shows at its end: Tables 5 and 7 of the paper with our figures."""

import tomllib
from pathlib import Path
from typing import Any

import polars as pl
from rich.table import Table

from .nli_labels import Label
from .nli_pairs import KINDS, NEW, SOURCES
from .summary import DIFFERENCE, HOLM, ORIGINAL, P_VALUE

_PUBLISHED = Path(__file__).parents[1] / "resources" / "published" / "nli-negation.toml"
_ROWS = (
    (ORIGINAL, "all", "original dev"),
    (ORIGINAL, "negation", "original dev, with negation"),
    *((NEW, kind, f"new, {kind}") for kind in KINDS),
    (NEW, "all", "new, all"),
)
_LETTERS = {
    Label.ENTAILMENT: "E",
    Label.NOT_ENTAILMENT: "not E",
    Label.CONTRADICTION: "C",
    Label.NEUTRAL: "N",
}

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
    table = Table(title=f"Accuracy on pairs with negation: {model} (%)", title_justify="left")
    for heading in ("", "test pairs"):
        table.add_column(heading)
    for heading in ("n", "majority", "accuracy", "95 % interval", "drop", "relative drop", "cut"):
        table.add_column(heading, justify="right")
    if column:
        table.add_column(f"paper, {column}", justify="right")
    for source in _sources(summary):
        for condition, split, label in _ROWS:
            accuracy = values.get((source, condition, split, "accuracy"))
            if accuracy is None:
                continue
            cells = [
                source,
                label,
                f"{accuracy['n']:,}",
                *(_percent(values.get((source, condition, split, metric))) for metric in ("majority", "accuracy")),
                f"{100 * accuracy['low']:.1f} to {100 * accuracy['high']:.1f}",
                *(_percent(values.get((source, condition, split, m))) for m in ("drop", "relative_drop", "truncated")),
            ]
            if column:
                cells.append(f"{paper[source]['accuracy'][condition][split][family]:.1f}")
            table.add_row(*cells)
        table.add_section()
    return table


def label_table(summary: pl.DataFrame) -> Table:
    """Label shares of the new pairs in the layout of Table 5, with the paper's in brackets."""
    values, paper = _values(summary), published()
    table = Table(title="Labels of the new pairs, in brackets the paper's (%)", title_justify="left")
    table.add_column("")
    found = _sources(summary.filter(pl.col("condition") == NEW))
    for source in found:
        for label in SOURCES[source]:
            table.add_column(f"{source} {_LETTERS[label]}", justify="right")
    for split in (*KINDS, "all"):
        cells = [split]
        for source in found:
            for label, printed in zip(SOURCES[source], paper[source]["labels"][split], strict=True):
                cells.append(f"{_percent(values.get((source, NEW, split, f'label_share:{label}')))} ({printed:.1f})")
        table.add_row(*cells)
    return table


def comparison_table(summary: pl.DataFrame) -> Table:
    """The types of new pairs against each other: differences of accuracy and McNemar's test, adjusted after Holm."""
    values = _values(summary)
    table = Table(title="Types of pairs against each other, on the same original pairs", title_justify="left")
    for heading in ("", "types"):
        table.add_column(heading)
    for heading in ("difference", "p (McNemar, exact)", "p (Holm)", "n"):
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
