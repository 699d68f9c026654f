"""Tables and figures of `nli`: Tables 5 and 7 of the paper with our accuracies and the pairs' labels."""

from typing import TYPE_CHECKING

import polars as pl

from ...views import Column, Section, Table
from ..items import ALL, ORIGINAL
from ..published import Paper, published
from ..view import BESIDE, PERCENT, POINTS, Chart, Values, View, differences
from .nli_judgements import WITH_CUE
from .nli_pairs import KINDS, NEW, SOURCES

if TYPE_CHECKING:
    from .nli import NliRun

_LABEL = "label_share:"
_SPLITS = (*KINDS, ALL)
_KINDS = {(ORIGINAL, ALL): "dev", (ORIGINAL, WITH_CUE): "dev, cues", **{(NEW, kind): kind for kind in KINDS}}
_ROWS = pl.DataFrame(
    [(source, *key, kind) for source in SOURCES for key, kind in {**_KINDS, (NEW, ALL): "all new"}.items()],
    schema=("dataset", "condition", "split", "kind"),
    orient="row",
)
_PAIRS = (Column("data", "dataset"), Column("pairs", "kind"), Column("n", "n"))
ACCURACY = View(
    "Accuracy on pairs with negation: {model} (%)",
    ("dataset", "condition", "split"),
    [
        *_PAIRS,
        Values("accuracy", "accuracy", interval=True, paper="paper"),
        Values("majority baseline", "majority"),
        Values("truncated", "truncated"),
    ],
    rows=_ROWS,
    section="dataset",
)
DROPS = View(
    "Drops from the original dev set, with 95 % intervals",
    ("dataset", "condition", "split"),
    [
        *_PAIRS,
        Values("drop", "drop", interval=True, style={**POINTS, "signed": False}),
        Values("relative drop", "relative_drop", interval=True),
    ],
    where=pl.col("condition") == NEW,
    rows=_ROWS,
    section="dataset",
    notes=["the two sets of pairs are taken as independent samples"],
)
_IS_LABEL = (pl.col("condition") == NEW) & pl.col("metric").str.starts_with(_LABEL)
LABELS = View(
    "Labels of the new pairs, in brackets the paper's (%)",
    ("dataset", "label"),
    [
        Column("data", "dataset"),
        Column("label", "label"),
        *(Values(split, f"share:{split}", paper=BESIDE, style=PERCENT) for split in _SPLITS),
    ],
    where=_IS_LABEL,
    also={"label": pl.col("metric").str.strip_prefix(_LABEL), "metric": pl.format("share:{}", "split")},
    section="dataset",
)
TYPES = differences(
    "McNemar's exact test; original pairs are independent",
    "Types of pairs against each other, on the same original pairs",
)
ACCURACIES = Chart(
    "accuracy",
    "accuracy",
    "accuracy (%)",
    "Accuracy by kind of pair, with 95 % intervals. The majority baseline always gives the most frequent label.",
    rows=_ROWS,
    label=pl.col("kind"),
    others={"majority": "majority baseline"},
    domain=(0, 100),
)
SHARES = Chart(
    "labels",
    "share",
    "pairs (%)",
    "Label shares of the new pairs, and those that the paper prints.",
    where=_IS_LABEL,
    also={
        "kind": pl.format("{}, {}", "dataset", pl.col("split").replace({ALL: "all kinds"})),
        "label": pl.col("metric").str.strip_prefix(_LABEL),
        "metric": pl.lit("share"),
    },
    label=pl.col("label"),
    panel="kind",
    series="these pairs",
    joint=False,
    domain=(0, 100),
)


def paper_of(family: str) -> Paper:
    """The labels of the pairs, and the accuracies of a model of this family: `bert`, `roberta` or `xlnet`."""
    found = published("nli")
    cells: dict[tuple[str, ...], float | str] = {
        (source, condition, split, "accuracy"): own[family]
        for source in SOURCES
        for condition, splits in found[source]["accuracy"].items()
        for split, own in splits.items()
        if family in found["families"]
    }
    cells |= {
        (source, NEW, split, f"{_LABEL}{label}"): share
        for source, labels in SOURCES.items()
        for split, shares in found[source]["labels"].items()
        for label, share in zip(labels, shares, strict=True)
    }
    return Paper.of(cells, found["doubts"] if family in found["families"] else ())


def tables(run: "NliRun") -> list[Table]:
    """Accuracies, drops where an original set was judged, labels, and types against each other."""
    made = [view.table(run) for view in (ACCURACY, DROPS, LABELS, TYPES)]
    return [table for table in made if table is not made[1] or len(table.frame)]


def sections(run: "NliRun") -> list[Section]:
    """Accuracies, label shares, and the kinds of pairs against each other."""
    accuracy, *drop, labels, types = tables(run)
    said = [
        f"{row['dataset']}: {100 * row['accuracy']:.1f} % of the new pairs are right ({100 * row['accuracy_low']:.1f} "
        f"to {100 * row['accuracy_high']:.1f}), {_way(row['accuracy'] - row['majority'])} the majority baseline of "
        f"{100 * row['majority']:.1f} %."
        for row in accuracy.frame.filter(condition=NEW, split=ALL).iter_rows(named=True)
    ]
    given = "These are the labels that people gave; they do not depend on the model."
    judged = "How well does the model judge pairs with a negation?"
    return [
        Section(judged, said, [ACCURACIES.figure(run, accuracy)], drop),
        Section("Which labels do the new pairs have?", [given], [SHARES.figure(run, labels)]),
        Section("Which kind of pair is harder?", tables=[types]),
    ]


def _way(difference: float) -> str:
    return "above" if difference > 0 else "below" if difference < 0 else "equal to"
