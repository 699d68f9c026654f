"""Tables and sections of `nli`: Tables 5 and 7 of the paper with our figures."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import polars as pl

from ...inference.audit import audit_sentences
from ...views import Column, Figure, Section, Table
from ...views.charts import Points
from ..items import ALL, ORIGINAL
from ..published import fraction, published
from ..summary import DIFFERENCE, HOLM, P_VALUE, correction_note, detectable_note
from .nli_judgements import WITH_CUE
from .nli_pairs import KINDS, NEW, SOURCES

if TYPE_CHECKING:
    from .nli import NliRun

_ROWS = (
    (ORIGINAL, ALL, "dev"),
    (ORIGINAL, WITH_CUE, "dev, cues"),
    *((NEW, kind, kind) for kind in KINDS),
    (NEW, ALL, "all new"),
)
_LABELS = {(condition, split): label for condition, split, label in _ROWS}
_TEXTS = ("dataset", "condition", "split", "pairs")
_FIGURES = ("majority", "accuracy", "low", "high", "drop", "relative_drop", "truncated", "published")
Values = Mapping[tuple[str, str, str, str], Mapping[str, Any]]


def accuracy_table(
    summary: pl.DataFrame, model: str, family: str = "", precision: Mapping[str, float | str] | None = None
) -> Table:
    """Accuracies in the layout of Table 7; all figures but n are fractions.

    Of the families `bert`, `roberta` and `xlnet`, the paper's accuracies stand beside. `precision` is from
    `audit_summary`.
    """
    values, paper = _values(summary), published("nli")
    column = paper["families"].get(family)
    rows: list[dict[str, Any]] = []
    for source in _sources(summary):
        for condition, split, label in _ROWS:
            accuracy = values.get((source, condition, split, "accuracy"))
            if accuracy is None:
                continue
            row: dict[str, Any] = {
                "dataset": source,
                "condition": condition,
                "split": split,
                "pairs": f"{source} {label}",
            }
            row |= {"n": accuracy["n"], "accuracy": accuracy["value"], "low": accuracy["low"], "high": accuracy["high"]}
            row |= {
                metric: _value(values, source, condition, split, metric)
                for metric in ("majority", "drop", "relative_drop", "truncated")
            }
            if column:
                row["published"] = fraction(paper[source]["accuracy"][condition][split][family])
            rows.append(row)
    truncated = sum(round((row["truncated"] or 0) * row["n"]) for row in rows if row["split"] == ALL)
    note = f"MB: majority baseline; drop, rel.: from the original dev set; {truncated:,} pairs were truncated"
    percent: dict[str, Any] = {"decimals": 1, "scale": 100, "wrap": False}
    return Table(
        title=f"Accuracy on pairs with negation: {model} (%)",
        frame=pl.DataFrame(
            rows, schema={**dict.fromkeys(_TEXTS, pl.String), "n": pl.Int64, **dict.fromkeys(_FIGURES, pl.Float64)}
        ),
        columns=[
            Column("pairs", "pairs", wrap=False),
            Column("n", "n", wrap=False),
            Column("MB", "majority", **percent),
            Column("acc.", "accuracy", **percent),
            Column("95 % interval", low="low", high="high", **percent),
            Column("drop", "drop", **percent),
            Column("rel.", "relative_drop", **percent),
            *([Column("paper", "published", **percent)] if column else []),
        ],
        section="dataset",
        notes=[note + (f"; paper: {column}" if column else ""), *audit_sentences(precision or {})],
    )


def drops_table(summary: pl.DataFrame) -> Table | None:
    """Drops from the original dev set with their 95 % intervals (fractions); None without such a set."""
    values = _values(summary)
    metrics = ("drop", "relative_drop")
    rows: list[dict[str, Any]] = []
    for source in _sources(summary):
        for split in (*KINDS, ALL):
            found = {metric: values.get((source, NEW, split, metric)) for metric in metrics}
            if found["drop"] is None:
                continue
            row: dict[str, Any] = {"dataset": source, "split": split, "pairs": f"{source} {_LABELS[NEW, split]}"}
            for metric, own in found.items():
                if own is not None:
                    row |= {metric: own["value"], f"{metric}_low": own["low"], f"{metric}_high": own["high"]}
            rows.append(row)
    if not rows:
        return None
    figures = [f"{metric}{end}" for metric in metrics for end in ("", "_low", "_high")]
    schema = {**dict.fromkeys(("dataset", "split", "pairs"), pl.String), **dict.fromkeys(figures, pl.Float64)}
    return Table(
        title="Drops from the original dev set, with 95 % intervals",
        frame=pl.DataFrame(rows, schema=schema),
        columns=[
            Column("pairs", "pairs"),
            *(
                Column(heading, metric, low=f"{metric}_low", high=f"{metric}_high", decimals=1, scale=100, unit=unit)
                for heading, metric, unit in (
                    ("drop", "drop", "percentage points"),
                    ("relative drop (%)", "relative_drop", "%"),
                )
            ),
        ],
        section="dataset",
        notes=["the two sets of pairs are taken as independent samples"],
    )


def label_table(summary: pl.DataFrame) -> Table:
    """Label shares (fractions) of the new pairs in the layout of Table 5, with the paper's in brackets."""
    values, paper = _values(summary), published("nli")
    splits = (*KINDS, ALL)
    rows = [
        {
            "dataset": source,
            "label": str(label),
            "pairs": f"{source} {label}",
            **{f"share:{split}": _value(values, source, NEW, split, f"label_share:{label}") for split in splits},
            **{f"published:{split}": fraction(paper[source]["labels"][split][number]) for split in splits},
        }
        for source in _sources(summary.filter(pl.col("condition") == NEW))
        for number, label in enumerate(SOURCES[source])
    ]
    figures = [f"{kind}:{split}" for split in splits for kind in ("share", "published")]
    return Table(
        title="Labels of the new pairs, in brackets the paper's (%)",
        frame=pl.DataFrame(
            rows, schema=dict.fromkeys(("dataset", "label", "pairs"), pl.String) | dict.fromkeys(figures, pl.Float64)
        ),
        columns=[
            Column("label", "pairs", wrap=False),
            *(
                Column(split, f"share:{split}", f"published:{split}", decimals=1, scale=100, wrap=False)
                for split in splits
            ),
        ],
        section="dataset",
    )


