"""`ng.nli`: natural language inference with negation (Hossain et al. 2020) as a library function, and its results."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Unpack

import polars as pl

from ...datasets.sources import find
from ...errors import choice
from ...inference.audit import audit_summary
from ...inference.classifier import TASK
from ...inference.classifier import labels as label_names
from ...library.again import Draw, Sample
from ...library.call import recorded
from ...library.model import ModelLike, open_model
from ...library.options import RunOptions
from ...library.recount import Recount
from ...library.run import ShardRun
from ...views import Table
from ..items import ALL, ORIGINAL
from ..summary_run import SummaryRun, run_probe
from .again import Labelled
from .judgements import Judgements
from .labels import SOURCES, TWO_WAY, Source, map_head
from .pairs import KINDS, NEW, read_sets
from .recount import recounts
from .sentences import sentence_rows
from .tables import accuracy_table, comparison_table, drops_table, label_table
from .trained import TRAINER, training_told

DATA = "negation-nli"


@dataclass(frozen=True, eq=False)
class NliRun(SummaryRun):
    """A finished evaluation.

    Attributes:
        items: The content of items.parquet; see `Judgements.decide`.
    """

    stage: ClassVar[str] = Judgements.name
    clusters: ClassVar[str] = "original pairs"

    def tables(self) -> list[Table]:
        """Accuracies as in the paper's Table 7, drops, label shares as in Table 5, the types of pairs compared."""
        drops = drops_table(self.summary)
        return [
            accuracy_table(
                self.summary, self.model_name, self.record.metadata["family"], audit_summary(self.record.counts)
            ),
            *([drops] if drops else []),
            label_table(self.summary),
            comparison_table(self.summary),
        ]

    def methods(self, test: str) -> str:
        """See `Run`."""
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
        """See `Run`."""
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
        """See `Run`."""
        labels, longest = self.record.identity["labels"], self.record.identity["max length"]
        yield Sample("pairs", [Labelled(row, labels, longest) for row in draw.rows(self.sentence_rows())])

    def recounts(self) -> Iterator[Recount]:
        """See `Run`."""
        return recounts(self.items, self.summary, self.record.identity["labels"])


@recorded(files=("data", "original"))
def nli(
    model: ModelLike,
    *,
    data: str | Path | None = None,
    source: str | Sequence[str] = (),
    original: Mapping[str, str | Path] | None = None,
    labels: str | None = None,
    max_length: int | None = None,
    **options: Unpack[RunOptions],
) -> NliRun | ShardRun:
    """Judge the pairs with negation of Hossain et al. (2020) with a classifier (section 6.1).

    Args:
        model: From `load`, or the folder or name of a model that was exported for text-classification.
        data: The folder of the benchmark; by default the data set `negation-nli`.
        source: RTE, SNLI or MNLI, one or several; all by default.
        original: Source → its original dev set in the layout of GLUE; drops are counted from it.
        labels: The labels in the order of the logits, separated by commas, if the model does not name them.
        max_length: Largest number of tokens in a pair; the paper's 128 by default, or what the model takes if that is
            less.
        **options: See `RunOptions`.

    Returns:
        The finished run; a `ShardRun` if only a shard was asked for.

    Raises:
        InputError: An option is wrong, a file is missing or bad, the run folder belongs to another run, or the disk is
            full.
    """
    wanted = [source] if isinstance(source, str) else source
    sources = [choice(Source, "--source", str(name)) for name in wanted or SOURCES]
    dev_sets = {str(choice(Source, "--original", str(name))): Path(file) for name, file in (original or {}).items()}
    opened = open_model(model, task=TASK)
    head = map_head(label_names(opened.exported), opened.name, labels)
    sets = read_sets(find(DATA, None if data is None else Path(data)), dev_sets, sources)
    stage = Judgements.plan(opened.exported, head, sets, max_length=max_length)
    return run_probe(stage, NliRun, opened, options)
