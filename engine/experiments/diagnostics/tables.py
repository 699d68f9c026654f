"""Ettinger's tables with our figures; what is known here of the published ones stands in columns of their own."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from ...views import Column, Table
from ..items import ALL, ORIGINAL
from ..published import WHAT_BERT_IS_NOT, column, published
from ..summary import DIFFERENCE, HOLM, P_VALUE, VERSUS, correction_note, detectable_note
from .files import CONSTRAINTS, CPRAG, DATASETS, LICENSING, NAT, ROLE, SIMP
from .items import BINS, CPRAG_PERTURBED, POLARITIES, ROLE_PERTURBED
from .judged import ACCURACIES, BEYOND_THRESHOLD, CUTS, SENSITIVITY, THRESHOLD
from .summary import OUTSIDE_ACCURACY, OUTSIDE_SENSITIVITY, SPREAD

Key = tuple[str, str, str]
Values = Mapping[tuple[str, str, str, str], dict[str, Any]]
Published = Mapping[tuple[Key, str], dict[str, Any]]
_HEADINGS = dict(zip((ORIGINAL, *CPRAG_PERTURBED), ("Orig", "Shuf", "Trunc", "Shuf + Trunc"), strict=True))
_AFFIRMATIVE = POLARITIES[0]
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
    *((SIMP, ORIGINAL, polarity) for polarity in POLARITIES),
    *((NAT, ORIGINAL, polarity) for polarity in POLARITIES),
    *((NAT, ORIGINAL, f"{polarity}-{kind}") for kind in LICENSING.values() for polarity in POLARITIES),
)
_PREFERRED, _BY_MORE = "preferred", f"> {THRESHOLD}"
_NEGATED = "negated"
_INTERVAL = {"": "value", "_low": "low", "_high": "high"}
_OUTSIDE_NOTE = "outside: items with a word that is not one token of the model; it counts as wrong"


def tables(summary: pl.DataFrame, model: str) -> list[Table]:
    """The paper's tables with our figures, and its own as far as they are known here.

    Args:
        summary: Content of summary.parquet.
        model: Its name; if it is one of the paper's two, its figures are shown next to ours.

    Returns:
        Tables of accuracies for each of CPRAG-102, ROLE-88 (two) and NEG-136 that was run, one of sensitivities, and
        one of paired tests.
    """
    values: Values = {
        (row["dataset"], row["condition"], row["split"], row["metric"]): row for row in summary.iter_rows(named=True)
    }
    paper = published_figures(model)
    accuracies = [_accuracy_table(name, columns, values, model, paper) for name, columns in _ACCURACY_TABLES.items()]
    return [*(table for table in accuracies if table), _sensitivity_table(values, model, paper), _tests_table(values)]


def main_table(summary: pl.DataFrame, model: str) -> Table:
    """One row for each data set: accuracy, and how often the good completion is preferred.

    Args:
        summary: Content of summary.parquet.
        model: Its name.
    """
    values: Values = {
        (row["dataset"], row["condition"], row["split"], row["metric"]): row for row in summary.iter_rows(named=True)
    }
    rows = []
    for dataset in DATASETS:
        split, negative = (ALL, "") if dataset in {CPRAG, ROLE} else POLARITIES
        if (dataset, ORIGINAL, split, ACCURACIES[0]) not in values:
            continue
        row: dict[str, Any] = {"dataset": dataset, "n": values[dataset, ORIGINAL, split, ACCURACIES[0]]["n"]}
        row |= {metric: 100 * values[dataset, ORIGINAL, split, metric]["value"] for metric in ACCURACIES}
        for name, own in ((_PREFERRED, split), (_NEGATED, negative)):
            if preferred := values.get((dataset, ORIGINAL, own, SENSITIVITY)):
                row |= {name + end: 100 * preferred[figure] for end, figure in _INTERVAL.items()}
        rows.append(row)
    figures = [*ACCURACIES, *(name + end for name in (_PREFERRED, _NEGATED) for end in _INTERVAL)]
    return Table(
        f"Diagnostics: {model}, %",
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


def published_figures(model: str) -> dict[tuple[Key, str], dict[str, Any]]:
    """What is known here of the paper's figures for a model, by key and metric; `value` is in percent."""
    name = column(WHAT_BERT_IS_NOT, model)
    return {
        ((row["dataset"], row["condition"], row["split"]), metric): {**row, "value": row[name]}
        for row in published(WHAT_BERT_IS_NOT)["rows"]
        if name in row
        for metric in row["metrics"]
    }


