"""What does a model say at the masks of a user's own sentences? `negengine probe`: options, results, plan."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import polars as pl

from ...basics.choices import TargetMethod
from ...basics.errors import InputError, check_number, choice
from ...basics.printable import counted
from ...inference.exported import ExportedModel
from ...inference.model import LanguageModel
from ...inference.words import refuse_undefined
from ...library.again import Draw, Sample
from ...library.model import Model
from ...library.options import RunOptions, opening_of, run_folder, shard_of
from ...library.recount import Recount
from ...library.shown import Shown
from ...runs.record import mask_token
from ...runs.shard import Shard
from ...runs.stage import ModelOptions
from ...text.user_table import TableLike, open_table
from ...views import Column, Table
from ..experiment import Experiment, Option
from ..finished_run import OUTCOMES, SummaryRun
from ..items import ALL
from ..vocabulary import Ranked, Vocabulary
from .probe_again import recounts, samples, sentence_rows
from .probe_items import DATASET, METRICS, SKIPPED_FILE, splits
from .probe_sentences import ROW, TARGET_COLUMN, TARGET_TOKENS, Columns, Encoded, FewValues, refuse_result_names
from .probe_stage import COLUMNS, ROWS_PER_PART, OwnStimuli
from .probe_views import groups_table, pairs_table, skipped_table, targets_table
from .probe_views import sections as report_sections

_TRIED = 256  # sentences whose time is measured
_SECONDS = 1.0  # of the measurement


@dataclass(frozen=True, eq=False)
class ProbePlan(Shown):
    """A run that was planned, not done."""

    model: str
    work: Mapping[str, int | float]  # quantity → number, as a person reads them
    skipped: Mapping[str, int]  # reason → how many rows would be skipped
    folder: Path

    def tables(self) -> list[Table]:
        work = pl.DataFrame(
            {"what": list(self.work), "number": [float(value) for value in self.work.values()]},
            schema={"what": pl.String, "number": pl.Float64},
        ).with_columns(decimals=pl.when(pl.col("number") == pl.col("number").round(0)).then(0).otherwise(2))
        columns = [Column("", "what"), Column("number", "number", decimals="decimals")]
        return [Table(f"Plan: {self.model}", work, columns)]

    def remarks(self) -> list[str]:
        return [
            *(f"{counted(n, 'row')} would be skipped: {reason}" for reason, n in self.skipped.items()),
            f"Nothing was written. Without --plan, the results are written to {self.folder}",
        ]

    def document(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "run": str(self.folder),
            "work": dict(self.work),
            "skipped": dict(self.skipped),
        }


def plan_of(stage: OwnStimuli, options: ModelOptions, devices: int, folder: Path, shard: Shard) -> ProbePlan:
    """Count the items and tokens of a run, and estimate its time from a few of its sentences.

    Raises:
        InputError: A row is bad, or the model cannot be opened.
    """
    stage.check(lambda _: None)
    own = shard.parts(len(stage.stimuli.parts))
    rows = sentences = tokens = several = 0
    skipped: dict[str, int] = {}
    tried: list[Encoded] = []
    for number in own:
        asked = stage.prepare(number)
        tried = tried or [asked]
        rows, sentences = rows + len(asked.rows.frame), sentences + len(asked.texts)
        tokens += asked.tokens
        several += int((asked.words.counts > 1).sum())
        asked.rows.count_reasons(skipped)
    work: dict[str, int | float] = {
        "rows": rows,
        "items (rows × targets)": rows * len(stage.columns.targets),
        "different sentences": sentences,
        "tokens": tokens,
        "parts of this run" if shard.is_whole else f"parts of shard {shard}": len(own),
    }
    if several:
        work["targets of several tokens"] = several
    if skipped:
        work["rows that would be skipped"] = sum(skipped.values())
    if tried and tried[0].texts:
        speed = _tokens_a_second(stage.open(options), tried[0]) * devices
        work |= {"tokens a second": round(speed), "minutes": tokens / speed / 60}
    return ProbePlan(stage.exported.name, work, skipped, folder)


def _tokens_a_second(model: LanguageModel, asked: Encoded) -> float:
    """Measured on some of the sentences, after a first try."""
    some = max(asked.buckets, key=lambda bucket: bucket.ids.size)
    ids, mask = some.ids[:_TRIED], some.mask_position[:_TRIED]
    expected = np.zeros(len(ids), np.int32)
    model.decide(ids, mask, expected)
    done, start = 0, time.perf_counter()
    while (seconds := time.perf_counter() - start) < _SECONDS:
        model.decide(ids, mask, expected)
        done += ids.size
    return done / seconds


MOST_TOP = 100


@dataclass(frozen=True, eq=False)
class ProbeRun(SummaryRun):
    """A finished run; `items` has each row of the table, once for each of its targets."""

    stage: ClassVar[str] = OwnStimuli.name
    clusters: ClassVar[str] = "clusters"
    metrics: ClassVar[Sequence[str]] = METRICS
    condition_keys: ClassVar[Sequence[str]] = (
        "data sha256",
        "sentence",
        "targets",
        "groups",
        "vocabulary",
        "vocabulary sha256",
        "method",
    )

    @cached_property
    def columns(self) -> Columns:
        return Columns.from_json(self.record.metadata[COLUMNS])

    @cached_property
    def skipped(self) -> pl.DataFrame:
        """Columns row, line, reason, content; empty without `skip_bad`."""
        if SKIPPED_FILE not in self.record.files:
            return pl.DataFrame(schema={"row": pl.Int64, "line": pl.Int64, "reason": pl.String, "content": pl.String})
        return self.frame(SKIPPED_FILE)

    def tables(self) -> list[Table]:
        tables = [targets_table(self.summary, self.model_name, self.columns)]
        if not (groups := groups_table(self.summary, self.columns)).frame.is_empty():
            tables.append(groups)
        if len(self.columns.targets) > 1:
            tables.append(pairs_table(self.summary))
        return [*tables, *([skipped_table(self.skipped)] if len(self.skipped) else [])]

    def remarks(self) -> list[str]:
        if self.skipped.is_empty():
            return []
        rows = self.record.metadata["rows"]
        return [f"{len(self.skipped):,} of {rows:,} rows were skipped; {self.folder / SKIPPED_FILE} has the reasons"]

    @property
    def used(self) -> str:
        return f"targets of several tokens by {self.record.identity['method']}" if self._several else ""

    def methods(self, test: str) -> str:
        identity, rows = self.record.identity, self.items[ROW].n_unique()
        words = {"all": "all tokens", "words": "the tokens that are words"}
        listed = f"the {len(self.record.metadata['ranked words']):,} words of a list"
        told = "; ".join(
            f"{column}: {self._rate(column)}, mean log-probability {self._mean(column)}"
            for column in self.columns.targets
        )
        several = (
            f" {self._several:,} targets of several tokens were scored by the {identity['method']} method ({test})."
            if self._several
            else ""
        )
        return (
            f"In {counted(rows, 'sentence')} of our own we compared the probability and the rank of target words at "
            f"the mask among {words.get(str(identity['vocabulary']), listed)}.{several} Share of sentences in which "
            f"the target is the first choice, with 95 % intervals: {told}."
        )

    def outcomes(self) -> pl.DataFrame:
        """An item is a row of the table, a condition is a column of targets."""
        columns = self.columns
        frames = []
        cluster = pl.col(columns.clustered).cast(pl.String) if columns.clustered else pl.lit(None, pl.String)
        own = [name for name in columns.groups if name not in {*OUTCOMES, *METRICS}]
        for name, part in splits(self.items, columns):
            frames.append(
                part.select(
                    dataset=pl.lit(DATASET),
                    condition=TARGET_COLUMN,
                    split=pl.lit(name),
                    item=pl.col(ROW).cast(pl.String),
                    cluster=cluster,
                    **{group: pl.col(group).cast(pl.String) for group in own},
                    **{metric: pl.col(metric).cast(pl.Float64) for metric in METRICS},
                )
            )
        keys = ["dataset", "condition", "split", "item", "cluster", *own]
        unpivoted = pl.concat(frames).unpivot(METRICS, index=keys, variable_name="metric")
        return unpivoted.drop_nulls("value").select(*OUTCOMES, *own)

    def sentence_rows(self) -> pl.LazyFrame:
        return sentence_rows(self.items.lazy(), self.columns, mask_token(self.record.metadata, self.folder))

    def again(self, draw: Draw) -> Iterator[Sample]:
        ranked = Ranked(self.record.identity["vocabulary"], tuple(self.record.metadata["ranked words"]))
        yield from samples(draw, self.sentence_rows(), TargetMethod(self.record.identity["method"]), ranked)

    def recounts(self) -> Iterator[Recount]:
        return recounts(self.items, self.summary, self.columns)

    @cached_property
    def _several(self) -> int:
        """How many items have a target of several tokens."""
        return int((self.items[TARGET_TOKENS] > 1).sum())

    def _rate(self, target: str) -> str:
        return self._told(target, "is_top1", 100, " %", 1)

    def _mean(self, target: str) -> str:
        return self._told(target, "logprob", 1, "", 2)

    def _told(self, target: str, metric: str, scale: float, unit: str, digits: int) -> str:
        row: Mapping[str, Any] = self.summary.row(
            by_predicate=(pl.col("condition") == target) & (pl.col("split") == ALL) & (pl.col("metric") == metric),
            named=True,
        )
        ends = [row["low"], row["high"]]
        interval = f" [{', '.join(f'{scale * end:.{digits}f}' for end in ends)}]" if None not in ends else ""
        return f"{scale * row['value']:.{digits}f}{unit}{interval}"


def _column(what: str) -> Option:
    return Option(what, metavar="COLUMN")


def _columns(what: str) -> Option:
    return Option(what, metavar="COLUMN", kind=list[str])


@dataclass(frozen=True, eq=False)
class OwnSentences(Experiment):
    """Ask about your own sentences: probability and rank of target words, by group."""

    name = "probe"
    title = "Own stimuli"
    references = "negengine.engine.experiments.probe:references.toml"
    example = "negengine probe mini sentences.csv --group condition"
    has_plan = True
    results = ProbeRun

    data: Annotated[
        TableLike,
        Option(
            "A table with your sentences: CSV, TSV, JSON lines or Parquet.", metavar="FILE", kind=Path, is_file=True
        ),
    ]
    sentence: Annotated[str | None, _column("The column with the sentences, one [MASK] each (default: sentence).")] = (
        None
    )
    target: Annotated[
        str | Sequence[str], _columns("A column with words for the mask (default: target); may be repeated.")
    ] = ()
    group: Annotated[
        str | Sequence[str], _columns("A column with conditions to compare (default: group); may be repeated.")
    ] = ()
    cluster: Annotated[
        str | None, _column("A column with the same value in rows that depend on each other (default: cluster).")
    ] = None
    item: Annotated[
        str | None,
        _column("A column with the same value in the rows of a minimal pair (default: item or pair)."),
    ] = None
    top: Annotated[
        int, Option("How many of the model's first choices to keep for each sentence.", metavar="N", minimum=1)
    ] = 1
    targets: Annotated[
        str,
        Option(
            "The tokens that are ranked: all tokens, all words, or those in a file with one word per line.",
            metavar="all|words|FILE",
            is_file=True,
            words=tuple(Vocabulary),
        ),
    ] = Vocabulary.ALL.value
    method: Annotated[str, Option("How targets of several tokens get their log-probability.", kind=TargetMethod)] = (
        TargetMethod.LEFT_TO_RIGHT
    )
    skip_bad: Annotated[bool, Option("Skip rows that cannot be used, and list them with the reason.")] = False

    def stage(self, exported: ExportedModel) -> OwnStimuli:
        check_number("--top", self.top, 1, MOST_TOP)
        kind = choice(TargetMethod, "--method", self.method)
        ranked = Ranked.of(str(self.targets), "--targets")
        if kind is TargetMethod.WHOLE_WORD and (ranked.name != Vocabulary.ALL or self.top > 1):
            raise InputError(
                f"--method {kind} ranks the tokens that can stand in a word: give it without --targets and --top"
            )
        refuse_undefined(kind, causal=exported.is_causal)
        table = open_table(self.data)
        columns = Columns.of(
            table,
            sentence=self.sentence,
            target=self.target,
            group=self.group,
            cluster=self.cluster,
            item=self.item,
        )
        refuse_result_names(table.name, table.columns, self.top)
        check = FewValues(columns, exported.mask_token, table.name)
        stimuli = table.scan(columns.texts, check, skip_bad=self.skip_bad, rows_per_part=ROWS_PER_PART)
        refuse_result_names(table.name, list(stimuli.schema), self.top)  # rows of JSON lines can have further columns
        stage = OwnStimuli(exported, stimuli, columns, ranked, self.top, kind, self.skip_bad)
        if kind is TargetMethod.WHOLE_WORD:
            stage.marks  # noqa: B018 - refuses a vocabulary without marks
        return stage

    def plan(self, model: Model, options: RunOptions) -> ProbePlan:
        stage = self.stage(model.exported)
        folder, shard = run_folder(model, options, stage.name), shard_of(options)
        return plan_of(stage, opening_of(model), len(model.devices), folder, shard)

    sections = staticmethod(report_sections)


probe = OwnSentences.function()