def comparison_table(summary: pl.DataFrame) -> Table:
    """The types of new pairs compared: differences of accuracy (fractions), and tests adjusted with Holm's method."""
    values = _values(summary)
    rows = [
        {
            "dataset": source,
            "types": split,
            "difference": difference["value"],
            "low": difference["low"],
            "high": difference["high"],
            "p": values[source, condition, split, f"{P_VALUE}:accuracy"]["value"],
            "p_holm": values[source, condition, split, f"{HOLM}:accuracy"]["value"],
            "n": difference["n"],
        }
        for (source, condition, split, metric), difference in values.items()
        if metric == f"{DIFFERENCE}:accuracy"
    ]
    tested = next((row for key, row in values.items() if key[3] == f"{HOLM}:accuracy"), None)
    figures = dict.fromkeys(("difference", "low", "high", "p", "p_holm"), pl.Float64)
    return Table(
        title="Types of pairs against each other, on the same original pairs",
        frame=pl.DataFrame(rows, schema={"dataset": pl.String, "types": pl.String, **figures, "n": pl.Int64}),
        columns=[
            Column("", "dataset"),
            Column("types", "types"),
            Column(
                "difference",
                "difference",
                low="low",
                high="high",
                decimals=1,
                scale=100,
                signed=True,
                unit="percentage points",
                wrap=False,
            ),
            Column("p", "p", significant=2),
            Column("p (Holm)", "p_holm", significant=2),
            Column("n", "n"),
        ],
        notes=[
            *([correction_note(tested, "McNemar's exact test; original pairs are independent")] if tested else []),
            *detectable_note(row for key, row in values.items() if key[3] == f"{DIFFERENCE}:accuracy"),
        ],
    )


def _values(summary: pl.DataFrame) -> Values:
    return {
        (row["dataset"], row["condition"], row["split"], row["metric"]): row for row in summary.iter_rows(named=True)
    }


