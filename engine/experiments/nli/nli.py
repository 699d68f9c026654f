"""`ng.nli`: natural language inference with negation (Hossain et al. 2020) as a library function, and its results."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar

import polars as pl

from ...basics.choices import Task
from ...basics.errors import InputError, choice
from ...inference.audit import audit_sentences, audit_summary
from ...inference.classifier import labels as label_names
from ...inference.exported import ExportedModel
from ...library.again import Draw, Sample
from ...library.recount import Recount
from ...views import Table
from ..data_sets.sources import find
from ..experiment import DATA_FOLDER, Experiment, Option
from ..finished_run import SummaryRun
from ..items import ALL, ORIGINAL
from ..published import Paper
from .nli_items import TRAINER, Labelled, recounts, sentence_rows, training_told
from .nli_judgements import Judgements
from .nli_pairs import KINDS, NEW, SOURCES, TWO_WAY, Source, map_head, read_sets
from .nli_views import paper_of
from .nli_views import sections as report_sections
from .nli_views import tables as report_tables

DATA = "negation-nli"


@dataclass(frozen=True, eq=False)
class NliRun(SummaryRun):
    """A finished evaluation; the columns of `items` are those of `Judgements.decide`."""

    stage: ClassVar[str] = Judgements.name
    clusters: ClassVar[str] = "original pairs"

    def tables(self) -> list[Table]:
        return report_tables(self)

    def remarks(self) -> list[str]:
        return audit_sentences(audit_summary(self.record.counts))

    @cached_property
    def paper(self) -> Paper:
        """What the paper prints of models of this family."""
        return paper_of(self.record.metadata["family"])

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
        """One row for each pair and split: whether the label is right. Two-way accuracy has a metric of its own.

        The three new pairs of one original pair are a cluster.
        """
        two_way = len(self.record.identity["labels"]) == len(TWO_WAY)
        coarse = [source for source, labels in SOURCES.items() if two_way and len(labels) > len(TWO_WAY)]
        right = self.items.select(
            "dataset",
            "condition",
            "split",
            metric=pl.when(pl.col("dataset").is_in(coarse))
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
        return sentence_rows(self.items.lazy())

    def again(self, draw: Draw) -> Iterator[Sample]:
        labels, longest = self.record.identity["labels"], self.record.identity["max length"]
        yield Sample("pairs", [Labelled(row, labels, longest) for row in draw.rows(self.sentence_rows())])

    def recounts(self) -> Iterator[Recount]:
        return recounts(self.items, self.summary, self.record.identity["labels"])


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
        return Judgements.plan(exported, head, sets, max_length=self.max_length)

    sections = staticmethod(report_sections)


nli = Nli.function()
