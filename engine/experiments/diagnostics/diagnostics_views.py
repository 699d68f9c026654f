"""Ettinger's tables with our figures; what is known here of the published ones stands in columns of their own."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from ...views import Column, Figure, Table
from ...views.charts import Points
from ..items import ALL, ORIGINAL
from ..published import WHAT_BERT_IS_NOT, column, published
from ..summary import DIFFERENCE, HOLM, P_VALUE, VERSUS, correction_note, detectable_note
from .contexts import (
    ACCURACIES,
    BEYOND_THRESHOLD,
    BINS,
    CPRAG_PERTURBED,
    CUTS,
    OUTSIDE_ACCURACY,
    OUTSIDE_SENSITIVITY,
    POLARITIES,
    ROLE_PERTURBED,
    SENSITIVITY,
    SPREAD,
    THRESHOLD,
)
from .files import CONSTRAINTS, CPRAG, DATASETS, LICENSING, NAT, ROLE, SIMP

Key = tuple[str, str, str]
"""Data set, condition, split."""

_AFFIRMATIVE, _NEGATIVE = POLARITIES
_HEADINGS = dict(zip((ORIGINAL, *CPRAG_PERTURBED), ("Orig", "Shuf", "Trunc", "Shuf + Trunc"), strict=True))
_ACCURACY_TABLES: Mapping[str, Mapping[str, Key]] = {
    CPRAG: {
        **{heading: (CPRAG, condition, ALL) for condition, heading in _HEADINGS.items()},
        **{split: (CPRAG, ORIGINAL, split) for split in CONSTRAINTS},
    },
    ROLE: {_HEADINGS.get(condition, condition): (ROLE, condition, ALL) for condition in (ORIGINAL, *ROLE_PERTURBED)},
    f"{ROLE} by cloze": {name: (ROLE, ORIGINAL, name) for name in BINS},
    "NEG-136": {name: (name, ORIGINAL, _AFFIRMATIVE) for name in (SIMP, NAT)},
}
_SENSITIVITY_ROWS: tuple[Key, ...] = (
    *((CPRAG, ORIGINAL, split) for split in (ALL, *CONSTRAINTS)),
    (ROLE, ORIGINAL, ALL),
    *((dataset, ORIGINAL, polarity) for dataset in (SIMP, NAT) for polarity in POLARITIES),
    *((NAT, ORIGINAL, f"{polarity}-{kind}") for kind in LICENSING.values() for polarity in POLARITIES),
)
_PREFERRED, _NEGATED = "preferred", "negated"
_NAMES = {SENSITIVITY: _PREFERRED, BEYOND_THRESHOLD: f"> {THRESHOLD}"}
_INTERVAL = {"": "value", "_low": "low", "_high": "high"}
_OUTSIDE_NOTE = "outside: items with a word that is not one token of the model; it counts as wrong"
_CHANCE = 0.5


@dataclass(frozen=True, eq=False)
class Shown:
    """The figures of a run and what is known here of the paper's, by key and metric."""

    model: str
    values: Mapping[tuple[str, ...], dict[str, Any]]  # rows of summary.parquet
    paper: Mapping[tuple[str, ...], dict[str, Any]]  # the published figures; `value` is in percent
    summary: pl.DataFrame

    @classmethod
    def of(cls, summary: pl.DataFrame, model: str) -> "Shown":
        name = column(WHAT_BERT_IS_NOT, model)
        keys = ("dataset", "condition", "split", "metric")
        rows = summary.iter_rows(named=True)
        values: dict[tuple[str, ...], dict[str, Any]] = {tuple(row[key] for key in keys): row for row in rows}
        paper: dict[tuple[str, ...], dict[str, Any]] = {
            (row["dataset"], row["condition"], row["split"], metric): {**row, "value": row[name]}
            for row in published(WHAT_BERT_IS_NOT)["rows"]
            if name in row
            for metric in row["metrics"]
        }
        return cls(model, values, paper, summary)

    def percent(self, name: str, key: Key, metric: str) -> dict[str, Any]:
        """A value and its published figure, both in percent, as columns of a row."""
        row: dict[str, Any] = {name: 100 * self.values[*key, metric]["value"]}
        if (figure := self.paper.get((*key, metric))) is not None:
            printed = f"≈ {figure['value']:.0f}" if figure.get("about") else f"{figure['value']:.1f}"
            row[f"published {name}"] = figure["value"]
            row[f"published {name} text"] = f"{printed}{' ?' if 'doubt' in figure else ''}"
        return row

    def notes(self, note: str, keys: Iterable[Key], metrics: Iterable[str]) -> Sequence[str]:
        """A note, and what is to be doubted of the published figures that a table shows."""
        shown = {(*key, metric) for key in keys for metric in metrics}
        figures = [figure for key, figure in self.paper.items() if key in shown]
        if not figures:
            return [note]
        doubts = dict.fromkeys(figure["doubt"] for figure in figures if "doubt" in figure)
        return [note, "in brackets: the paper; " + "; ".join([*published(WHAT_BERT_IS_NOT)["doubts"], *doubts])]