def _accuracy_table(
    name: str, columns: Mapping[str, Key], values: Values, model: str, paper: Published
) -> Table | None:
    """A column for each condition or split, a row for each k, and two of counts; None if the data set was not run.

    Percent and counts stand in one column, so the frame has the unit of each row.
    """
    present = {heading: key for heading, key in columns.items() if (*key, ACCURACIES[0]) in values}
    if not present:
        return None
    rows: list[dict[str, Any]] = []
    for k, metric in zip(CUTS, ACCURACIES, strict=True):
        row: dict[str, Any] = {"k": str(k), "unit": "%", "digits": 1}
        for heading, key in present.items():
            row |= _percent(heading, values[*key, metric]["value"], paper.get((key, metric)))
            if spread := values.get((*key, f"{SPREAD}{metric}")):
                row[f"{heading} sd"] = 100 * spread["value"]
        rows.append(row)
    counts = {
        "n": {heading: values[*key, ACCURACIES[0]]["n"] for heading, key in present.items()},
        "outside": {heading: _count(values[*key, OUTSIDE_ACCURACY]) for heading, key in present.items()},
    }
    rows += [{"k": label, "unit": "items", "digits": 0, **own} for label, own in counts.items()]
    schema: dict[str, Any] = {"k": pl.String, "unit": pl.String, "digits": pl.Int64}
    for heading in present:
        schema |= {heading: pl.Float64, f"{heading} sd": pl.Float64, **_published_schema(heading)}
    frame = pl.DataFrame(rows, schema=schema)
    return Table(
        f"{name}: {model}. Expected word among the first k, %",
        frame,
        [Column("k", "k"), *(_with_published(heading, heading, "digits", f"{heading} sd") for heading in present)],
        section="unit",
        notes=_notes(_OUTSIDE_NOTE, paper, {(key, metric) for key in present.values() for metric in ACCURACIES}),
        texts={f"published {heading}": f"published {heading} text" for heading in present},
    )


def _sensitivity_table(values: Values, model: str, paper: Published) -> Table:
    """How often the good completion is preferred: a row for each split."""
    keys = [key for key in _SENSITIVITY_ROWS if (*key, SENSITIVITY) in values]
    rows = []
    for key in keys:
        preferred = values[*key, SENSITIVITY]
        row: dict[str, Any] = {
            "dataset": _short(key[0]),
            "split": key[2],
            "low": 100 * preferred["low"],
            "high": 100 * preferred["high"],
            "n": preferred["n"],
        }
        for name, metric in ((_PREFERRED, SENSITIVITY), (_BY_MORE, BEYOND_THRESHOLD)):
            row |= _percent(name, values[*key, metric]["value"], paper.get((key, metric)))
        rows.append(row)
    outside = [
        f"{_short(dataset)} {_count(share)} of {share['n']}"
        for dataset in DATASETS
        if (share := values.get((dataset, ORIGINAL, ALL, OUTSIDE_SENSITIVITY)))
    ]
    shown = {(key, metric) for key in keys for metric in (SENSITIVITY, BEYOND_THRESHOLD)}
    schema = {
        "dataset": pl.String,
        "split": pl.String,
        _PREFERRED: pl.Float64,
        "low": pl.Float64,
        "high": pl.Float64,
        _BY_MORE: pl.Float64,
        "n": pl.Int64,
        **_published_schema(_PREFERRED),
        **_published_schema(_BY_MORE),
    }
    return Table(
        f"{model}. Good completion more probable than the bad, %",
        pl.DataFrame(rows, schema=schema),
        [
            Column("", "dataset"),
            Column("split", "split"),
            _with_published(_PREFERRED, _PREFERRED, 1),
            Column("95 % interval", low="low", high="high", decimals=1, unit="%"),
            _with_published(_BY_MORE, _BY_MORE, 1),
            Column("n", "n"),
        ],
        section="dataset",
        notes=_notes(f"{_OUTSIDE_NOTE}: {', '.join(outside)}", paper, shown),
        texts={f"published {name}": f"published {name} text" for name in (_PREFERRED, _BY_MORE)},
    )


