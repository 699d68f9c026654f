"""Tables 1 and 2 of Kassner and Schütze with our figures; the published ones have columns of their own."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from ...views import Column, Table
from ..items import ALL, ORIGINAL
from ..published import NEGATED_LAMA, column, published
from .items import CUTS, NEGATED, QUERY, TOP
from .summary import BY_RELATION

_EXAMPLES = 6
_MOST_SPLITS = 8
_TWO_SIDED = ("spearman", "overlap@1")
_PUBLISHED = {"spearman": "paper: correlation", "overlap": "paper: overlap"}
Values = Mapping[tuple[str, str, str, str], Mapping[str, Any]]


def tables(summary: pl.DataFrame, items: pl.DataFrame, model: str) -> list[Table]:
    """All tables of a run.

    Args:
        summary: Content of summary.parquet.
        items: Content of items.parquet.
        model: Its name; if the paper tested it, the published figures are shown next to ours.
    """
    values = {(row["dataset"], row["condition"], row["split"], row["metric"]): row for row in summary.to_dicts()}
    return [negation_table(values, model), precision_table(values, model), examples_table(items)]


def negation_table(values: Values, model: str) -> Table:
    """Table 1: rank correlation and overlap between queries and their negations."""
    name = column(NEGATED_LAMA, model)
    paper = {(row["corpus"], row["split"]): row[name] for row in published(NEGATED_LAMA)["rows"]} if name else {}
    rows = []
    for dataset, split in _splits(values, _TWO_SIDED[0]):
        theirs = paper.get((dataset, split), {})
        row: dict[str, Any] = {
            "corpus": dataset,
            "split": split,
            "facts": values[dataset, ORIGINAL, split, _TWO_SIDED[0]]["n"],
        }
        for metric in _TWO_SIDED:
            for suffix in ("", BY_RELATION):
                row[f"{metric}{suffix}"] = values.get((dataset, ORIGINAL, split, f"{metric}{suffix}"), {}).get("value")
        row |= {f"published {key}": figure / 100 for key, figure in theirs.items() if key in _PUBLISHED}
        rows.append(row)
    figures = [f"{metric}{suffix}" for metric in _TWO_SIDED for suffix in ("", BY_RELATION)]
    columns = [
        Column("corpus", "corpus"),
        Column("split", "split"),
        Column("facts", "facts"),
        _percent("rank correlation", "spearman", beside=f"spearman{BY_RELATION}"),
        _percent("overlap@1", "overlap@1", beside=f"overlap@1{BY_RELATION}"),
    ]
    notes = ["means over facts, in brackets over relations"]
    if paper:
        figures += [f"published {key}" for key in _PUBLISHED]
        columns += [_percent(heading, f"published {key}") for key, heading in _PUBLISHED.items()]
        notes.append(f"paper: {'; '.join(published(NEGATED_LAMA)['doubts'])}")
    schema = {"corpus": pl.String, "split": pl.String, "facts": pl.Int64, **dict.fromkeys(figures, pl.Float64)}
    frame = pl.DataFrame(rows, schema=schema)
    return Table(f"Queries and their negations: {model} (%)", frame, columns, notes=notes)


def precision_table(values: Values, model: str) -> Table:
    """Precision of the affirmative and of the misprimed queries."""
    metrics = {k: f"precision@{k}" for k in CUTS}
    rows = [
        {
            "corpus": dataset,
            "queries": condition,
            "n": row["n"],
            **{name: values[dataset, condition, split, name]["value"] for name in metrics.values()},
        }
        for (dataset, condition, split, metric), row in values.items()
        if split == ALL and metric == metrics[CUTS[0]]
    ]
    schema = {"corpus": pl.String, "queries": pl.String, "n": pl.Int64, **dict.fromkeys(metrics.values(), pl.Float64)}
    columns = [
        Column("corpus", "corpus"),
        Column("queries", "queries"),
        Column("n", "n"),
        *(_percent(f"@{k}", name) for k, name in metrics.items()),
    ]
    return Table(f"Precision: {model} (%)", pl.DataFrame(rows, schema=schema), columns)


def examples_table(items: pl.DataFrame) -> Table:
    """Table 2: the most probable tokens of a few queries and of their negations."""
    asked = items.filter(pl.col(f"{NEGATED}query").is_not_null())
    every = max(1, len(asked) // _EXAMPLES)
    tops = [f"top{i}{what}" for i in range(1, TOP + 1) for what in ("", "_logprob")]
    rows: list[dict[str, Any]] = []
    for example, row in enumerate(asked.gather_every(every).head(_EXAMPLES).iter_rows(named=True), 1):
        for prefix in (QUERY, NEGATED):
            own = {name: row[f"{prefix}{name}"] for name in tops}
            predictions = ", ".join(
                f"{own[f'top{i}']} ({own[f'top{i}_logprob']:.1f})"
                for i in range(1, TOP + 1)
                if own[f"top{i}"] is not None
            )
            rows.append({"example": example, "query": row[f"{prefix}query"], **own, "predictions": predictions})
    schema = {
        "example": pl.Int64,
        "query": pl.String,
        **{name: pl.Float32 if name.endswith("_logprob") else pl.String for name in tops},
        "predictions": pl.String,
    }
    return Table(
        "Most probable tokens (log-probability)",
        pl.DataFrame(rows, schema=schema),
        [Column("query", "query"), Column("predictions", "top1")],
        section="example",
        texts={"top1": "predictions"},
    )


def _percent(heading: str, value: str, beside: str | None = None) -> Column:
    """A fraction that is shown in percent."""
    return Column(heading, value, beside=beside, decimals=1, scale=100, unit="%")


def _splits(values: Values, metric: str) -> list[tuple[str, str]]:
    """Data sets and splits that have a metric, without the single relations of a large data set."""
    found = [(dataset, split) for dataset, condition, split, name in values if (condition, name) == (ORIGINAL, metric)]
    large = {dataset for dataset, _ in found if sum(other == dataset for other, _ in found) > _MOST_SPLITS}
    return [(dataset, split) for dataset, split in found if dataset not in large or not _is_relation(split)]


def _is_relation(split: str) -> bool:
    return split.startswith("P") and split[1:].isdigit()
