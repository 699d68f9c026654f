"""An experiment as a frame of requests, and metrics of their answers; `engine/requests/` says how one is written.

items.parquet has one row a request: the keys of `requests.items.KEYS`, what is asked, the experiment's own columns, the
answers, and the metrics, each in one row of its item.
"""

import time
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import polars as pl

from ..basics.choices import Precision
from ..basics.frames import scan_frame, slices
from ..basics.option import options_of
from ..basics.printable import counted, some
from ..inference.again import Draw, Sample
from ..inference.audit import audit_sentences, audit_summary
from ..inference.exported import ExportedModel
from ..library.model import Model
from ..library.options import RunOptions, execution, run_folder, shard_of
from ..library.run import BY, Run, ShardRun, open_results
from ..library.sentences import COLUMNS, CORRECT, FAILED, FIRST
from ..requests.contrast import Contrast, contrast_rows
from ..requests.items import ITEM, ITEMS_FILE, SUMMARY_FILE, WHY, by_split, collected
from ..requests.stage import Asking, InMemory, Kind, MixedRequests, RequestStage, complete
from ..requests.summary import COMPARES, Row, frame, means, with_holm
from ..requests.word import Word
from ..runs.loop import run_stage
from ..runs.record import mask_token
from ..runs.results import finished_stage, read_frame
from ..runs.shard import Shard
from ..runs.stage import Files, FinishedParts
from ..views import Column, Section, Table
from ..views.labels import minus
from .experiment import Experiment
from .finished_run import GROUP, OTHER, SummaryRun, group_labels
from .view import Chart

_OF_ANY_RUN = ("version", "kind", "top", "requests per part")  # runs that differ in these can be compared
_MOST_REASONS = 10
OUTCOMES = (*ITEM, "column", "split", "cluster")  # columns of outcomes, beside metric and value


