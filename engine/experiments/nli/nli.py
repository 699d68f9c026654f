"""Natural language inference with negation (Hossain et al. 2020), `negengine nli`; its Tables 5 and 7.

Figures that are not means of items are those of section 6.1 of the paper: shares of labels, baseline, drops. Three new
pairs are made from one original pair, so over all new pairs the original pairs are the clusters. A drop (of two
accuracies) has the interval of both combined, as the original dev set is another sample; relative_drop has that of a
ratio of two proportions.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, ClassVar

import polars as pl

from ...basics.choices import Task
from ...basics.errors import InputError, choice
from ...basics.numerals import fixed, percent
from ...basics.paths import without_home
from ...inference.audit import audit_sentences, audit_summary
from ...inference.classifier import encode_pairs
from ...inference.classifier import labels as label_names
from ...inference.exported import ExportedModel
from ...library.sentences import CORRECT
from ...requests.contrast import Contrast
from ...requests.items import ALL, ORIGINAL, OWN, by_split
from ...requests.label import Label
from ...requests.summary import Cell, Row, numbered
from ...statistics.clusters import cluster_sums, clustered_mean, effective_sample_size, proportion_interval
from ...statistics.differences import combined
from ...statistics.intervals import proportion, relative_drop_interval
from ...views import Column, Section, Table
from ..cues.cue_words import has_cue
from ..data_sets.sources import find
from ..experiment import DATA_FOLDER, Option
from ..finished_run import Paper, paper_of
from ..requested import Requested, RequestedRun
from ..view import POINTS, Chart, Values, View, differences
from .nli_pairs import (
    KINDS,
    NEW,
    SOURCES,
    TWO_WAY,
    Pair,
    PairSet,
    Source,
    coarsen,
    common_scheme,
    map_head,
    read_sets,
    unused_sentence,
)
from .nli_pairs import Label as Name
from .training_told import TRAINER, table_8, training_told

CHOSEN = "the epoch was chosen by its accuracy on dev, so this accuracy on dev is on average too high"
"""Said below an accuracy on dev where the training had `--patience`."""
_TWO_WAY_SAID = (
    "accuracy is two-way (entailment or not), as the model has two labels; the paper's accuracy is three-way, and "
    "does not stand beside it"
)
DATA, WITH_CUE = "negation-nli", "negation"
LABEL_SHARES = {label: f"label_share:{label}" for label in Name}
"""Label → the metric with its share."""
PAPER_LENGTH = 128  # tokens of a pair at most, appendix B
# The label given, in the scheme that a pair is scored by: see `nli_pairs`.
_NOT_ENTAILED = pl.col("two_way") & (pl.col("label") != str(Name.ENTAILMENT))
ANSWER = pl.when(_NOT_ENTAILED).then(pl.lit(str(Name.NOT_ENTAILMENT))).otherwise("label")
_SPLITS = (*KINDS, ALL)
_KINDS = {(ORIGINAL, ALL): "dev", (ORIGINAL, WITH_CUE): "dev, cues", **{(NEW, kind): kind for kind in KINDS}}
_ROWS = pl.DataFrame(
    [(source, *key, kind) for source in SOURCES for key, kind in {**_KINDS, (NEW, ALL): "all new"}.items()],
    schema=("dataset", "condition", "split", "kind"),
    orient="row",
)
_PAIRS = (Column("data", "dataset"), Column("pairs", "kind"), Column("n", "n"))
ACCURACY = View(
    "Accuracy on pairs with negation: {model}",
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
    "Drops from the original dev set",
    ("dataset", "condition", "split"),
    [
        *_PAIRS,
        Values("drop", "accuracy_drop", interval=True, style={**POINTS, "signed": False}),
        Values("relative drop", "relative_drop", interval=True),
    ],
    where=pl.col("condition") == NEW,
    rows=_ROWS,
    section="dataset",
    notes=["the two sets of pairs are taken as independent samples"],
)
TYPES = differences(
    "McNemar's exact test; original pairs are independent",
    "Types of pairs against each other, on the same original pairs",
)
ACCURACIES = Chart(
    "accuracy",
    "accuracy",
    "accuracy",
    "Accuracy by kind of pair. The majority baseline always gives the most frequent label.",
    rows=_ROWS,
    label=pl.col("kind"),
    others={"majority": "majority baseline"},
    domain=(0, 100),
)


@dataclass(frozen=True, eq=False)
class NliRun(RequestedRun):
    """A finished evaluation."""

    same_item: ClassVar[str] = "id"  # a digest, so pairs of other data never match

    def tables(self) -> list[Table]:
        accuracy, drops, *others = (view.table(self) for view in (ACCURACY, DROPS, TYPES))
        return [accuracy, *([drops] if len(drops.frame) else []), *others]

    @property
    def training(self) -> Mapping[str, Any]:
        """How `negengine nli train` made the classifier; empty if something else did."""
        found = self.record.metadata.get("training")
        return found if isinstance(found, Mapping) else {}

    def remarks(self) -> list[str]:
        chosen = self.training.get("patience") and self.told(ORIGINAL, ALL, "accuracy")
        unused = self.record.metadata.get("unused") or {}
        return [
            *([CHOSEN] if chosen else []),
            *table_8(self.training),
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
        """What Table 7 prints: of classifiers without new pairs in their training.

        Its three-way accuracies do not stand beside two-way ones.
        """
        if self.training.get("negation") is not None:
            return paper_of(self.stage, "")
        paper = paper_of(self.stage, self.record.metadata["family"])
        is_coarse = pl.col("dataset").is_in(self.coarse) & (pl.col("metric") == "accuracy")
        return replace(paper, figures=paper.figures.filter(~is_coarse))

    def methods(self, test: str) -> str:
        told = training_told(self.training)
        original, labels = self.told(ORIGINAL, ALL, "accuracy"), ", ".join(self.record.identity["labels"])
        return told + (
            f"We judged the pairs with negation of {test} with the labels {labels} and at most "
            f"{self.record.identity['max length']} tokens. Accuracy on the new pairs: "
            f"{self.told(NEW, ALL, 'accuracy')}."
            + (f" Accuracy on the original dev sets: {original}." if original else "")
        )

    @property
    def used(self) -> Collection[str]:
        return [*self.sources, *([TRAINER] if self.training else [])]

    @property
    def conditions(self) -> dict[str, Any]:
        """Nothing: see `outcomes`."""
        return {}

    def outcomes(self, by: str | None = None) -> pl.DataFrame:
        """Two-way accuracy has a metric of its own, and `dev` alone is compared."""
        is_coarse = pl.col("dataset").is_in(self.coarse)
        metric = pl.when(is_coarse).then(pl.lit("accuracy:two-way")).otherwise("metric")
        return super().outcomes(by).filter(pl.col("split") != WITH_CUE).with_columns(metric=metric)


def _by_source(texts: Sequence[str]) -> dict[str, Path]:
    found = {}
    for text in texts:
        source, equals, file = text.partition("=")
        if not equals or not file:
            raise InputError(f"--original {text}: give SOURCE=FILE, such as RTE=dev.tsv")
        found[source] = Path(file)
    return found


@dataclass(frozen=True, eq=False)
class Nli(Requested):
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
    unit = "pairs"
    clusters = "original pairs"
    of_kind = Label
    reads = "sets"
    requests_per_part = 1024
    metrics: ClassVar[Mapping[str, pl.Expr]] = {"accuracy": pl.col("expected") == ANSWER}
    also_read = ("gold", "expected", "negation", "truncated")
    shown: ClassVar[Mapping[str, pl.Expr]] = {
        "expected": pl.col("expected"), "answer": ANSWER, "predicted": pl.col("label"), CORRECT: pl.col("accuracy"),
    }  # fmt: skip
    results = NliRun

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

    @cached_property
    def sets(self) -> tuple[PairSet, ...]:
        return read_sets(find(DATA, None if self.data is None else Path(self.data)), self.dev_sets, self.sources)

    def head(self, exported: ExportedModel) -> tuple[Name, ...]:
        return map_head(label_names(exported), exported.name, self.labels)

    def kind(self, exported: ExportedModel) -> Label:
        longest = min(PAPER_LENGTH, exported.max_length) if self.max_length is None else self.max_length
        encode_pairs(exported, [], max_length=longest)  # refuses what the model does not take
        return Label(tuple(map(str, self.head(exported))), longest)

    def requests(self, exported: ExportedModel) -> pl.DataFrame:
        return pl.concat([_requests(own, self.head(exported)) for own in self.sets])

    def place(self, request: Mapping[str, Any]) -> str:
        of = {(own.source, own.condition): own.pairs for own in self.sets}[request["dataset"], request["condition"]]
        return next(pair.location for pair in of if str(pair.item) == request["item"])

    def metadata(self, exported: ExportedModel) -> dict[str, Any]:
        return {
            "family": exported.family,
            "training": exported.info.get("training"),
            "model folder": without_home(exported.folder.resolve()),
            "unused": {pairs.source: dict(pairs.unused) for pairs in self.sets if pairs.unused},
        }

    @classmethod
    def contrasts(cls, rows: pl.DataFrame) -> list[Contrast]:
        """P is McNemar's exact test: original pairs are independent."""
        return [
            Contrast("accuracy", Cell(source, NEW, one, OWN), Cell(source, NEW, other, OWN))
            for source in rows["dataset"].unique(maintain_order=True)
            for one, other in combinations(KINDS, 2)
        ]

    @classmethod
    def further(cls, rows: pl.DataFrame) -> Iterator[Row]:
        """For each data set, condition and split."""
        cells = {Cell(*key): own for key, own in by_split(rows).partition_by(Cell._fields, as_dict=True).items()}
        for cell, own in cells.items():
            n, source = len(own), cell.dataset
            counts: dict[str, Any] = {"majority": own["expected"].value_counts()["count"].max()}
            counts |= {LABEL_SHARES[label]: (own["gold"] == str(label)).sum() for label in SOURCES[source]}
            counts |= {"truncated": own["truncated"].sum()}
            yield from (Row.of(cell, metric, count / n, None, None, n) for metric, count in counts.items())
            if cell == Cell(source, ORIGINAL):
                yield Row.of(cell, "negation_share", *proportion(int(own["negation"].sum()), n), n)
            if cell.condition == NEW:
                for reference, suffix in (((ALL, None), ""), ((WITH_CUE, OWN), "_from_negation")):
                    if (original := cells.get(Cell(source, ORIGINAL, *reference))) is not None:
                        yield from _drops(cell, original["accuracy"], own, suffix)

    @staticmethod
    def sections(run: NliRun) -> list[Section]:
        accuracy, *drop, types = run.tables()
        said = []
        for row in accuracy.frame.filter(condition=NEW, split=ALL).iter_rows(named=True):
            own, baseline = row["accuracy"], row["majority"]
            low, high = row["accuracy_low"], row["accuracy_high"]
            way = "above" if own > baseline else "below" if own < baseline else "equal to"
            limits = 0, 100, round(100 * baseline, 1)
            ends = "" if low is None else f" ({percent(low)} to {percent(high)})"
            right = f"{fixed(100 * own, 1, limits)} % of {row['n']:,} new pairs are right{ends}"
            said.append(f"{row['dataset']}: {right}, {way} the majority baseline of {percent(baseline)} %.")
        judged = "How well does the model judge pairs with a negation?"
        return [
            Section(judged, said, [ACCURACIES.figure(run, accuracy)], drop, notes=run.remarks()),
            Section("Which kind of pair is harder?", tables=[types]),
        ]