def main_table(shown: Shown) -> Table:
    """One row for each data set: accuracy, and how often the good completion is preferred."""
    rows = []
    for dataset in DATASETS:
        split, negative = (ALL, "") if dataset in {CPRAG, ROLE} else POLARITIES
        if (first := shown.values.get((dataset, ORIGINAL, split, ACCURACIES[0]))) is None:
            continue
        row: dict[str, Any] = {"dataset": dataset, "n": first["n"]}
        row |= {metric: 100 * shown.values[dataset, ORIGINAL, split, metric]["value"] for metric in ACCURACIES}
        for name, own in ((_PREFERRED, split), (_NEGATED, negative)):
            if preferred := shown.values.get((dataset, ORIGINAL, own, SENSITIVITY)):
                row |= {name + end: 100 * preferred[figure] for end, figure in _INTERVAL.items()}
        rows.append(row)
    figures = [*ACCURACIES, *(name + end for name in (_PREFERRED, _NEGATED) for end in _INTERVAL)]
    return Table(
        f"Diagnostics: {shown.model}, %",
        pl.DataFrame(rows, schema={"dataset": pl.String, "n": pl.Int64, **dict.fromkeys(figures, pl.Float64)}),
        [
            Column("data set", "dataset"),
            *(Column(f"@{k}", metric, decimals=1, unit="%") for k, metric in zip(CUTS, ACCURACIES, strict=True)),
            *(
                Column(name, name, low=f"{name}_low", high=f"{name}_high", decimals=1, unit="%", wrap=False)
                for name in (_PREFERRED, _NEGATED)
            ),
        ],
        notes=[
            "@k: the expected word is among the first k, in affirmative contexts",
            "preferred: the good completion is more probable than the bad; negated: the same in negated contexts",
            "-v shows all tables",
        ],
    )


def accuracy_tables(shown: Shown) -> Iterator[Table]:
    """For each data set that was run: a column for each condition or split, a row for each k, and two of counts.

    Percent and counts stand in one column, so the frame has the unit of each row.
    """
    for name, columns in _ACCURACY_TABLES.items():
        present = {heading: key for heading, key in columns.items() if (*key, ACCURACIES[0]) in shown.values}
        if not present:
            continue
        rows: list[dict[str, Any]] = []
        for k, metric in zip(CUTS, ACCURACIES, strict=True):
            row: dict[str, Any] = {"k": str(k), "unit": "%", "digits": 1}
            for heading, key in present.items():
                row |= shown.percent(heading, key, metric)
                if spread := shown.values.get((*key, f"{SPREAD}{metric}")):
                    row[f"{heading} sd"] = 100 * spread["value"]
            rows.append(row)
        numbers = {heading: shown.values[*key, OUTSIDE_ACCURACY] for heading, key in present.items()}
        counts = {"k": "n", **{heading: found["n"] for heading, found in numbers.items()}}
        outside = {"k": "outside", **{heading: _count(found) for heading, found in numbers.items()}}
        rows += [{"unit": "items", "digits": 0, **own} for own in (counts, outside)]
        schema: dict[str, Any] = {"k": pl.String, "unit": pl.String, "digits": pl.Int64}
        for heading in present:
            schema |= {heading: pl.Float64, f"{heading} sd": pl.Float64, **_published_schema(heading)}
        yield Table(
            f"{name}: {shown.model}. Expected word among the first k, %",
            pl.DataFrame(rows, schema=schema),
            [
                Column("k", "k"),
                *(
                    Column(one, one, beside=f"published {one}", decimals="digits", spread=f"{one} sd")
                    for one in present
                ),
            ],
            section="unit",
            notes=shown.notes(_OUTSIDE_NOTE, present.values(), ACCURACIES),
            texts={f"published {heading}": f"published {heading} text" for heading in present},
        )


