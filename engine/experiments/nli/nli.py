"""Natural language inference with negation (Hossain et al. 2020), `negengine nli`; its Tables 5 and 7."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import polars as pl

from ...basics.choices import Task
from ...basics.errors import InputError, choice
from ...inference.audit import audit_sentences, audit_summary
from ...inference.classifier import encode_pairs
from ...inference.classifier import labels as label_names
from ...inference.exported import REFERENCE, ExportedModel
from ...inference.judge import log_softmax
from ...library.again import NEAR_TIE, ROUNDING, Compared, Draw, Logits, Reference, Sample, Verdict
from ...library.recount import LOGARITHM, Recount, holds, same_figures
from ...library.sentences import CORRECT
from ...requests.items import ALL, ORIGINAL
from ...views import Column, Section, Table
from ..data_sets.sources import find
from ..experiment import DATA_FOLDER, Experiment, Option
from ..finished_run import SummaryRun, item_once
from ..published import CELL, Paper, published
from ..view import BESIDE, PERCENT, POINTS, Chart, Values, View, differences
from .nli_judgements import PAPER_LENGTH, WITH_CUE, Judgements
from .nli_pairs import KINDS, NEW, SOURCES, TWO_WAY, Label, Source, map_head, read_sets, unused_sentence

TRAINER = "transformers' Trainer"  # what trains; a reference has it as its data set
_NEEDED = {
    **dict.fromkeys(("model", "task"), str),
    **dict.fromkeys(("epochs", "batch_size", "max_length", "seed"), int),
    **dict.fromkeys(("learning_rate", "weight_decay"), float),
}
CHOSEN = "the epoch was chosen by its accuracy on dev, so this accuracy on dev is on average too high"
"""Said below an accuracy on dev where the training had `--patience`."""
_TWO_WAY_SAID = (
    "accuracy is two-way (entailment or not), as the model has two labels; the paper's accuracy is three-way, and "
    "does not stand beside it"
)
DATA = "negation-nli"
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
    "Accuracy by kind of pair. The majority baseline always gives the most frequent label.",
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


@dataclass(frozen=True, eq=False)
class NliRun(SummaryRun):
    """A finished evaluation; the columns of `items` are those of `Judgements.decide`."""

    stage: ClassVar[str] = Judgements.name
    clusters: ClassVar[str] = "original pairs"

    def tables(self) -> list[Table]:
        accuracy, drops, *others = (view.table(self) for view in (ACCURACY, DROPS, LABELS, TYPES))
        return [accuracy, *([drops] if len(drops.frame) else []), *others]

    def remarks(self) -> list[str]:
        training = self.record.metadata.get("training")
        chosen = isinstance(training, Mapping) and training.get("patience") and self.told(ORIGINAL, ALL, "accuracy")
        unused = self.record.metadata.get("unused") or {}
        return [
            *([CHOSEN] if chosen else []),
            *(f"{source}, original pairs: {unused_sentence(counts)}" for source, counts in unused.items()),
            *([f"{', '.join(self.coarse)}: {_TWO_WAY_SAID}"] if self.coarse else []),
            *audit_sentences(audit_summary(self.record.counts)),
        ]

    @property
    def coarse(self) -> list[str]:
        """The data sets with three labels whose accuracy is two-way, as the classifier has two labels."""
        two_way = len(self.record.identity["labels"]) == len(TWO_WAY)
        return [source for source in self.sources if two_way and len(SOURCES[source]) > len(TWO_WAY)]

    @cached_property
    def sources(self) -> list[str]:
        found = set(self.summary["dataset"])
        return [source for source in SOURCES if source in found]

    @cached_property
    def paper(self) -> Paper:
        """What the paper prints; its three-way accuracies do not stand beside two-way ones."""
        paper = paper_of(self.record.metadata["family"])
        is_coarse = pl.col("dataset").is_in(self.coarse) & (pl.col("metric") == "accuracy")
        return replace(paper, figures=paper.figures.filter(~is_coarse))

    def methods(self, test: str) -> str:
        told = training_told(self.record.metadata.get("training"))
        original, labels = self.told(ORIGINAL, ALL, "accuracy"), ", ".join(self.record.identity["labels"])
        return told + (
            f"We judged the pairs with negation of {test} with the labels {labels} and at most "
            f"{self.record.identity['max length']} tokens. Accuracy on the new pairs, with 95 % intervals: "
            f"{self.told(NEW, ALL, 'accuracy')}."
            + (f" Accuracy on the original dev sets: {original}." if original else "")
        )

    @property
    def used(self) -> str:
        return TRAINER if self.record.metadata.get("training") else ""

    @property
    def conditions(self) -> dict[str, Any]:
        """Nothing: pairs are joined by a digest of their texts and label, so pairs of other data never match."""
        return {}

    def outcomes(self) -> pl.DataFrame:
        """One row for each pair and split: whether the label is right. Two-way accuracy has a metric of its own."""
        right = self.items.select(
            "dataset",
            "condition",
            "split",
            metric=pl.when(pl.col("dataset").is_in(self.coarse))
            .then(pl.lit("accuracy:two-way"))
            .otherwise(pl.lit("accuracy")),
            item="id",
            value=pl.col("correct").cast(pl.Float64),
            cluster=pl.when(pl.col("condition") == NEW)
            .then(pl.format("{}", pl.col("item") // len(KINDS)))
            .otherwise(pl.col("id")),
        )
        return pl.concat([right.with_columns(split=pl.lit(ALL)), right.filter(pl.col("split") != "")])

    def sentence_rows(self) -> pl.LazyFrame:
        own = ("dataset", "split", "negation", "gold", "predicted", "probability", "truncated", "precision", "id")
        return self.items.lazy().select(
            *("item", "condition", "premise", "hypothesis", "expected", "answer", CORRECT),
            failed=~pl.col(CORRECT),
            rank=pl.lit(None, pl.Int32),
            logprob=pl.lit(None, pl.Float32),
            **{name: name for name in own},
        )

    def again(self, draw: Draw) -> Iterator[Sample]:
        labels, longest = self.record.identity["labels"], self.record.identity["max length"]
        yield Sample("pairs", [Labelled(row, labels, longest) for row in draw.rows(self.sentence_rows())])

    def recounts(self) -> Iterator[Recount]:
        items, head = self.items, self.record.identity["labels"]
        yield item_once(items)
        agree = pl.col("correct") == (pl.col("expected") == pl.col("answer"))
        yield holds("a pair is right where both labels are the same", items, agree)
        yield holds("labels are those of the classifier", items, pl.col("predicted").is_in(head))
        for fine, coarse in (("predicted", "answer"), ("gold", "expected")):
            two_way = (pl.col(coarse) == str(Label.NOT_ENTAILMENT)) & (pl.col(fine) != str(Label.ENTAILMENT))
            yield holds(f"{coarse} follows from {fine}", items, (pl.col(coarse) == pl.col(fine)) | two_way)
        most_probable = pl.col("probability").is_between(1 / len(head) - LOGARITHM, 1 + LOGARITHM)
        yield holds("the label given is the most probable one", items, most_probable)
        whole, new = items.with_columns(split=pl.lit(ALL)), items.filter(condition=NEW)
        with_cue = items.filter(pl.col("negation"), condition=ORIGINAL).with_columns(split=pl.lit(WITH_CUE))
        cells = pl.concat([whole, new, with_cue]).group_by(CELL[:-1])
        accuracy = cells.agg(value=pl.col("correct").mean(), n=pl.len().cast(pl.Int64))
        before = accuracy.filter(condition=ORIGINAL, split=ALL).select("dataset", before="value")
        drops = accuracy.filter(condition=NEW).join(before, on="dataset")
        drops = drops.with_columns(metric=pl.lit("drop"), value=pl.col("before") - pl.col("value"))
        wanted = [own.select(*CELL, "value", "n") for own in (accuracy.with_columns(metric=pl.lit("accuracy")), drops)]
        found = self.summary.filter(pl.col("metric").is_in(["accuracy", "drop"]))
        what = "accuracies and drops of summary.parquet are those of the items"
        yield same_figures(what, found, pl.concat(wanted), CELL)


@dataclass(frozen=True, eq=False)
class Labelled:
    """A row of `sentence_rows`, the labels of the logits, and the largest number of tokens of a pair."""

    row: Mapping[str, Any]
    labels: Sequence[str]
    longest: int

    def again(self, reference: Reference) -> Compared:
        """A probability of low precision is not compared."""
        row = self.row
        name, is_exact = f"{row['item']} of {row['dataset']} {row['condition']}", row["precision"] == REFERENCE
        logits = reference.pair(row["premise"], row["hypothesis"], self.longest)
        return Compared(name, *self.compare(logits, row["probability"] if is_exact else None), is_exact)

    def compare(self, logits: Logits, probability: float | None) -> tuple[Verdict, str]:
        """The recorded label and its probability against the logits, float32 [labels]."""
        predicted = self.row["predicted"]
        own, best = self.labels.index(predicted), int(logits.argmax())
        if own != best:
            behind = float(logits[best] - logits[own])
            said = f"the label was {predicted}, but now {self.labels[best]} (margin {behind:.2g} logits)"
            return Verdict.NEAR_TIE if behind < NEAR_TIE else Verdict.WRONG, said
        now = float(np.exp(log_softmax(logits)[own]))
        if probability is not None and abs(now - probability) > ROUNDING:
            return Verdict.WRONG, f"probability {probability:.4f}, but now {now:.4f}"
        return Verdict.AGREES, ""


def training_told(training: Mapping[str, Any] | None) -> str:
    """How `negengine nli train` trained, as a sentence with a space after it; empty if export.json does not say it."""
    if not isinstance(training, Mapping) or not _NEEDED.items() <= {k: type(v) for k, v in training.items()}.items():
        return ""
    settings = (
        f"{training['epochs']} epochs, batches of {training['batch_size']}, learning rate "
        f"{training['learning_rate']:g}, weight decay {training['weight_decay']:g}, at most {training['max_length']} "
        f"tokens, seed {training['seed']}"
    )
    if type(training.get("patience")) is int:
        settings += f", the best epoch on dev with a patience of {training['patience']}"
    learned = f"{training['limit']:,} pairs of the" if type(training.get("limit")) is int else "the"
    hub, copy = training.get("hub"), ""
    if isinstance(hub, Mapping):
        copy = f" ({hub.get('repository')} on the hub, revision {hub.get('revision')})"
    fraction = training.get("negation")
    added = ""
    if isinstance(fraction, float):
        added = f", with {100 * fraction:.0f} % of the new pairs; the other new pairs are the test"
    return (
        f"We fine-tuned {training['model']} on {learned} original training split of {training['task']}{copy}{added} "
        f"({TRAINER}; {settings}). "
    )


def paper_of(family: str) -> Paper:
    """The labels of the pairs, and the accuracies of a model of this family: `bert`, `roberta` or `xlnet`."""
    found = published("nli")
    cells: dict[tuple[str, ...], float | str] = {
        (source, NEW, split, f"{_LABEL}{label}"): share
        for source, labels in SOURCES.items()
        for split, shares in found[source]["labels"].items()
        for label, share in zip(labels, shares, strict=True)
    }
    if family not in found["families"]:
        return Paper.of(cells, ())
    cells |= {
        (source, condition, split, "accuracy"): own[family]
        for source in SOURCES
        for condition, splits in found[source]["accuracy"].items()
        for split, own in splits.items()
    }
    return Paper.of(cells, found["doubts"])


def _by_source(texts: Sequence[str]) -> dict[str, Path]:
    found = {}
    for text in texts:
        source, equals, file = text.partition("=")
        if not equals or not file:
            raise InputError(f"--original {text}: give SOURCE=FILE, such as RTE=dev.tsv")
        found[source] = Path(file)
    return found


@dataclass(frozen=True, eq=False)
class Nli(Experiment):
    """Run a classifier on the pairs with negation of Hossain and others (2020).

    First export the classifier with --task text-classification.
    """

    name = "nli"
    title = "Natural language inference with negation"
    asks = "Does the hypothesis follow from the premise, where one of them has a negation?"
    references = "negengine.engine.experiments.nli:references.toml"
    task = Task.TEXT_CLASSIFICATION
    example = "negengine nli textattack/bert-base-uncased-RTE --source RTE"
    model_help = "A classifier of text pairs: an exported folder, or its name under models/."
    results = NliRun
    stages = (Judgements,)

    data: Annotated[str | Path | None, DATA_FOLDER] = None
    source: Annotated[
        str | Sequence[str],
        Option("A data set whose pairs are judged (default: all); may be repeated.", kind=list[Source]),
    ] = ()
    original: Annotated[
        Mapping[str, str | Path] | None,
        Option(
            "Also judge an original dev set in the columns of GLUE: RTE=dev.tsv; may be repeated.",
            metavar="SOURCE=FILE",
            kind=list[str],
            is_file=True,
            read=_by_source,
        ),
    ] = None
    labels: Annotated[
        str | None,
        Option("The labels in the order of the logits (default: as the model names them).", metavar="LABEL,..."),
    ] = None
    max_length: Annotated[
        int | None,
        Option("Largest number of tokens in a pair (default: 128, as in the paper).", metavar="N", minimum=8),
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.dev_sets  # noqa: B018 - refuses an unknown one

    @cached_property
    def sources(self) -> list[Source]:
        return [Source(name) for name in self.source or SOURCES]

    @cached_property
    def dev_sets(self) -> dict[str, Path]:
        given = (self.original or {}).items()
        return {str(choice(Source, "--original", str(name))): Path(file) for name, file in given}

    def stage(self, exported: ExportedModel) -> Judgements:
        head = map_head(label_names(exported), exported.name, self.labels)
        sets = read_sets(find(DATA, None if self.data is None else Path(self.data)), self.dev_sets, self.sources)
        longest = min(PAPER_LENGTH, exported.max_length) if self.max_length is None else self.max_length
        encode_pairs(exported, [], max_length=longest)  # refuses what the model does not take
        return Judgements(exported, head, sets, longest)

    @staticmethod
    def sections(run: NliRun) -> list[Section]:
        accuracy, *drop, labels, types = run.tables()
        said = []
        for row in accuracy.frame.filter(condition=NEW, split=ALL).iter_rows(named=True):
            own, baseline = (100 * row[name] for name in ("accuracy", "majority"))
            low, high = row["accuracy_low"], row["accuracy_high"]
            way = "above" if own > baseline else "below" if own < baseline else "equal to"
            ends = "" if low is None else f" ({100 * low:.1f} to {100 * high:.1f})"
            right = f"{own:.1f} % of the new pairs are right{ends}"
            said.append(f"{row['dataset']}: {right}, {way} the majority baseline of {baseline:.1f} %.")
        given = "These are the labels that people gave; they do not depend on the model."
        judged = "How well does the model judge pairs with a negation?"
        return [
            Section(judged, said, [ACCURACIES.figure(run, accuracy)], drop, notes=run.remarks()),
            Section("Which labels do the new pairs have?", [given], [SHARES.figure(run, labels)]),
            Section("Which kind of pair is harder?", tables=[types]),
        ]


nli = Nli.function()
