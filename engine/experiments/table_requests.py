"""Requests from a user's table: its rows part by part, with what is wrong with them in `why`, and what a run would do.

All columns of the table stay beside the requests, but those with what is asked. A row that cannot be used is one
request with its reason; an item that cannot be judged, such as a choice without a right candidate, has its own.
"""

import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import polars as pl

from ..basics.errors import InputError
from ..basics.option import Opening
from ..inference.exported import ExportedModel
from ..library.model import Model
from ..library.options import RunOptions, run_folder, shard_of
from ..library.sentences import COLUMNS as SENTENCE_COLUMNS
from ..library.sentences import OWN
from ..requests.items import ALL, ITEM, KEYS, SUMMARY_FILE, WHY
from ..requests.stage import Kind, Planned, RequestStage, complete
from ..requests.summary import COMPARES
from ..requests.valid import refused
from ..runs.shard import Shard
from ..runs.stage import Files, FinishedParts, changed
from ..text.table import Rows, TableLike
from ..text.table import Table as UserTable
from ..text.table_cells import MISSING
from .data_sets.sources import hidden_set, named_place
from .labels import Labels, Told
from .own_table import BY_NAME, COLUMNS, FILE, READ, ROW, TOKENS, OwnColumns, TableExperiment, TablePlan, said_by_name
from .requested import Requested

NOTHING_TOLD = Labels("", {}).told()
_COMPUTED = {"right", "candidate"}
# What requests, sentences and tables of several runs have columns for.
_OWN_NAMES = {*KEYS, *SENTENCE_COLUMNS, *_COMPUTED, "model"} - {WHY}
_SECONDS = 1.0  # of a measurement


@dataclass(frozen=True, kw_only=True)
class RequestColumns(OwnColumns):
    """Columns of a table by their purpose, and the requests of its rows."""

    @property
    def shares_items(self) -> bool:
        """Whether rows share an item."""
        return self.item is not None

    @property
    def asked(self) -> tuple[str, ...]:
        """The columns that are not kept beside the requests: they stand in them."""
        return (*self.needed, *self.optional)

    def row_faults(self, rows: pl.DataFrame) -> pl.Series:
        """For each row why it cannot be used, beside the texts that it lacks; null where it can."""
        return pl.Series("reason", [None] * len(rows), pl.String)

    @abstractmethod
    def requests(self, rows: pl.DataFrame, title: str) -> pl.DataFrame:
        """The requests of some rows, whose columns are those of the table, `ROW` and, of several files, `FILE`.

        `title` is the table's. All columns of the rows stay.
        """

    def subject(self, request: Mapping[str, Any]) -> str:  # noqa: ARG002 - part of the interface
        """What of its row a request asks, for a message; empty where a row has one request."""
        return ""

    def faults(self) -> Mapping[str, pl.Expr]:
        """What makes an item invalid, as `requests.valid.refused` takes it."""
        return {}

    def keys(self, rows: pl.DataFrame, title: str, condition: str, item: str | None = None) -> dict[str, pl.Expr]:
        """The keys of requests; items are the rows by their numbers, or what rows share by the column `item`."""
        name = pl.col(item or ROW).cast(pl.String)
        name = pl.format("{}:{}", pl.col(FILE), name) if FILE in rows.columns else name
        groups = {column: pl.col(column).cast(pl.String) for column in self.groups}
        named = [pl.when(value.is_not_null()).then(pl.lit(column)) for column, value in groups.items()]
        known = pl.concat_list(named).list.drop_nulls() if named else pl.lit([], pl.List(pl.String))
        keys = {"dataset": pl.lit(title), "condition": pl.lit(condition), "item": name, "pair": name}
        splits = pl.concat_list(pl.lit(ALL), *groups.values()).list.drop_nulls()
        columns = pl.concat_list(pl.lit(None, pl.String), known)
        return {**keys, "cluster": self.clusters, "splits": splits, "columns": columns}


def context(column: str | None) -> pl.Expr:
    """What stands before a text; null where nothing does."""
    if column is None:
        return pl.lit(None, pl.String)
    value = pl.col(column).cast(pl.String)
    return pl.when(~value.str.strip_chars().is_in(list(MISSING))).then(value)


def kept(column: str, kind: type[Kind[Any]] | Kind[Any]) -> str:
    """What a column of the table is called beside the requests of a kind: `table_NAME` where these have its name.

    `table_NAME` is then called `table_table_NAME`, so that two columns never get one name.
    """
    name = column
    while name.startswith("table_"):
        name = name.removeprefix("table_")
    return f"table_{column}" if name in {*_OWN_NAMES, *kind.asks} else column