def sensitivity_table(shown: Shown) -> Table:
    """How often the good completion is preferred: a row for each split."""
    keys = [key for key in _SENSITIVITY_ROWS if (*key, SENSITIVITY) in shown.values]
    rows = []
    for key in keys:
        found = shown.values[*key, SENSITIVITY]
        row: dict[str, Any] = {"dataset": _short(key[0]), "split": key[2], "n": found["n"]}
        row |= {"low": 100 * found["low"], "high": 100 * found["high"]}
        for metric, name in _NAMES.items():
            row |= shown.percent(name, key, metric)
        rows.append(row)
    outside = [
        f"{_short(dataset)} {_count(share)} of {share['n']}"
        for dataset in DATASETS
        if (share := shown.values.get((dataset, ORIGINAL, ALL, OUTSIDE_SENSITIVITY)))
    ]
    preferred, by_more = _NAMES.values()
    figures = dict.fromkeys((preferred, "low", "high", by_more), pl.Float64)
    schema = {"dataset": pl.String, "split": pl.String, **figures, "n": pl.Int64,
              **_published_schema(preferred), **_published_schema(by_more)}  # fmt: skip
    return Table(
        f"{shown.model}. Good completion more probable than the bad, %",
        pl.DataFrame(rows, schema=schema),
        [
            Column("", "dataset"),
            Column("split", "split"),
            Column(preferred, preferred, beside=f"published {preferred}", decimals=1, unit="%"),
            Column("95 % interval", low="low", high="high", decimals=1, unit="%"),
            Column(by_more, by_more, beside=f"published {by_more}", decimals=1, unit="%"),
            Column("n", "n"),
        ],
        section="dataset",
        notes=shown.notes(f"{_OUTSIDE_NOTE}: {', '.join(outside)}", keys, _NAMES),
        texts={f"published {name}": f"published {name} text" for name in _NAMES.values()},
    )


def tests_table(shown: Shown) -> Table:
    """Conditions and polarities against each other: differences and tests, adjusted with Holm's method."""
    rows, differences, tested = [], [], None
    for (dataset, condition, split, name), row in shown.values.items():
        metric = name.removeprefix(f"{DIFFERENCE}:")
        if metric != name:
            p, tested = (shown.values[dataset, condition, split, f"{one}:{metric}"] for one in (P_VALUE, HOLM))
            figures = (row["value"], row["low"], row["high"], row["detectable"], p["value"], tested["value"])
            rows.append((_short(dataset), _sides(condition, split), _NAMES.get(metric, metric), *figures))
            differences.append(row)
    texts = dict.fromkeys(("dataset", "which", "metric"), pl.String)
    numbers = dict.fromkeys(("difference", "low", "high", "detectable", "p", "p_holm"), pl.Float64)
    notes = [correction_note(tested, "by sign flips of clusters")] if tested else []
    points = {"decimals": 1, "scale": 100, "signed": True, "unit": "percentage points"}
    return Table(
        "Against each other, on the same items (95 % interval)",
        pl.DataFrame(rows, schema={**texts, **numbers}, orient="row"),
        [
            Column("", "dataset"),
            Column("which", "which"),
            Column("metric", "metric"),
            Column("diff.", "difference", low="low", high="high", wrap=False, **points),  # type: ignore[arg-type]
            Column("p", "p", significant=2, wrap=False),
            Column("p (Holm)", "p_holm", significant=2, wrap=False),
        ],
        notes=[*notes, *detectable_note(differences)],
    )