class Requested(Experiment, Asking):
    """An experiment of requests of one kind; a subclass is a frozen dataclass of its options."""

    unit: ClassVar[str] = "items"  # what the items are, as a plural
    clusters: ClassVar[str] = "items"  # what items share that makes them depend on each other, as a plural
    of_kind: ClassVar[type[Kind[Any]]] = Word  # what `kind` gives
    # The experiment, with the same options, whose answers these requests follow from: see `stage_after`.
    first_round: "ClassVar[type[Requested] | None]" = None
    # Of a request, for the metrics: they are evaluated first, as a window within a window takes very long in Polars.
    # Each may read those before it.
    scores: ClassVar[Mapping[str, pl.Expr]] = {}
    metrics: ClassVar[Mapping[str, pl.Expr]]  # of an item, in their order; one may read those before it
    compared: ClassVar[Sequence[str]] = ()  # the metrics that are compared between runs; all by default
    grouped: ClassVar[Mapping[str, str]] = {}  # what items can be grouped by → the column of the items that has it
    written: ClassVar[Sequence[str]] = ()  # scores that stand in items.parquet
    # Of a request alone, for items.parquet: they are evaluated as its rows pass by.
    beside: ClassVar[Mapping[str, pl.Expr]] = {}
    also_read: ClassVar[Sequence[str]] = ()  # columns that `contrasts` and `further` read beside those of the metrics
    # Of `sentence_rows`: columns that replace those which the kind shows (None: nothing does), or come after them.
    shown: ClassVar[Mapping[str, pl.Expr | None]] = {}
    # Whether the word of a request is what a model that understands says (true) or avoids (false); null: neither is
    # wrong. Without it, and without `correct` or `failed` in `shown`, no answer is called right or wrong.
    wanted: ClassVar[pl.Expr | None] = None
    rows_file: ClassVar[str | None] = ITEMS_FILE
    further_rows_files: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.mixes = issubclass(cls.of_kind.stage, MixedRequests)
        if "results" not in vars(cls) and "name" in vars(cls):
            cls.results = type(f"{cls.__name__}Run", (RequestedRun,), {"__doc__": RequestedRun.__doc__})
        if "results" in vars(cls) and issubclass(cls.results, RequestedRun):
            own: dict[str, Any] = {"declared": cls, "stage": cls.name, "clusters": cls.clusters}
            own |= {"metrics": tuple(cls.compared or cls.metrics)} if hasattr(cls, "metrics") else {}
            for name in own.keys() - vars(cls.results).keys():
                setattr(cls.results, name, own[name])

    @abstractmethod
    def kind(self, exported: ExportedModel) -> Kind[Any]:
        """How the model is asked."""

    def requests(self, exported: ExportedModel) -> pl.DataFrame:
        """One row a request; absent keys have the values that `requests.stage.complete` gives them."""
        raise NotImplementedError

    @classmethod
    def metrics_of(cls, told: Mapping[str, Any]) -> Mapping[str, pl.Expr]:  # noqa: ARG003 - part of the interface
        """The metrics of a run with these metadata, where not every run has the same ones."""
        return cls.metrics

    @classmethod
    def grouped_by(cls, told: Mapping[str, Any]) -> Mapping[str, str]:  # noqa: ARG003 - part of the interface
        """What items can be grouped by, in a run with these metadata, as `grouped`."""
        return cls.grouped

    @classmethod
    def clustered_by(cls, told: Mapping[str, Any]) -> str | None:  # noqa: ARG003 - part of the interface
        """The column of groups that clusters come from, in a run with these metadata: see `requests.items.by_split`."""
        return None

    @classmethod
    def contrasts(cls, rows: pl.DataFrame) -> Iterable[Contrast]:  # noqa: ARG003 - part of the interface
        """What is compared; `rows` are requests with the keys, the metrics, and the columns that these read."""
        return ()

    @classmethod
    def further(cls, rows: pl.DataFrame) -> Iterable[Row]:  # noqa: ARG003 - part of the interface
        """Rows of the summary that are not means of items or contrasts: a perplexity, a spread."""
        return ()

    def stage(self, exported: ExportedModel) -> RequestStage:
        kind = self.kind(exported)
        own = complete(self.requests(exported), kind, self.name)
        requests = InMemory(own, self.requests_per_part, self.together)
        return kind.stage(exported, self, kind, requests)

    def stage_after(self, exported: ExportedModel, answers: pl.DataFrame) -> RequestStage:
        """The second round, of an experiment with a `first_round`, from the first one's rows."""
        raise NotImplementedError

    def run(self, model: Model, options: RunOptions) -> Run | ShardRun:
        """Every shard has the first round whole, in fp32: what is asked next follows from it."""
        if self.first_round is None:
            return super().run(model, options)
        folder, work = run_folder(model, options, self.name), execution(model, options)
        exactly = replace(work, options=replace(work.options, precision=Precision.FP32), shard=Shard())
        first = self.first_round(**{name: getattr(self, name) for name in options_of(type(self))})
        run_stage(first.stage(model.exported), folder, exactly)
        answers = read_frame(folder, finished_stage(folder, first.name), str(first.rows_file))
        run_stage(self.stage_after(model.exported, answers), folder, replace(work, started=time.monotonic()))
        return open_results(self.results, folder, model, shard_of(options))

    @classmethod
    def rows_of(cls, files: Mapping[str, pl.LazyFrame]) -> pl.LazyFrame:
        return files[cls.rows_file or ITEMS_FILE]

    @classmethod
    def publish(cls, parts: FinishedParts) -> Files:
        """Metrics are evaluated once, on the columns that they read; all others pass by, part by part."""
        metrics = cls.metrics_of(parts.metadata)
        made = {name: own for name, own in metrics.items() if not own.meta.eq(pl.col(name))}  # others are there
        written = list(dict.fromkeys((*cls.written, *made)))
        beside = {name: own for name, own in cls.beside.items() if name not in made}
        there = [name for name in parts.rows.collect_schema().names() if name not in {*written, *beside}]
        expressions = (*cls.scores.values(), *metrics.values())
        compares = cls.contrasts.__func__ is not Requested.contrasts.__func__  # type: ignore[attr-defined]
        read = {*ITEM, "cluster", "splits", "columns", *(["pair"] if compares else []), *cls.also_read}
        read.update(name for own in expressions for name in own.meta.root_names())
        rows = collected(parts.rows, [name for name in there if name in read])
        for name, own in (*cls.scores.items(), *made.items()):
            rows = rows.with_columns(own.alias(name))
        rows = rows.drop(name for name in cls.scores if name not in {*written, *cls.also_read})
        known = [name for name in metrics if rows[name].null_count() < len(rows)]
        by = cls.clustered_by(parts.metadata)
        figures = [*means(rows, known, by), *cls.further(rows), *contrast_rows(rows, [*cls.contrasts(rows)], by)]
        columns = [parts.rows.select(there).with_columns(**beside), rows.select(written).lazy()]
        return {ITEMS_FILE: pl.concat(columns, how="horizontal"), SUMMARY_FILE: frame(with_holm(figures))}

    @classmethod
    def sections(cls, run: Any) -> Sequence[Section]:
        charts = [Chart(name, name, name, scale=1, unit="").figure(run, *run.tables()) for name in run.metrics]
        return [Section("Results", figures=charts, notes=run.remarks())]


