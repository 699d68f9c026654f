"""Requests from a user's table: its rows part by part, with what is wrong with them in `why`; and its finished run.

All columns of the table stay beside the requests, but those with what is asked. A row that cannot be used is one
request with its reason; an item that cannot be judged, such as a choice without a right candidate, has its own.
"""

from abc import abstractmethod
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, cast

import polars as pl

from ..basics.errors import InputError
from ..basics.option import Option, OptionField, options_of
from ..basics.option_values import fault
from ..basics.printable import counted
from ..basics.reading import is_file
from ..inference.exported import ExportedModel
from ..inference.free_text import MASK
from ..library.model import Model
from ..library.options import RunOptions, run_folder, shard_of
from ..library.sentences import COLUMNS as SENTENCE_COLUMNS
from ..library.sentences import OWN, PAIR
from ..requests.items import ITEM, KEYS, SUMMARY_FILE, WHY
from ..requests.metrics import refused
from ..requests.stage import Kind, RequestStage, Source, complete
from ..requests.summary import COMPARES
from ..runs.stage import Files, FinishedParts, changed
from ..text.doubts import Doubts
from ..text.spelling import SPECIAL, otherwise
from ..text.table import Check, Rows, TableLike, headings_file, open_table
from ..text.table import Table as UserTable
from ..text.tokenizer import MaskTokenizer
from ..text.toml_file import TomlFile
from .data_sets.sources import hidden_set, named_place
from .own_table import (
    BY_NAME,
    COLUMNS,
    FILE,
    PLACE_FILE,
    PLACE_ROW,
    READ,
    ROW,
    Labels,
    RequestColumns,
    Told,
    absent_columns,
    find_column,
    find_columns,
    item_of,
    said_by_name,
)
from .plan import TablePlan, planned
from .requested import Requested, RequestedRun

column = partial(Option, metavar="COLUMN")
GROUPS = Annotated[
    str | Sequence[str],
    column(
        "A column with groups, each of which gets its own figures (default: group; '' for none); may be repeated.",
        kind=list[str],
    ),
]
CLUSTERS = Annotated[
    str | None, column("A column with the same value in rows that depend on each other (default: cluster).")
]
SKIP_BAD = Annotated[bool, Option("Skip rows that cannot be used: the column why of items.parquet has the reason.")]
NOTHING_TOLD = Labels("", {}).told()
# What requests, sentences and tables of several runs have columns for.
_OWN_NAMES = frozenset({*KEYS, *SENTENCE_COLUMNS, *PAIR[2:], ROW, FILE, "right", "candidate", "model"})


def kept(column: str, ours: Collection[str]) -> str:
    """What a column of the table is called beside requests and answers: `table_NAME` where one of ours has its name.

    `table_NAME` is then called `table_table_NAME`, so that two columns never get one name.
    """
    name = column
    while name.startswith("table_"):
        name = name.removeprefix("table_")
    return f"table_{column}" if name in ours else column