def _value(values: Values, *key: str) -> float | None:
    source, condition, split, metric = key
    row = values.get((source, condition, split, metric))
    return None if row is None else row["value"]


def _sources(summary: pl.DataFrame) -> list[str]:
    present = set(summary["dataset"])
    return [source for source in SOURCES if source in present]


def sections(run: "NliRun") -> list[Section]:
    """Accuracies, label shares, and the kinds of pairs against each other."""
    family = run.record.metadata["family"]
    accuracy = accuracy_table(run.summary, run.model_name, family)
    paper = published("nli")["families"].get(family)
    return [
        Section(
            "How well does the model judge pairs with a negation?",
            _against_majority(accuracy.frame),
            figures=[_accuracy(run, accuracy, paper)],
            tables=[drops] if (drops := drops_table(run.summary)) else [],
            notes=[f"paper: {'; '.join(published('nli')['doubts'])}"] if paper else [],
        ),
        Section(
            "Which labels do the new pairs have?",
            ["These are the labels that people gave; they do not depend on the model."],
            figures=[_labels(label_table(run.summary))],
        ),
        Section("Which kind of pair is harder?", tables=[comparison_table(run.summary)]),
    ]


def _accuracy(run: "NliRun", table: Table, paper: str | None) -> Figure:
    """Accuracy of every kind of pair, with the majority baseline and the paper's accuracy of a model of this family."""
    frame = table.frame
    ours = frame.select("dataset", "pairs", "low", "high", value="accuracy", source=pl.lit(run.model_name))
    baseline = frame.select("dataset", "pairs", value="majority", source=pl.lit("majority baseline"))
    printed = frame.select("dataset", "pairs", value="published", source=pl.lit("paper"))
    data = pl.concat([ours, baseline, *([printed] if paper else [])], how="diagonal_relaxed").drop_nulls("value")
    data = data.with_columns(
        pl.col("value", "low", "high") * 100, kind=pl.col("pairs").str.split(" ").list.slice(1).list.join(" ")
    )
    return Figure(
        "accuracy",
        Points(
            data, x="value", y="kind", low="low", high="high", series="source", panel="dataset", title="accuracy (%)",
            domain=(0, 100),
        ),
        table,
        "A small chart for each data set with points for the accuracy of the model and of the majority baseline, for "
        "each kind of pair.",
        "Accuracy by kind of pair, with 95 % intervals. The majority baseline always gives the most frequent label.",
        wide=True,
        joint=True,
    )  # fmt: skip


def _labels(table: Table) -> Figure:
    splits = [name.removeprefix("share:") for name in table.frame.columns if name.startswith("share:")]
    data = pl.concat(
        table.frame.select(
            pl.format("{}, {}", "dataset", pl.lit("all kinds" if split == ALL else split)).alias("panel"),
            "dataset",
            "label",
            source=pl.lit(source),
            value=100 * pl.col(f"{kind}:{split}"),
        )
        for split in splits
        for kind, source in (("share", "these pairs"), ("published", "paper"))
    ).drop_nulls("value")
    order = {name: i for i, name in enumerate(data["dataset"].unique(maintain_order=True))}
    data = data.sort(pl.col("dataset").replace_strict(order, return_dtype=pl.Int64), maintain_order=True)
    return Figure(
        "labels",
        Points(data, x="value", y="label", series="source", panel="panel", title="pairs (%)", domain=(0, 100)),
        table,
        "A small chart for each data set and kind of pair with points for the share of each label.",
        "Label shares of the new pairs, and those that the paper prints.",
        wide=True,
    )


def _against_majority(frame: pl.DataFrame) -> list[str]:
    """For all new pairs of each data set, whether the model is better than the majority baseline."""
    said = []
    for row in frame.filter((pl.col("condition") == NEW) & (pl.col("split") == ALL)).iter_rows(named=True):
        difference = row["accuracy"] - row["majority"]
        way = "above" if difference > 0 else "below" if difference < 0 else "equal to"
        said.append(
            f"{row['dataset']}: {100 * row['accuracy']:.1f} % of the new pairs are right "
            f"({100 * row['low']:.1f} to {100 * row['high']:.1f}), {way} the majority baseline of "
            f"{100 * row['majority']:.1f} %."
        )
    return said
