"""`ng.diagnostics`: the diagnostics of Ettinger (2020) as a library function, and their results."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Unpack

import polars as pl

from ...datasets.sources import find
from ...library.again import Draw, Sample
from ...library.call import recorded
from ...library.model import ModelLike, open_model
from ...library.options import RunOptions
from ...library.recount import Recount
from ...library.run import ShardRun
from ...runs.record import mask_token
from ...views import Table
from ..items import ALL, ORIGINAL, SEPARATOR
from ..summary_run import SummaryRun, run_probe
from .files import read_diagnostics
from .judged import METRICS, SENSITIVITY
from .recount import recounts
from .sentences import sentence_rows
from .stage import DRAWS, DiagnosticsStage
from .tables import main_table, tables

DATA = "lm-diagnostics"
_MOST_WORDS = 8


@dataclass(frozen=True, eq=False)
class DiagnosticsRun(SummaryRun):
    """A finished run.

    Attributes:
        items: The content of items.parquet: one row for each context, its perturbed copies, or a pair of contexts.
        summary: The content of summary.parquet.
    """

    stage: ClassVar[str] = DiagnosticsStage.name
    clusters: ClassVar[str] = "contexts"
    metrics: ClassVar[Sequence[str]] = METRICS
    condition_keys: ClassVar[Sequence[str]] = ("data sha256", "draws", "seed")

    def tables(self) -> list[Table]:
        """Accuracies, sensitivities and paired tests; the main table at the end."""
        return [*tables(self.summary, self.model_name), *self.main_tables()]

    def main_tables(self) -> list[Table]:
        """One table: a row for each data set."""
        return [main_table(self.summary, self.model_name)]

    def methods(self, test: str) -> str:
        """See `Run`."""
        return (
            f"We ran the diagnostics of {test}. Accuracy of the expected word among the five most probable tokens, "
            f"with 95 % intervals: {self.told(ORIGINAL, ALL, 'accuracy@5')}. Share of items in which the good "
            f"completion is more probable than the bad one: {self.told(ORIGINAL, ALL, SENSITIVITY)}."
        )

    def remarks(self) -> list[str]:
        """Which words are not one token of the model."""
        said = []
        for dataset, words in self.outside.items():
            shown = ", ".join(words[:_MOST_WORDS]) + (", …" if len(words) > _MOST_WORDS else "")
            said.append(f"{dataset}: words that are not one token of the model: {len(words)} ({shown})")
        return said

    @property
    def outside(self) -> dict[str, list[str]]:
        """Data set → its words that are not one token of the model, in alphabetical order."""
        columns = [self.items.select("dataset", word=name) for name in ("outside_expected", "outside_compared")]
        words = pl.concat(columns).with_columns(pl.col("word").str.split(SEPARATOR)).explode("word")
        found = words.filter(pl.col("word") != "").unique(maintain_order=True).sort("word")
        by_dataset = found.group_by("dataset", maintain_order=True).agg("word")
        known = dict(by_dataset.iter_rows())
        return {
            dataset: known[dataset] for dataset in self.items["dataset"].unique(maintain_order=True) if dataset in known
        }

    def sentence_rows(self) -> pl.LazyFrame:
        """One text for each item; see `sentences.sentence_rows`."""
        return sentence_rows(self.items.lazy(), mask_token(self.record.metadata, self.folder))

    def again(self, draw: Draw) -> Iterator[Sample]:
        """See `Run`."""
        rows = draw.rows(self.sentence_rows())
        yield Sample("items", [draw.question(row, row["expected"].split(SEPARATOR)) for row in rows])

    def recounts(self) -> Iterator[Recount]:
        """See `Run`."""
        return recounts(self.items, self.summary)


@recorded(files=("data",))
def diagnostics(
    model: ModelLike,
    *,
    data: str | Path | None = None,
    dataset: str | Sequence[str] = (),
    draws: int = DRAWS,
    seed: int = 0,
    **options: Unpack[RunOptions],
) -> DiagnosticsRun | ShardRun:
    """Compare a model's predictions with people's predictions (Ettinger 2020).

    Args:
        model: From `load`, or the folder or name of an exported model.
        data: The folder of the files, or one of them; by default the data set `lm-diagnostics`.
        dataset: CPRAG-102, ROLE-88, NEG-136-SIMP or NEG-136-NAT, one or several; all by default.
        draws: How many times the words of each context are shuffled.
        seed: Seed of the shuffles.
        **options: See `RunOptions`.

    Returns:
        The finished run; a `ShardRun` if only a shard was asked for.

    Raises:
        InputError: An option or a file is wrong, the run folder belongs to another run, or the disk is full.
    """
    opened = open_model(model)
    path = find(DATA, None if data is None else Path(data))
    rows = read_diagnostics(path, [dataset] if isinstance(dataset, str) else dataset)
    stage = DiagnosticsStage.plan(opened.exported, rows, draws=draws, seed=seed)
    return run_probe(stage, DiagnosticsRun, opened, options)
