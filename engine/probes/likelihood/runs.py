"""`ng.likelihood`: likelihoods of a user's own sentences as a library function, and its results."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Unpack

import polars as pl

from ...errors import InputError, choice
from ...library.call import recorded
from ...library.model import Model, ModelLike, open_model
from ...library.options import RunOptions
from ...library.recount import Recount
from ...library.run import ShardRun
from ...stimuli import TableLike
from ...tables import Table
from ..items import ALL
from ..summary_run import OUTCOMES, SummaryRun, run_probe
from .choices import Method
from .columns import GOOD, Columns
from .encoding import Encoder, tokenizer_of
from .faults import Faults
from .items import SIDE, refuse_result_names
from .pairs import refuse_incomplete
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
        n = self.record.counts["sentences"]
        cited = f" ({test})" if test else ""
        if self.is_causal:
            scored = f"We computed the log-likelihoods of {n:,} sentences from left to right"
        else:
            together = ", each masked with the later tokens of its word" if self._method is Method.WITHIN_WORD else ""
            scored = f"We computed the pseudo-log-likelihoods of {n:,} sentences, token by token{together}{cited}"
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
    def _method(self) -> Method | None:
        name = self.record.identity["method"]
        return None if name is None else Method(name)

    def remarks(self) -> list[str]:
        """What does not count, and what a likelihood cannot say."""
        counts, said = self.record.counts, []
        if counts["with unknown tokens"]:
            what = "sentences hold a word that the vocabulary cannot express; its token is the unknown one"
            said.append(f"{counts['with unknown tokens']:,} {what}")
        if counts["skipped"]:
            said.append(f"{counts['skipped']:,} rows were skipped: skipped.parquet says why")
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

    def recounts(self) -> Iterator[Recount]:
        """See `Run`."""
        return recounts(self.folder, self.items, self.summary, self.columns)


@recorded(files=("stimuli",))
def likelihood(
    model: ModelLike,
    stimuli: TableLike,
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
    rows_per_part: int = ROWS_PER_PART,
    **options: Unpack[RunOptions],
) -> LikelihoodRun | ShardRun:
    """Compute how probable whole sentences are: (pseudo-)log-likelihoods, and the accuracy on minimal pairs.

    Args:
        model: From `load`, or the folder or name of an exported model, masked or causal.
        stimuli: A file (CSV, TSV, JSON lines, Parquet), a folder of such files, a frame, or columns.
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
        rows_per_part: Rows of a part.
        **options: See `RunOptions`.

    Returns:
        The finished run; a `ShardRun` if only a shard was asked for.

    Raises:
        InputError: An option or a row is wrong, the run folder belongs to another run, or the disk is full.
    """
    opened = open_model(model)
    columns = {"sentence": sentence, "good": good, "bad": bad, "pair": pair, "acceptable": acceptable}
    stage = plan_stage(
        opened,
        stimuli,
        columns={**columns, "group": group, "cluster": cluster},
        method=method,
        windows=windows,
        per_token=per_token,
        per_word=per_word,
        skip_bad=skip_bad,
        rows_per_part=rows_per_part,
    )
    return run_probe(stage, LikelihoodRun, opened, options)


def plan_stage(
    model: Model,
    stimuli: TableLike,
    *,
    columns: Mapping[str, Any],
    method: str | None,
    windows: bool,
    per_token: bool,
    per_word: bool,
    skip_bad: bool,
    rows_per_part: int = ROWS_PER_PART,
) -> Likelihoods:
    """Plan a run; arguments as for `likelihood`, `columns` those of `Columns.of`."""
    is_causal = model.exported.task == "text-generation"
    if is_causal and method is not None:
        raise InputError(
            f"--method {method}: {model.name} is a causal model, whose log-likelihoods are exact; leave it out"
        )
    name, tables = open_tables(stimuli)
    found = Columns.of(tables[0], **columns)
    for table in tables:
        refuse_result_names(table.name, table.columns)
    kind = None if is_causal else choice(Method, "--method", method or Method.ORIGINAL)
    encoder = Encoder(tokenizer_of(model.exported), is_causal)
    faults = Faults(found, encoder, None if windows else model.exported.max_length)
    known = scan_tables(name, tables, found.texts, faults, skip_bad=skip_bad, rows_per_part=rows_per_part)
    if found.pair is not None and not skip_bad:
        refuse_incomplete(known, found, faults)
    return Likelihoods(model.exported, known, found, kind, windows, per_token, per_word, skip_bad)