@dataclass(frozen=True, eq=False)
class TableRequests:
    """The requests of a table, a source of `RequestStage`."""

    stimuli: UserTable
    columns: RequestColumns
    kind: Kind[Any]
    invalid: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=dict.fromkeys((*ITEM, WHY), pl.String)))
    sizes: tuple[int, ...] = ()

    @classmethod
    def of(cls, stimuli: UserTable, columns: RequestColumns, kind: Kind[Any], *, skip_bad: bool) -> "TableRequests":
        """Raises InputError for the first item that cannot be judged, if none is to be skipped."""
        source, sizes, faults = cls(stimuli, columns, kind), list[int](), columns.faults()
        read = {name for fault in faults.values() for name in fault.meta.root_names()}
        seen = list[pl.DataFrame]()
        for number in range(len(stimuli.sizes)):
            requests = source.read(number)
            sizes.append(len(requests))
            if faults:
                own = requests.filter(pl.col(WHY).is_null()).select(*ITEM, *read, number=number, place=ROW)
                seen.append(own)
        invalid = source.invalid
        if faults:
            bad = refused(pl.concat(seen), faults).drop_nulls(WHY)
            if len(bad) and not skip_bad:
                first = bad.row(0, named=True)
                where = [source.location(first["number"], first["place"])]
                where += [first["item"]] if columns.shares_items else []  # else it is the number of the row
                raise InputError(f"{': '.join(where)}: {first[WHY]}")
            invalid = bad.select(*ITEM, WHY).unique(ITEM, maintain_order=True)
        return replace(source, sizes=tuple(sizes), invalid=invalid)

    @property
    def sha256(self) -> str:
        return self.stimuli.sha256

    @cached_property
    def schema(self) -> Mapping[str, Any]:
        return self.read(0).schema

    def paths(self) -> Mapping[str, Path]:
        return self.stimuli.paths()

    def at(self, places: Mapping[str, Path]) -> Self:
        return replace(self, stimuli=self.stimuli.at(places))

    def read(self, number: int) -> pl.DataFrame:
        """Rows that cannot be used are requests without texts, in the order of the table."""
        rows, file = self._rows(number), self.stimuli.file(number)
        place = {ROW: pl.Series(rows.numbers, dtype=pl.Int64)} | ({} if file is None else {FILE: pl.lit(file)})
        beside = self.kept
        frame = rows.frame.with_columns(**place, **{new: pl.col(old) for new, old in beside.items() if new != old})
        good = self.columns.requests(frame, self.stimuli.title)
        bad = rows.skipped.select(pl.col("row").alias(ROW), pl.col("reason").alias(WHY))
        bad = bad.with_columns(item=pl.col(ROW).cast(pl.String) if file is None else pl.format(f"{file}:{{}}", ROW))
        first = {name: pl.lit(good[name][0]) for name in ("dataset", "condition") if len(good)}
        bad = bad.with_columns(**first, splits=pl.lit([ALL]))
        found = pl.concat([good, bad], how="diagonal") if len(bad) else good
        found = complete(found.sort(ROW, maintain_order=True), self.kind, self.stimuli.title)
        if len(self.invalid):
            found = found.join(self.invalid, on=ITEM, how="left", maintain_order="left", suffix=" of the item")
            found = found.with_columns(pl.coalesce(WHY, f"{WHY} of the item").alias(WHY)).drop(f"{WHY} of the item")
        known = {*_OWN_NAMES, *self.kind.asks, WHY, ROW, FILE, *beside, *self.columns.asked} - _COMPUTED
        asked = [name for name in found.columns if name not in known]
        places = [name for name in (FILE, ROW) if name in found.columns]
        return found.select(*KEYS, *places, *self.kind.asks, *asked, *beside)

    @cached_property
    def kept(self) -> dict[str, str]:
        """The columns of the table that stay beside the requests: as they are called there → as a user calls them."""
        left = {*self.columns.asked} - {*self.columns.groups}
        return {kept(name, self.kind): name for name in self.stimuli.schema if name not in left}

    def place(self, number: int, request: Mapping[str, Any]) -> str:
        """File and line of a request, or its row, and what of the row it asks."""
        subject = self.columns.subject(request)
        return self.location(number, request[ROW]) + (f": {subject}" if subject else "")

    def location(self, number: int, row: int) -> str:
        rows = self._rows(number)
        lines = dict(zip(rows.skipped["row"], rows.skipped["line"], strict=True))
        if rows.lines is not None:
            lines |= dict(zip(rows.numbers.tolist(), rows.lines.tolist(), strict=True))
        return self.stimuli.location(number, row, lines.get(row))

    def _rows(self, number: int) -> Rows:
        return self.stimuli.read(number, self.columns.row_faults)