@dataclass(frozen=True, eq=False)
class TableRequests(Source):
    """The requests of a table, a source of `RequestStage`."""

    stimuli: UserTable
    columns: RequestColumns
    kind: Kind[Any]
    results: frozenset[str] = frozenset()  # the columns that follow from the answers
    invalid: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=dict.fromkeys((*ITEM, WHY), pl.String)))
    sizes: tuple[int, ...] = ()

    @classmethod
    def of(
        cls,
        stimuli: UserTable,
        columns: RequestColumns,
        kind: Kind[Any],
        *,
        skip_bad: bool,
        results: frozenset[str] = frozenset(),
    ) -> "TableRequests":
        """Raises InputError for the first item that cannot be judged, if none is to be skipped."""
        source, sizes, faults = cls(stimuli, columns, kind, results), list[int](), columns.faults()
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

    def paths(self) -> Mapping[str, Path]:
        return self.stimuli.paths()

    def at(self, places: Mapping[str, Path]) -> Self:
        return replace(self, stimuli=self.stimuli.at(places))

    def read(self, number: int) -> pl.DataFrame:
        """Rows that cannot be used are requests without texts, in the order of the table."""
        rows, file = self.stimuli.read(number, self.columns.row_faults), self.stimuli.file(number)
        place = {PLACE_ROW: pl.lit(rows.places["row"])} | ({} if file is None else {PLACE_FILE: pl.lit(file)})
        beside = self.kept
        frame = rows.frame.with_columns(**place, **{new: pl.col(old) for new, old in beside.items() if new != old})
        good = self.columns.requests(frame, self.stimuli.title)
        good = good.drop({own for own in self.stimuli.schema if beside.get(own) != own} - {*self.columns.made})
        good = good.rename({PLACE_ROW: ROW, PLACE_FILE: FILE}, strict=False)
        bad = rows.skipped.select(pl.col("row").alias(ROW), pl.col("reason").alias(WHY))
        name = pl.col(ROW).cast(pl.String)
        bad = bad.with_columns(item=name if file is None else item_of(pl.lit(file), name))
        first = {name: pl.lit(good[name][0]) for name in ("dataset", "condition") if len(good)}
        groups = rows.left.with_columns(**self.columns.groups_of_rows).select("splits", "columns")
        bad = bad.with_columns(**first).hstack(groups)
        found = pl.concat([good, bad], how="diagonal") if len(bad) else good
        found = complete(found.sort(ROW, maintain_order=True), self.kind, self.stimuli.title)
        if len(self.invalid):
            found = found.join(self.invalid, on=ITEM, how="left", maintain_order="left", suffix=" of the item")
            found = found.with_columns(pl.coalesce(WHY, f"{WHY} of the item").alias(WHY)).drop(f"{WHY} of the item")
        places = [name for name in (FILE, ROW) if name in found.columns]
        asked = [name for name in found.columns if name not in {*KEYS, *places, *self.kind.asks, *beside}]
        return found.select(*KEYS, *places, *self.kind.asks, *asked, *beside)

    @cached_property
    def kept(self) -> dict[str, str]:
        """The columns of the table that stay beside the requests: as they are called there → as a user calls them."""
        left = {*self.columns.asked} - {*self.columns.groups}
        ours = {*_OWN_NAMES, *self.kind.asks, *self.columns.made, *self.results}
        return {kept(name, ours): name for name in self.stimuli.schema if name not in left}

    def place(self, number: int, request: Mapping[str, Any]) -> str:
        """File and line of a request, or its row, and what of the row it asks."""
        subject = self.columns.subject(request)
        return self.location(number, request[ROW]) + (f": {subject}" if subject else "")

    def location(self, number: int, row: int) -> str:
        return self.stimuli.location(number, row)


