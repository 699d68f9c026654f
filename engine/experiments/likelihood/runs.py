"""`ng.likelihood`: likelihoods of a user's own sentences as a library function, and its results."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Unpack

import polars as pl

from ...datasets.sources import find
from ...errors import InputError, choice
from ...files.reading import exists
from ...inference.exported import ExportedModel
from ...library.again import Draw, Sample
from ...library.call import recorded
from ...library.model import Model, ModelLike, open_model
from ...library.options import RunOptions, opening_of, run_folder, shard_of
from ...library.recount import Recount
from ...library.run import ShardRun
from ...printable import counted
from ...text.user_table import TableLike
from ...views import Table
from ..items import ALL
from ..probe.plan import ProbePlan
from ..summary_run import OUTCOMES, SummaryRun, run_probe
from .again import sentences
from .choices import BLIMP, Method
from .columns import GOOD, Columns
from .encoding import Encoder
from .faults import Faults
from .items import SIDE, refuse_result_names
from .pairs import refuse_incomplete
from .plan import plan_of
from .recount import recounts
from .sentences import item_name, sentence_rows
from .source import open_tables, scan_tables
from .stage import COLUMNS, LOG_LIKELIHOOD, NAME, ROWS_PER_PART, Likelihoods
from .summary import MEANS, RATES, condition, metrics, splits
from .tables import tables


@dataclass(frozen=True, eq=False)
class LikelihoodRun(SummaryRun):
    """A finished run.

    Attributes:
        items: The content of items.parquet: one row for each sentence.
        summary: The content of summary.parquet.
    """

    stage: ClassVar[str] = Likelihoods.name
    metrics: ClassVar[Sequence[str]] = (*RATES, *MEANS)
    condition_keys: ClassVar[Sequence[str]] = ("data sha256", "scores", "method")

    @cached_property
    def columns(self) -> Columns:
        """What the columns of the user's table are for."""
        return Columns.from_json(self.record.metadata[COLUMNS])

    @property
    def is_causal(self) -> bool:
        """Whether the likelihoods are exact ones, of a causal model."""
        return bool(self.record.identity["scores"] == LOG_LIKELIHOOD)

    def tables(self) -> list[Table]:
        """Accuracies of pairs, or means of sentences."""
        return tables(self.summary, self.columns, self.model_name, is_causal=self.is_causal)

    def methods(self, test: str) -> str:
        """See `Run`."""
        n = int(self.record.counts["sentences"])
        cited = f" ({test})" if test else ""
        if self.is_causal:
            scored = f"We computed the log-likelihoods of {counted(n, 'sentence')} from left to right"
        else:
            together = ", each masked with the later tokens of its word" if self.method is Method.WITHIN_WORD else ""
            scored = (
                f"We computed the pseudo-log-likelihoods of {counted(n, 'sentence')}, token by token{together}{cited}"
            )
        named = condition(self.columns)
        if not self.columns.has_pairs:
            return (
                f"{scored}. Mean per token, natural logarithm, with 95 % interval: {self.told(named, ALL, MEANS[1])}."
            )
        rate = next(iter(RATES))
        return (
            f"{scored}. A pair counts as correct where its good sentence is the more probable one. Accuracy, as a "
            f"fraction with 95 % interval: {self.told(named, ALL, rate, digits=3)}."
        )

    @property
    def method(self) -> Method | None:
        """Which tokens a masked model masks together; None for a causal model."""
        name = self.record.identity["method"]
        return None if name is None else Method(name)

    def remarks(self) -> list[str]:
        """What does not count, and what a likelihood cannot say."""
        counts, said = self.record.counts, []
        if counts["with unknown tokens"]:
            what = "sentences hold a word that the vocabulary cannot express; its token is the unknown one"
            said.append(f"{counts['with unknown tokens']:,} {what}")
        if counts["skipped"]:
            said.append(f"{counted(int(counts['skipped']), 'row was', 'rows were')} skipped: skipped.parquet says why")
        if self.columns.pair is not None:
            incomplete = self.items.filter((pl.col(SIDE) == GOOD) & pl.col(RATES["accuracy"]).is_null())
            said += [f"{len(incomplete):,} pairs are not complete and do not count"] * (not incomplete.is_empty())
        return said

    def outcomes(self) -> pl.DataFrame:
        """See `Run`; one row for each pair, or for each sentence."""
        columns, dataset = self.columns, self.record.metadata[NAME]
        wanted = metrics(columns)
        items = self.items.filter(pl.col(SIDE) == GOOD) if columns.has_pairs else self.items
        cluster = pl.lit(None, pl.String) if columns.cluster is None else pl.col(columns.cluster).cast(pl.String)
        every = [pl.lit(ALL), *splits(columns)]
        values = [pl.col(own).cast(pl.Float64).alias(name) for name, own in wanted.items()]
        return (
            pl.concat(
                items.select(
                    *values,
                    dataset=pl.lit(dataset),
                    condition=pl.lit(condition(columns)),
                    split=split,
                    item=item_name(items.columns),
                    cluster=cluster,
                )
                for split in every
            )
            .unpivot(list(wanted), index=["dataset", "condition", "split", "item", "cluster"], variable_name="metric")
            .drop_nulls(["split", "value"])
            .select(OUTCOMES)
        )

    def sentence_rows(self) -> pl.LazyFrame:
        """The sentences; see `sentences.sentence_rows`."""
        return sentence_rows(self.items.lazy(), self.columns)

    def again(self, draw: Draw) -> Iterator[Sample]:
        """See `Run`."""
        yield sentences(draw, self.sentence_rows(), self.method)

    def recounts(self) -> Iterator[Recount]:
        """See `Run`."""
        return recounts(self.folder, self.items, self.summary, self.columns)