def metric_figure(shown: Shown, metric: str, name: str, title: str) -> Figure:
    """A metric of each data set, condition and split, beside what is known of the paper's figures."""
    rows = shown.summary.filter((pl.col("metric") == metric) & ~pl.col("split").str.starts_with("draw-"))
    # Splits of a perturbed condition say little beyond the whole.
    rows = rows.filter((pl.col("condition") == ORIGINAL) | (pl.col("split") == ALL))
    keys = ("dataset", "condition", "split")
    rows = _bins_in_order(rows).select(*keys, "value", "low", "high", "n")
    paper = [shown.paper.get((*key, metric)) for key in rows.select(keys).rows()]
    ours = rows.with_columns(published=pl.Series([one and one["value"] / 100 for one in paper], dtype=pl.Float64))
    points = pl.concat(
        [
            ours.with_columns(source=pl.lit(shown.model)),
            ours.with_columns(source=pl.lit("paper"), value="published", low=None, high=None).drop_nulls("value"),
        ],
        how="diagonal_relaxed",
    ).with_columns(pl.col("value", "low", "high") * 100, where=_where())
    percent: dict[str, Any] = {"decimals": 1, "scale": 100, "unit": "%"}
    table = Table(
        f"{title.partition(' (')[0]}: {shown.model}",
        ours,
        [
            Column("data", "dataset"),
            Column("condition", "condition"),
            Column("split", "split"),
            Column("share", "value", low="low", high="high", **percent),
            *([Column("paper", "published", **percent)] if any(key[3] == metric for key in shown.paper) else []),
            Column("n", "n"),
        ],
        section="dataset",
    )
    series = "source" if points["source"].n_unique() > 1 else None
    return Figure(
        name,
        Points(points, x="value", y="where", low="low", high="high", series=series, panel="dataset", title=title,
               domain=(0, 100)),
        table,
        f"A small chart for each data set with a point for each condition: {title}.",
        f"{title[0].upper()}{title[1:]} by condition, with 95 % intervals.",
        wide=True,
        joint=True,
    )  # fmt: skip


def preferred(shown: Shown) -> list[str]:
    """How often the true completion is preferred in affirmative and in negative contexts, in sentences."""
    shares = {
        key[0]: row["value"] for key, row in shown.values.items() if key[1:] == (ORIGINAL, _NEGATIVE, SENSITIVITY)
    }
    return [
        f"{key[0]}: the true completion is preferred in {100 * row['value']:.1f} % of the affirmative contexts and in "
        f"{100 * shares[key[0]]:.1f} % of the negative ones"
        + (": the model mostly ignores “not”." if shares[key[0]] < _CHANCE <= row["value"] else ".")
        for key, row in shown.values.items()
        if key[1:] == (ORIGINAL, _AFFIRMATIVE, SENSITIVITY) and key[0] in shares
    ]


def _short(dataset: str) -> str:
    return dataset.removeprefix("NEG-136-").split("-")[0]


def _sides(condition: str, split: str) -> str:
    """The two sides of a test: `Orig / Trunc`, `aff. / neg., licensed`."""
    if condition != ORIGINAL:
        return " / ".join(_HEADINGS.get(side, side) for side in condition.split(VERSUS))
    licensing = split.partition(VERSUS)[0].removeprefix(_AFFIRMATIVE).removeprefix("-")
    return ", ".join(["aff. / neg.", *([licensing] if licensing else [])])


def _published_schema(name: str) -> dict[str, Any]:
    return {f"published {name}": pl.Float64, f"published {name} text": pl.String}


def _count(share: Mapping[str, Any]) -> int:
    n: int = round(share["value"] * share["n"])
    return n


def _bins_in_order(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of bins of cloze probability by ascending bin, after the other rows of their data set."""
    datasets = {name: i for i, name in enumerate(rows["dataset"].unique(maintain_order=True))}
    bins = {name: i for i, name in enumerate(BINS)}
    return rows.sort(
        pl.col("dataset").replace_strict(datasets, return_dtype=pl.Int64),
        pl.col("split").replace_strict(bins, default=-1, return_dtype=pl.Int64),
        maintain_order=True,
    )


def _where() -> pl.Expr:
    """Condition and split in one text, without what is the ordinary case."""
    whole, plain = pl.col("split") == ALL, pl.col("condition") == ORIGINAL
    return (
        pl.when(whole & plain).then(pl.lit("all"))
        .when(plain).then("split")
        .when(whole).then("condition")
        .otherwise(pl.format("{}, {}", "condition", "split"))
    )  # fmt: skip