def _drops(cell: Cell, original: pl.Series, new: pl.DataFrame, suffix: str) -> Iterator[Row]:
    right, n, right_before = new["accuracy"].to_numpy(), len(new), int(original.sum())
    before = proportion(right_before, len(original))
    found = clustered_mean(*cluster_sums(right, numbered(new["cluster"])))
    clusters = found.clusters if found.clusters < n else None
    after = proportion(int(right.sum()), n) if clusters is None else (found.value, *proportion_interval(found))
    ends = combined(before, after)
    yield Row.of(cell, f"accuracy_drop{suffix}", before[0] - after[0], *ends, n, clusters)
    if before[0] > 0:
        ends = (None, None)
        if clusters is None or found.shows_variation:
            draws = float(n) if clusters is None else effective_sample_size(found)
            ends = relative_drop_interval(after[0] * draws, draws, right_before, len(original))
        yield Row.of(cell, f"relative_drop{suffix}", 1 - after[0] / before[0], *ends, n, clusters)


def _requests(own: PairSet, head: Sequence[Name]) -> pl.DataFrame:
    scheme = common_scheme(head, own.labels)
    pairs = own.pairs

    def row(pair: Pair) -> dict[str, Any]:
        cue, original = has_cue(pair.text) or has_cue(pair.hypothesis), str(pair.item // len(KINDS))
        is_new = own.condition == NEW
        return {
            "dataset": own.source,
            "condition": own.condition,
            "item": str(pair.item),
            "pair": original if is_new else str(pair.item),
            "cluster": original if is_new else None,
            "splits": [ALL, pair.kind] if is_new else [ALL, *[WITH_CUE] * cue],
            "text": pair.text,
            "second": pair.hypothesis,
            "id": pair.id,
            "negation": cue,
            "gold": str(pair.gold),
            "expected": str(coarsen(pair.gold, scheme)),
            "two_way": scheme == TWO_WAY,
        }

    return pl.DataFrame(map(row, pairs), schema_overrides={"cluster": pl.String}, infer_schema_length=None)


nli = Nli.function()
