"""How probable are whole sentences? `negengine likelihood`: options, results, and what a run would do."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar

import polars as pl

from ...basics.errors import InputError, choice
from ...basics.printable import counted
from ...basics.reading import exists
from ...inference.exported import ExportedModel
from ...library.again import Draw, Sample
from ...library.model import Model
from ...library.options import RunOptions, opening_of, run_folder, shard_of
from ...library.recount import Recount
from ...runs.shard import Shard
from ...runs.stage import ModelOptions
from ...text.user_table import TableLike
from ...views import Table
from ..data_sets.sources import find
from ..experiment import Experiment, Option
from ..finished_run import OUTCOMES, SummaryRun
from ..items import ALL
from ..probe.probe import ProbePlan
from .likelihood_items import SIDE, Faults, refuse_incomplete, refuse_result_names
from .likelihood_scores import Encoder
from .likelihood_stage import COLUMNS, LOG_LIKELIHOOD, NAME, ROWS_PER_PART, Likelihoods, Prepared
from .likelihood_summary import MEANS, RATES, condition, item_name, metrics, recounts, sentence_rows, sentences, splits
from .likelihood_tables import BLIMP, GOOD, Columns, Method, open_tables, scan_tables
from .likelihood_views import sections as report_sections
from .likelihood_views import tables

_SECONDS = 1.0  # of the measurement
_TRIED = 64  # sentences whose time is measured


def plan_of(stage: Likelihoods, options: ModelOptions, devices: int, folder: Path, shard: Shard) -> ProbePlan:
    """Count the sentences and tokens of a run, and estimate its time from a few of its sentences.

    Raises:
        InputError: A row is bad, or the model cannot be opened.
    """
    own = shard.parts(len(stage.tables.parts))
    sentences = tokens = copies = read = longest = 0
    skipped: dict[str, int] = {}
    tried: list[Prepared] = []
    for number in own:
        part = stage.prepare(number)
        tried = tried or [part] * bool(part.texts)
        sentences, tokens = sentences + len(part.texts), tokens + sum(len(one.scored) for one in part.sentences)
        copies += sum(len(one.scored) if stage.method else 1 for one in part.sentences)
        read += _tokens_read(stage, part)
        longest = max([longest, *(len(one.ids) for one in part.sentences)])
        part.rows.count_reasons(skipped)
    work: dict[str, int | float] = {
        "sentences": sentences,
        "tokens to score": tokens,
        "sentences that the model reads" if stage.method is None else "masked copies that the model reads": copies,
        "tokens that the model reads": read,
        "tokens of the longest sentence": longest,
        "parts of this run" if shard.is_whole else f"parts of shard {shard}": len(own),
    }
    if skipped:
        work["rows that would be skipped"] = sum(skipped.values())
    if tried:
        speed = _tokens_a_second(stage, options, tried[0]) * devices
        work |= {"tokens a second": round(speed), "minutes": read / speed / 60}
    return ProbePlan(stage.exported.name, work, skipped, folder)


def _tokens_read(stage: Likelihoods, part: Prepared) -> int:
    """How many tokens the model reads; windows of a causal model overlap, which is not counted."""
    longest = stage.exported.max_length
    if stage.method is None:
        return sum(len(one.ids) for one in part.sentences)
    return sum(len(one.scored) * min(len(one.ids), longest) for one in part.sentences)


def _tokens_a_second(stage: Likelihoods, options: ModelOptions, part: Prepared) -> float:
    """Measured on sentences of middle length, after a first try."""
    order = sorted(range(len(part.texts)), key=lambda i: len(part.sentences[i].ids))
    first = max(0, (len(order) - _TRIED) // 2)
    some = [part.sentences[i] for i in order[first : first + _TRIED]]
    tried = Prepared(part.rows, part.file, [""] * len(some), some)
    model = stage.open(options)
    stage.logprobs(model, some, lambda *_: None)
    done, start = 0, time.perf_counter()
    while (seconds := time.perf_counter() - start) < _SECONDS:
        stage.logprobs(model, some, lambda *_: None)
        done += _tokens_read(stage, tried)
    return done / seconds


@dataclass(frozen=True, eq=False)
class LikelihoodRun(SummaryRun):
    """A finished run; `items` has one row for each sentence."""

    stage: ClassVar[str] = Likelihoods.name
    metrics: ClassVar[Sequence[str]] = (*RATES, *MEANS)
    condition_keys: ClassVar[Sequence[str]] = ("data sha256", "scores", "method")

    @cached_property
    def columns(self) -> Columns:
        return Columns.from_json(self.record.metadata[COLUMNS])

    @property
    def is_causal(self) -> bool:
        """A causal model gives exact likelihoods."""
        return bool(self.record.identity["scores"] == LOG_LIKELIHOOD)

    def tables(self) -> list[Table]:
        return tables(self.summary, self.columns, self.model_name, is_causal=self.is_causal)

    def methods(self, test: str) -> str:
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
        """None for a causal model."""
        name = self.record.identity["method"]
        return None if name is None else Method(name)

    def remarks(self) -> list[str]:
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
        """One row for each pair, or for each sentence."""
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
        return sentence_rows(self.items.lazy(), self.columns)

    def again(self, draw: Draw) -> Iterator[Sample]:
        yield sentences(draw, self.sentence_rows(), self.method)

    def recounts(self) -> Iterator[Recount]:
        return recounts(self.folder, self.items, self.summary, self.columns)


def _column(what: str) -> Option:
    return Option(what, metavar="COLUMN")


@dataclass(frozen=True, eq=False)
class Likelihood(Experiment):
    """Compute likelihoods of whole sentences, and accuracies on minimal pairs such as BLiMP.

    Masked models: --method original (Salazar and others 2020) or within-word-l2r (Kauf and Ivanova 2023).
    Causal models need no method: their log-likelihoods are exact.
    """

    name = "likelihood"
    title = "Likelihoods of sentences"
    references = "negengine.engine.experiments.likelihood:references.toml"
    example = "negengine likelihood mini sentences.csv --per-word"
    has_plan = True
    results = LikelihoodRun
    rows_per_part: ClassVar[int] = ROWS_PER_PART

    data: Annotated[
        TableLike,
        Option(
            "CSV, TSV, JSON lines or Parquet; a folder of such files; or blimp.",
            metavar="FILE",
            kind=str,
            is_file=True,
            words=(BLIMP,),
        ),
    ]
    method: Annotated[str | None, Option("How a masked model scores a sentence (default: original).", kind=Method)] = (
        None
    )
    sentence: Annotated[str | None, _column("The column with the sentences (default: sentence or text).")] = None
    good: Annotated[
        str | None, _column("The column with the good sentence of each pair (default: sentence_good or good).")
    ] = None
    bad: Annotated[
        str | None, _column("The column with the bad sentence of each pair (default: sentence_bad or bad).")
    ] = None
    pair: Annotated[
        str | None, _column("If a pair is two rows: the column with the name of the pair (default: none).")
    ] = None
    acceptable: Annotated[
        str | None,
        _column(
            "If a pair is two rows: the column that says which is good, by true and false or 1 and 0 (default: none)."
        ),
    ] = None
    group: Annotated[
        str | Sequence[str],
        Option(
            "A column with conditions: each gets a mean (default: group); may be repeated.",
            metavar="COLUMN",
            kind=list[str],
        ),
    ] = ()
    cluster: Annotated[
        str | None, _column("A column with the same value in rows that depend on each other (default: cluster).")
    ] = None
    windows: Annotated[bool, Option("Score sentences that are too long for the model in parts (windows).")] = False
    per_token: Annotated[bool, Option("Write tokens.parquet: the score of each token.")] = False
    per_word: Annotated[bool, Option("Write words.parquet: the score of each word.")] = False
    skip_bad: Annotated[bool, Option("Skip rows that cannot be scored, and write them to skipped.parquet.")] = False

    def stage(self, exported: ExportedModel) -> Likelihoods:
        if exported.is_causal and self.method is not None:
            raise InputError(
                f"--method {self.method}: {exported.name} is a causal model, whose log-likelihoods are exact; "
                "leave --method out"
            )
        kind = None if exported.is_causal else choice(Method, "--method", self.method or Method.ORIGINAL)
        is_blimp = isinstance(self.data, str) and self.data == BLIMP and not exists(Path(BLIMP))
        name, tables = open_tables(find(BLIMP) if is_blimp else self.data)
        columns = Columns.of(
            tables[0],
            sentence=self.sentence,
            good=self.good,
            bad=self.bad,
            pair=self.pair,
            acceptable=self.acceptable,
            group=self.group,
            cluster=self.cluster,
        )
        for table in tables:
            refuse_result_names(table.name, table.columns)
        longest = None if self.windows else exported.max_length
        faults = Faults(columns, Encoder(exported.tokenizer, exported.is_causal), longest)
        known = scan_tables(
            name, tables, columns.texts, faults, skip_bad=self.skip_bad, rows_per_part=self.rows_per_part
        )
        refuse_result_names(tables[0].name, list(known.schema))  # rows of JSON lines can have further columns
        if columns.pair is not None and not self.skip_bad:
            refuse_incomplete(known, columns, faults)
        details = {"windows": self.windows, "per_token": self.per_token, "per_word": self.per_word}
        return Likelihoods(exported, known, columns, kind, skip_bad=self.skip_bad, **details)

    def plan(self, model: Model, options: RunOptions) -> ProbePlan:
        stage = self.stage(model.exported)
        folder, shard = run_folder(model, options, stage.name), shard_of(options)
        return plan_of(stage, opening_of(model), len(model.devices), folder, shard)

    sections = staticmethod(report_sections)


likelihood = Likelihood.function()
