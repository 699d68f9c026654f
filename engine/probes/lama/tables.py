"""What `lama` shows at its end: Tables 1 and 2 of Kassner and Schütze with our figures."""

from collections.abc import Mapping
from typing import Any

import polars as pl
from rich.markup import escape
from rich.table import Table

from ..published import NEGATED_LAMA, column, published
from ..summary import ALL, ORIGINAL
from .probe import BY_RELATION, CUTS

_EXAMPLES = 6
Values = Mapping[tuple[str, str, str, str], Mapping[str, Any]]


def tables(summary: pl.DataFrame, items: pl.DataFrame, model: str) -> list[Table]:
    """All tables of a run.

    Args:
        summary: content of summary.parquet.
        items: content of items.parquet.
        model: its name; where it is one of the paper's, its figures stand beside ours.
    """
    values = {(row["dataset"], row["condition"], row["split"], row["metric"]): row for row in summary.to_dicts()}
    return [_negation(values, model), _precision(values, model), _examples(items)]


def _negation(values: Values, model: str) -> Table:
    """Table 1: rank correlation and overlap between queries and their negations, in percent."""
    name = column(NEGATED_LAMA, model)
    paper = {(row["corpus"], row["split"]): row[name] for row in published(NEGATED_LAMA)["rows"]} if name else {}
    table = Table(title=escape(f"Queries and their negations: {model} (%)"), title_justify="left")
    table.add_column("corpus")
    table.add_column("split")
    for heading in ("facts", "rank correlation", "overlap@1", *(["paper"] if paper else [])):
        table.add_column(heading, justify="right")
    for dataset, split in _splits(values, "spearman"):
        whole = values[dataset, ORIGINAL, split, "spearman"]
        cells = [f"{whole['n']:,}"]
        for metric in ("spearman", "overlap@1"):
            by_relation = values.get((dataset, ORIGINAL, split, f"{metric}{BY_RELATION}"))
            mean = f" ({100 * by_relation['value']:.1f})" if by_relation else ""
            cells.append(f"{100 * values[dataset, ORIGINAL, split, metric]['value']:.1f}{mean}")
        if paper:
            printed = paper.get((dataset, split))
            cells.append(f"{printed['spearman']:.1f}, {printed['overlap']:.1f}" if printed else "")
        table.add_row(dataset, split, *cells)
    table.caption = "means over facts, in brackets over relations"
    if paper:
        table.caption += "; paper: rank correlation, overlap; " + "; ".join(published(NEGATED_LAMA)["doubts"])
    table.caption_justify = "left"
    return table


def _precision(values: Values, model: str) -> Table:
    """Precision of the affirmative and of the misprimed queries, in percent."""
    table = Table(title=escape(f"Precision: {model} (%)"), title_justify="left")
    table.add_column("corpus")
    table.add_column("queries")
    for heading in ("n", *(f"@{k}" for k in CUTS)):
        table.add_column(heading, justify="right")
    for dataset, condition, split, metric in values:
        if split == ALL and metric == f"precision@{CUTS[0]}":
            own = [values[dataset, condition, split, f"precision@{k}"] for k in CUTS]
            table.add_row(dataset, condition, f"{own[0]['n']:,}", *(f"{100 * row['value']:.1f}" for row in own))
    return table


def _examples(items: pl.DataFrame) -> Table:
    """Table 2: the three most probable tokens of a few queries and their negations, with log-probabilities."""
    table = Table(title="Most probable tokens (log-probability)", title_justify="left")
    table.add_column("query")
    table.add_column("predictions")
    asked = items.filter(pl.col("negated_query").is_not_null())
    every = max(1, len(asked) // _EXAMPLES)
    for row in asked.gather_every(every).head(_EXAMPLES).iter_rows(named=True):
        for prefix in ("", "negated_"):
            words = (
                f"{word} ({logprob:.1f})"
                for word, logprob in zip(row[f"{prefix}top"], row[f"{prefix}top_logprob"], strict=True)
            )
            table.add_row(escape(row[f"{prefix}query"]), escape(", ".join(words)), end_section=prefix != "")
    return table


def _splits(values: Values, metric: str) -> list[tuple[str, str]]:
    """Data sets and splits that have a metric, without the single relations of a large data set."""
    found = [key[:3:2] for key in values if key[1] == ORIGINAL and key[3] == metric]
    many = {dataset for dataset, _ in found if sum(other == dataset for other, _ in found) > 8}
    return [(dataset, split) for dataset, split in found if dataset not in many or not _is_relation(split)]


def _is_relation(split: str) -> bool:
    return split.startswith("P") and split[1:].isdigit()
