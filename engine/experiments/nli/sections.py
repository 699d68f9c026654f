"""What a report says about pairs with negation (Hossain et al. 2020): accuracy by kind of pair, label shares."""

import polars as pl

from ...views import Figure, Section, Table
from ...views.charts import Points
from ..items import ALL
from ..published import NLI_NEGATION, published
from .pairs import NEW
from .runs import NliRun
from .tables import accuracy_table, comparison_table, drops_table, label_table


def sections(run: NliRun) -> list[Section]:
    """Accuracies, label shares, and the kinds of pairs against each other."""
    family = run.record.metadata["family"]
    accuracy = accuracy_table(run.summary, run.model_name, family)
    paper = published(NLI_NEGATION)["families"].get(family)
    return [
        Section(
            "How well does the model judge pairs with a negation?",
            _against_majority(accuracy.frame),
            figures=[_accuracy(run, accuracy, paper)],
            tables=[drops] if (drops := drops_table(run.summary)) else [],
            notes=[f"paper: {'; '.join(published(NLI_NEGATION)['doubts'])}"] if paper else [],
        ),
        Section(
            "Which labels do the new pairs have?",
            ["These are the labels that people gave; they do not depend on the model."],
            figures=[_labels(label_table(run.summary))],
        ),
        Section("Which kind of pair is harder?", tables=[comparison_table(run.summary)]),
    ]


def _accuracy(run: NliRun, table: Table, paper: str | None) -> Figure:
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
    """Label shares of each kind of new pair, ours and the paper's."""
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