class TableRequested(Requested):
    """An experiment whose requests are the rows of a user's table; a subclass is a frozen dataclass of its options."""

    of_columns: ClassVar[type[RequestColumns]]  # what `columns` gives
    clusters = "sets of rows that belong together"
    together: ClassVar[Sequence[str]] = ()  # the rows of an item can stand in several parts
    found: ClassVar[RequestColumns | None] = None  # of the table, once it is read
    told: ClassVar[Told] = NOTHING_TOLD
    kept: ClassVar[Mapping[str, str]] = {}  # see `TableRequests.kept`
    rows_per_part: ClassVar[int] = 2048

    data: TableLike
    group: str | Sequence[str]
    cluster: str | None
    skip_bad: bool

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, value in self.completed(vars(self)).items():
            object.__setattr__(self, name, value)  # it is frozen

    @abstractmethod
    def columns(self, table: UserTable) -> RequestColumns:
        """The columns that are named, else those with the obvious names; `InputError`: options contradict."""

    def labels(self, table: UserTable) -> dict[str, Any]:
        """The columns of groups and of clusters."""
        cluster = find_column(table, "--cluster", self.cluster, ["cluster"])
        return {"groups": find_columns(table, "--group", self.group, ["group"]), "cluster": cluster}

    def columns_for(self, exported: ExportedModel, table: UserTable) -> RequestColumns:  # noqa: ARG002
        """The same, where a model has its say."""
        return self.columns(table)

    @classmethod
    def column_options(cls) -> dict[str, OptionField]:
        """The options that name columns."""
        return {name: own for name, own in options_of(cls).items() if (own.option.metavar or "").startswith("COLUMN")}

    @classmethod
    def completed(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Columns that no option names are those of the file beside the table, if there is one; see `headings_file`."""
        data = given.get("data")
        if not isinstance(data, str | Path) or not is_file(path := headings_file(Path(data))):
            return given
        file, fields = TomlFile.read(path), cls.column_options()
        file.refuse_unknown(tuple(fields), ", ".join(fields))
        for name, value in file.document.items():
            if wrong := fault(fields[name], value):
                raise InputError(f"{file.line(name)}: {name} is {wrong}")
        return {**given, **{name: own for name, own in file.document.items() if given.get(name) in (None, (), [])}}

    def open(self, data: TableLike) -> UserTable:
        table = open_table(data, self.rows_per_part)
        fields = {name: own for name, own in self.column_options().items() if own.option.metavar == "COLUMN"}
        named = {own.flag: getattr(self, name) or () for name, own in fields.items()}
        given = {option: [own] if isinstance(own, str) else own for option, own in named.items()}
        return replace(table, absent=absent_columns(table, given))

    @cached_property
    def table(self) -> UserTable:
        """What was given, read once."""
        try:
            return self.open(named_place(self.data, self.name) or self.data)
        except InputError as error:
            raise InputError("; ".join([str(error), *hidden_set(self.data, self.name)])) from error

    def look(self) -> None:
        self.columns(self.table)

    def spellings(self, table: UserTable) -> Mapping[str, Mapping[str, str]]:  # noqa: ARG002 - part of the interface
        """Of labels that a published data set spells in several ways: column → spelling → the one that counts."""
        return {}

    def scan(
        self, table: UserTable, columns: RequestColumns, check: Check, tokenizer: MaskTokenizer
    ) -> tuple[UserTable, Labels]:
        """Look at all rows: at what is wrong with them, and at what they share."""
        known = tokenizer.known(SPECIAL)
        texts = (*columns.needed, *columns.optional)
        if twice := [name for name in texts if texts.count(name) > 1]:
            raise InputError(f"the column {twice[0]} is named for two texts of a row; name one column for each")
        labels, shared = Labels(table.name, columns.shared), tuple(columns.shared)
        doubts, read_otherwise = Doubts(columns.needed, (*columns.optional, *shared)), Counter[tuple[str, str]]()

        def see(file: str, rows: Rows) -> None:
            labels.see(file, rows)
            doubts.see(file, rows)
            for column in texts:
                for what, has_it in otherwise(column, MASK, known).items():
                    read_otherwise[what, column] += int(rows.written.select(has_it).to_series().sum())

        spelled = self.spellings(table)
        named: dict[str, Any] = {"optional": columns.optional, "labels": shared, "spelled": spelled}
        found = table.scan(columns.needed, check, **named, skip_bad=self.skip_bad, see=see)
        labels.read.extend(
            f"{what} in {counted(n, 'text')} of {column}" for (what, column), n in read_otherwise.items() if n
        )
        labels.read.extend(columns.joint)
        if table.headings is not None and is_file(table.headings):
            labels.notes.append(f"{table.headings} says which columns are meant, where no option does")
        labels.notes.extend([*found.notes, *doubts.told()])
        labels.by_name.extend(columns.by_purpose(self))
        return found, labels

    def stage(self, exported: ExportedModel) -> RequestStage:
        kind = self.kind(exported)
        results = frozenset({*kind.answers, *self.scores, *self.metrics, *self.written, *self.beside})
        columns = self.columns_for(exported, self.table)
        known, labels = self.scan(self.table, columns, columns.row_faults, exported.tokenizer)
        labels.notes.extend(hidden_set(self.data, self.name))
        requests = TableRequests.of(known, columns, kind, skip_bad=self.skip_bad, results=results)
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
        here = {user: name for name, user in told[OWN].items()}
        return {name: here[name] for name in told[COLUMNS]["groups"]}

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
        work, bad = planned(stage, first, len(model.devices), shard)
        folder = run_folder(model, options, stage.name)
        told = cast("TableRequested", stage.experiment).told
        return TablePlan(stage.exported.name, folder, work, told.notes, told, bad, skips=self.skip_bad)


@dataclass(frozen=True, eq=False)
class TableRun(RequestedRun):
    """A finished run on a user's table."""

    @cached_property
    def columns(self) -> Any:
        """The columns by their purpose, of the class that the experiment has."""
        return cast("type[TableRequested]", self.declared).of_columns.from_json(self.record.metadata[COLUMNS])

    @property
    def read_otherwise(self) -> list[str]:
        return list(self.record.metadata[READ])

    def remarks(self) -> list[str]:
        return [*said_by_name(self.record.metadata[BY_NAME]), *self.read_otherwise, *super().remarks()]