class TableRequested(Requested, TableExperiment):
    """An experiment whose requests are the rows of a user's table; a subclass is a frozen dataclass of its options."""

    together: ClassVar[Sequence[str]] = ()  # the rows of an item can stand in several parts
    found: ClassVar[RequestColumns | None] = None  # of the table, once it is read
    told: ClassVar[Told] = NOTHING_TOLD
    kept: ClassVar[Mapping[str, str]] = {}  # see `TableRequests.kept`

    data: TableLike

    @abstractmethod
    def columns(self, table: UserTable) -> RequestColumns:
        """The columns that are named, else those with the obvious names; `InputError`: options contradict."""

    def columns_for(self, exported: ExportedModel, table: UserTable) -> RequestColumns:  # noqa: ARG002
        """The same, where a model has its say."""
        return self.columns(table)

    def stage(self, exported: ExportedModel) -> RequestStage:
        kind = self.kind(exported)
        own = {WHY, ROW, FILE, *kind.answers, *self.scores, *self.metrics} - _OWN_NAMES - {*kind.asks}
        table = self.open(named_place(self.data, self.name) or self.data, own)
        columns = self.columns_for(exported, table)
        known, labels = self.scan(table, columns, columns.row_faults)
        labels.notes.extend(hidden_set(self.data, self.name))
        requests = TableRequests.of(known, columns, kind, skip_bad=self.skip_bad)
        asking = changed(self, data=known.title, found=columns, told=labels.told(), kept=requests.kept)
        stage = kind.stage(exported, asking, kind, requests)
        stage.check(lambda _: None)  # before a run folder is made
        return stage

    @property
    def identity(self) -> dict[str, Any]:
        own = {} if self.found is None else self.found.to_json()
        return {**own, "skip bad rows": self.skip_bad}

    def metadata(self, exported: ExportedModel) -> dict[str, Any]:  # noqa: ARG002 - part of the interface
        own = {} if self.found is None else self.found.to_json()
        return {COLUMNS: own, BY_NAME: list(self.told.by_name), READ: list(self.told.read), OWN: dict(self.kept)}

    def notes(self, exported: ExportedModel) -> Sequence[str]:  # noqa: ARG002 - part of the interface
        return (*said_by_name(self.told.by_name), *self.told.read, *self.told.notes)

    def excuses(self, why: str) -> bool:  # noqa: ARG002 - whatever the reason
        return self.skip_bad

    @classmethod
    def grouped_by(cls, told: Mapping[str, Any]) -> Mapping[str, str]:
        return {name: kept(name, cls.of_kind) for name in told[COLUMNS]["groups"]}

    @classmethod
    def clustered_by(cls, told: Mapping[str, Any]) -> str | None:
        found: str | None = told[COLUMNS].get("cluster") or told[COLUMNS].get("item")
        return found

    @classmethod
    def publish(cls, parts: FinishedParts) -> Files:
        """In the summary, groups stand by condition and column, and in the order of their first items."""
        files = dict(super().publish(parts))
        columns = {column: place for place, column in enumerate(parts.metadata[COLUMNS]["groups"])}
        place = pl.col("column").replace_strict(columns, default=-1, return_dtype=pl.Int64)
        summary = cast("pl.DataFrame", files[SUMMARY_FILE]).with_row_index("row")
        ordered = summary.sort(pl.col("row").min().over("condition"), COMPARES, place, maintain_order=True)
        files[SUMMARY_FILE] = ordered.drop("row")
        return files

    def plan(self, model: Model, options: RunOptions) -> TablePlan:
        """All bad rows are listed at once, also where a run would stop at the first one."""
        stage = changed(self, skip_bad=True).stage(model.exported)
        shard = shard_of(options)
        first = replace(model.opening, device=str(model.devices[0]))
        work, bad = _planned(stage, first, len(model.devices), shard)
        folder = run_folder(model, options, stage.name)
        told = cast("TableRequested", stage.experiment).told
        return TablePlan(stage.exported.name, folder, work, told.notes, told, bad, skips=self.skip_bad)


def _planned(
    stage: RequestStage, opening: Opening, devices: int, shard: Shard
) -> tuple[dict[str, int | float], pl.DataFrame]:
    """What a run would do, counted, with its time from a few texts; and the rows that it cannot use: place, reason."""
    kind: Planned[Any] = stage.kind  # type: ignore[assignment]
    own, work, tried = shard.parts(len(stage.sizes)), dict[str, int | float](), None
    bad = dict[str, str]()
    for number in own:
        requests, asked = stage.prepare(number)
        for what, n in kind.work(asked).items():
            work[what] = work.get(what, 0) + n
        for request in requests.filter(pl.col(WHY).is_not_null()).iter_rows(named=True):
            bad.setdefault(stage.requests.place(number, request) or "", request[WHY])
        tried = asked if tried is None and len(asked) else tried
    work["parts of this run" if shard.is_whole else f"parts of shard {shard}"] = len(own)
    if bad:
        work["rows that cannot be used"] = len(bad)
    if tried is not None:
        model, done = stage.open(opening), 0
        kind.read_some(model, tried)  # the first time takes longer
        start = time.perf_counter()
        while (seconds := time.perf_counter() - start) < _SECONDS:
            done += kind.read_some(model, tried)
        speed = done / seconds * devices
        work |= {"tokens a second": round(speed), "minutes": work[TOKENS] / speed / 60}
    return work, pl.DataFrame(
        {"place": list(bad), "reason": list(bad.values())}, schema=dict.fromkeys(("place", "reason"), pl.String)
    )