@recorded(files=("data",), words=(BLIMP,))
def likelihood(
    model: ModelLike,
    data: TableLike,
    *,
    method: str | None = None,
    sentence: str | None = None,
    good: str | None = None,
    bad: str | None = None,
    pair: str | None = None,
    acceptable: str | None = None,
    group: str | Sequence[str] = (),
    cluster: str | None = None,
    windows: bool = False,
    per_token: bool = False,
    per_word: bool = False,
    skip_bad: bool = False,
    **options: Unpack[RunOptions],
) -> LikelihoodRun | ShardRun:
    """Compute how probable whole sentences are: (pseudo-)log-likelihoods, and the accuracy on minimal pairs.

    Args:
        model: From `load`, or the folder or name of an exported model, masked or causal.
        data: A file (CSV, TSV, JSON lines, Parquet), a folder of such files, a frame, a dictionary
            of columns; or `blimp`, once `data get blimp` has fetched it.
        method: `original` (Salazar et al. 2020, the default) or `within-word-l2r` (Kauf and Ivanova 2023); for masked
            models. Causal models have exact log-likelihoods.
        sentence: The column with the sentences; by default `sentence` or `text`.
        good: The column with the good sentences of pairs; by default `sentence_good` or `good`.
        bad: The column with the bad ones; by default `sentence_bad` or `bad`.
        pair: Where the sentences of a pair are two rows: the column whose value they share.
        acceptable: There, the column that says which is the good one: true or false, good or bad, 1 or 0.
        group: Columns whose values get figures of their own.
        cluster: The column that says which rows depend on each other.
        windows: Whether to read sentences that are longer than the model in windows.
        per_token: Whether to write tokens.parquet, with the score of each token.
        per_word: Whether to write words.parquet, with the score of each word.
        skip_bad: Whether to skip rows that cannot be scored, and to write them to skipped.parquet.
        **options: See `RunOptions`.

    Returns:
        The finished run; a `ShardRun` if only a shard was asked for.

    Raises:
        InputError: An option or a row is wrong, the run folder belongs to another run, or the disk is full.
    """
    opened = open_model(model)
    columns: dict[str, Any] = {"sentence": sentence, "good": good, "bad": bad, "pair": pair, "acceptable": acceptable}
    columns |= {"group": group, "cluster": cluster}
    details = {"windows": windows, "per_token": per_token, "per_word": per_word, "skip_bad": skip_bad}
    stage = plan_stage(opened, data, columns, method, details)
    return run_probe(stage, LikelihoodRun, opened, options)


def plan_likelihood(
    model: ModelLike,
    data: TableLike,
    *,
    method: str | None = None,
    windows: bool = False,
    per_token: bool = False,
    per_word: bool = False,
    skip_bad: bool = False,
    columns: Mapping[str, Any],
    **options: Unpack[RunOptions],
) -> ProbePlan:
    """What `likelihood` would do; nothing is written. Arguments and errors are those of `likelihood`.

    Args:
        model: See `likelihood`.
        data: See `likelihood`.
        method: See `likelihood`.
        windows: See `likelihood`.
        per_token: See `likelihood`.
        per_word: See `likelihood`.
        skip_bad: See `likelihood`.
        columns: The columns that are named: sentence, good, bad, pair, acceptable, group, cluster.
        **options: See `RunOptions`.
    """
    opened = open_model(model)
    details = {"windows": windows, "per_token": per_token, "per_word": per_word, "skip_bad": skip_bad}
    stage = plan_stage(opened, data, columns, method, details)
    return plan_of(
        stage, opening_of(opened), len(opened.devices), run_folder(opened, options, stage.name), shard_of(options)
    )


def plan_stage(
    model: Model,
    data: TableLike,
    columns: Mapping[str, Any],
    method: str | None,
    details: Mapping[str, bool],
    *,
    rows_per_part: int = ROWS_PER_PART,
) -> Likelihoods:
    """Plan a run; all rows are read and checked.

    Args:
        model: The model.
        data: See `likelihood`.
        columns: Those that are named; see `Columns.of`.
        method: See `likelihood`.
        details: windows, per_token, per_word and skip_bad; see `likelihood`.
        rows_per_part: Rows of a part.

    Raises:
        InputError: As for `likelihood`.
    """
    exported = model.exported
    if exported.is_causal and method is not None:
        raise InputError(
            f"--method {method}: {model.name} is a causal model, whose log-likelihoods are exact; leave --method out"
        )
    kind = None if exported.is_causal else choice(Method, "--method", method or Method.ORIGINAL)
    name, tables = open_tables(find(BLIMP) if data == BLIMP and not exists(Path(BLIMP)) else data)
    found = Columns.of(tables[0], **columns)
    for table in tables:
        refuse_result_names(table.name, table.columns)
    faults = Faults(found, Encoder(exported.tokenizer, exported.is_causal), _longest(exported, details))
    known = scan_tables(name, tables, found.texts, faults, skip_bad=details["skip_bad"], rows_per_part=rows_per_part)
    refuse_result_names(tables[0].name, list(known.schema))  # rows of JSON lines can have further columns
    if found.pair is not None and not details["skip_bad"]:
        refuse_incomplete(known, found, faults)
    return Likelihoods(exported, known, found, kind, **details)


def _longest(exported: ExportedModel, details: Mapping[str, bool]) -> int | None:
    return None if details["windows"] else exported.max_length