def _tests_table(values: Values) -> Table:
    """Conditions and polarities against each other: differences and tests, adjusted with Holm's method."""
    names = {SENSITIVITY: _PREFERRED, BEYOND_THRESHOLD: _BY_MORE}
    rows, differences, tested = [], [], None
    for (dataset, condition, split, name), row in values.items():
        metric = name.removeprefix(f"{DIFFERENCE}:")
        if metric != name:
            p, tested = (values[dataset, condition, split, f"{one}:{metric}"] for one in (P_VALUE, HOLM))
            sides = _sides(condition, split)
            differences.append(row)
            figures = (row["value"], row["low"], row["high"], row.get("detectable"), p["value"], tested["value"])
            rows.append((_short(dataset), sides, names.get(metric, metric), *figures))
    figures_schema = dict.fromkeys(("difference", "low", "high", "detectable", "p", "p_holm"), pl.Float64)
    notes = [correction_note(tested, "by sign flips of clusters")] if tested else []
    return Table(
        "Against each other, on the same items (95 % interval)",
        pl.DataFrame(
            rows,
            schema={**dict.fromkeys(("dataset", "which", "metric"), pl.String), **figures_schema},
            orient="row",
        ),
        [
            Column("", "dataset"),
            Column("which", "which"),
            Column("metric", "metric"),
            Column(
                "diff.",
                "difference",
                low="low",
                high="high",
                decimals=1,
                scale=100,
                signed=True,
                unit="percentage points",
                wrap=False,
            ),
            Column("p", "p", significant=2, wrap=False),
            Column("p (Holm)", "p_holm", significant=2, wrap=False),
        ],
        notes=[*notes, *detectable_note(differences)],
    )


def _short(dataset: str) -> str:
    return dataset.removeprefix("NEG-136-").split("-")[0]


def _sides(condition: str, split: str) -> str:
    """The two sides of a test: `Orig / Trunc`, `aff. / neg., licensed`."""
    if condition != ORIGINAL:
        return " / ".join(_HEADINGS.get(side, side) for side in condition.split(VERSUS))
    licensing = split.partition(VERSUS)[0].removeprefix(_AFFIRMATIVE).removeprefix("-")
    return ", ".join(["aff. / neg.", *([licensing] if licensing else [])])


def _percent(name: str, value: float, figure: Mapping[str, Any] | None) -> dict[str, Any]:
    """A value and its published figure, both in percent, as columns of a row."""
    row: dict[str, Any] = {name: 100 * value}
    if figure is not None:
        printed = f"≈ {figure['value']:.0f}" if figure.get("about") else f"{figure['value']:.1f}"
        row |= {
            f"published {name}": figure["value"],
            f"published {name} text": f"{printed}{' ?' if 'doubt' in figure else ''}",
        }
    return row


def _published_schema(name: str) -> dict[str, Any]:
    return {f"published {name}": pl.Float64, f"published {name} text": pl.String}


def _with_published(heading: str, name: str, decimals: int | str, spread: str | None = None) -> Column:
    """A figure in percent with the published one in brackets."""
    unit = "" if isinstance(decimals, str) else "%"
    return Column(heading, name, beside=f"published {name}", decimals=decimals, spread=spread, unit=unit)


def _count(share: Mapping[str, Any]) -> int:
    n: int = round(share["value"] * share["n"])
    return n


def _notes(note: str, paper: Published, shown: Iterable[tuple[Key, str]]) -> Sequence[str]:
    figures = [figure for key, figure in paper.items() if key in set(shown)]
    if not figures:
        return [note]
    doubts = dict.fromkeys(figure["doubt"] for figure in figures if "doubt" in figure)
    return [note, "in brackets: the paper; " + "; ".join([*published(WHAT_BERT_IS_NOT)["doubts"], *doubts])]