@dataclass(frozen=True, eq=False)
class RequestedRun(SummaryRun):
    """A finished run: `items` has one row for each request, `summary` the figures."""

    declared: ClassVar[type[Requested]]
    metrics: ClassVar[Sequence[str]]  # the columns of the items that are compared between runs
    same_item: ClassVar[str] = "item"  # the column that has the same value for an item in all runs

    def tables(self) -> list[Table]:
        """By default, all of the summary."""
        keys, metric = ["dataset", "condition", "split"], ["metric"] * (len(self.declared.metrics) > 1)
        columns = [Column(name, name) for name in (*keys, *metric)]
        columns += [Column("value", "value", low="low", high="high", decimals=3), Column("n", "n")]
        other = pl.format("{}, {}", "other_condition", OTHER)
        sides = pl.when(COMPARES).then(minus(GROUP, other)).otherwise(GROUP).alias("sides")
        shown = self.labelled.select(*self.summary.columns, sides)
        title = f"{self.declared.title or self.declared.name}: {self.model_name}"
        return [Table(title, shown, columns, section="dataset", texts={"split": "sides"})]

    def remarks(self) -> list[str]:
        """What did not count, and why; what an audit found."""
        excluded = dict(self.record.metadata.get("excluded", {}))
        reasons = self.items.drop_nulls(WHY).unique(["dataset", "item"], maintain_order=True)
        excluded |= dict(reasons[WHY].value_counts(name="n").sort("n", WHY, descending=[True, False]).iter_rows())
        told = [f"{self.declared.unit} excluded: {n:,} ({why})" for why, n in excluded.items()]
        if (more := len(told) - _MOST_REASONS) > 0:
            told[_MOST_REASONS:] = [f"and {counted(more, 'more reason')}: the column {WHY} of {ITEMS_FILE} has all"]
        return [*told, *self.left_by_group(reasons), *audit_sentences(audit_summary(self.record.counts))]

    def left_by_group(self, items: pl.DataFrame) -> list[str]:
        """How many of these items, which did not count, are of each group; the most frequent first."""
        known = by_split(items.select("^(splits|columns)$")).drop_nulls("column")
        each = known.group_by("column", "split").len().sort("len", "split", descending=[True, False])
        told = zip(group_labels(each), each["len"], strict=True)
        return [f"excluded by group: {some([f'{label} ({n:,})' for label, n in told], 8)}"] * (not each.is_empty())

    @property
    def grouped(self) -> Mapping[str, str]:
        """What items can be grouped by → the column of the items that has it."""
        return self.declared.grouped_by(self.record.metadata)

    @property
    def clustered_by(self) -> str | None:
        return self.declared.clustered_by(self.record.metadata)

    @property
    def conditions(self) -> dict[str, Any]:
        return {key: value for key, value in super().conditions.items() if key not in _OF_ANY_RUN}

    @property
    def groupings(self) -> Sequence[str]:
        return list(self.grouped)

    def outcomes(self, by: str | None = None) -> pl.DataFrame:
        group = {} if by is None else {BY: pl.col(self.grouped[by])}
        metrics = [pl.col(name).cast(pl.Float64) for name in self.metrics]
        items = self.items.with_columns(item=self.same_item)
        own = items.select(*ITEM, "splits", "columns", "cluster", *metrics, **group)
        return (
            by_split(own, self.clustered_by, by)
            .unpivot(self.metrics, index=[*OUTCOMES, *group], variable_name="metric")
            .drop_nulls("value")
        )

    @property
    def shown(self) -> Mapping[str, pl.Expr | None]:
        """The columns of `sentence_rows` that are not those of the kind, see `Requested.shown`."""
        return self.declared.shown

    def sentence_rows(self) -> pl.LazyFrame:
        """One row for each request that was asked."""
        return self._sentences(scan_frame(self.folder / ITEMS_FILE))

    def sentence_pieces(self) -> Iterable[pl.LazyFrame]:
        """Pieces of the file, where a row's sentence follows from this row alone."""
        if any("over(" in str(own) for own in self.shown.values()):
            return super().sentence_pieces()
        return map(self._sentences, slices(scan_frame(self.folder / ITEMS_FILE)))

    def _sentences(self, items: pl.LazyFrame) -> pl.LazyFrame:
        items = items.filter(pl.col(WHY).is_null())
        usual: dict[str, Any] = {"item": pl.col("item"), "condition": pl.col("condition")}
        own, by_kind = self.shown, self.kind.shown(mask_token(self.record.metadata, self.folder))
        usual = {name: one for name, one in {**usual, **by_kind, **own}.items() if one is not None}
        if CORRECT in own and FAILED not in own:
            usual[FAILED] = ~usual[CORRECT]
        elif CORRECT in usual and FAILED not in own:
            first, wanted = usual.pop(CORRECT), self.declared.wanted
            usual |= {FIRST: first, FAILED: pl.lit(None, pl.Boolean) if wanted is None else first != wanted}
        usual.setdefault(FAILED, pl.lit(None, pl.Boolean))  # of texts alone, nothing says which one should be probable
        order = [name for name in COLUMNS if name in usual]
        names = items.collect_schema().names()
        read = {own.meta.root_names()[0] for own in usual.values() if own.meta.is_column()}
        others = {name: pl.col(name) for name in names if name not in {*usual, *read, WHY, "columns"}}
        return items.select(**{name: usual[name] for name in [*order, *usual]}, **others)

    @property
    def kind(self) -> Kind[Any]:
        """How the model was asked."""
        kind: Kind[Any] = self.declared.of_kind.of(self.record.identity, self.record.metadata)
        return kind

    def again(self, draw: Draw) -> Iterator[Sample]:
        yield self.kind.again(draw, self.items.lazy().filter(pl.col(WHY).is_null()))
