"""The columns of a user's own table by their purpose, and the requests of its rows: groups, items, clusters.

Rows count in the split `all`, and in one for each column of groups in which they have a value. Skipped ones are listed.
Of what rows share, a person is told what looks like a slip of the keyboard. Spaces at the ends of a value do not count,
and an empty cell is not a value.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Self

import msgspec
import polars as pl

from ..basics.errors import InputError, did_you_mean
from ..basics.printable import counted
from ..requests.items import ALL
from ..text.table import Rows
from ..text.table import Table as UserTable
from ..text.table_cells import label, seen_name
from ..text.text_lines import MISSING

GROUP, ITEM, CLUSTER, WANTED, PAIR = "group", "item", "cluster", "wanted", "pair"
MOST_GROUPS = 8
"""Groups of one column: more are not compared with each other."""
_MOST_VALUES = 1_000
_LISTED = 5  # rows or items in a message
_EMPTY = {
    GROUP: "these rows are in no group",
    ITEM: "these rows are not part of a minimal pair",
    CLUSTER: "each of these rows is a cluster of its own",
    WANTED: "these rows are not called right or wrong",
    PAIR: "these rows are not part of a pair",
}
_PLACE, _FILE = "place of a row", "file of a row"
_SPELLING, _SECOND = "spelling of ", "published spelling of "
ROW, FILE = "row", "file"
PLACE_ROW, PLACE_FILE = "\0row", "\0file"  # the same beside the columns of a table, where no user's has such a name
COLUMNS = "columns"  # the key of the table's columns in the metadata of a run
YES, NO = ("true", "yes", "1"), ("false", "no", "0")
# Option → the field of the columns that it names, and what such a column is for.
_PURPOSES = {
    "group": ("groups", "groups"),
    "item": ("item", "minimal pairs"),
    "cluster": ("cluster", "clusters"),
    "prefix": ("prefix", "stands before the sentence, not scored"),
    "unwanted": ("wanted", "whether a target is wanted"),
}
BY_NAME, READ = "columns found by name", "read otherwise"  # keys of the metadata, see `Told`


@dataclass(frozen=True, kw_only=True)
class RequestColumns(ABC):
    """Columns of a table by their purpose, and the requests of its rows."""

    # The columns that `requests` makes; all others of its rows are the table's.
    made: ClassVar[Sequence[str]] = ("dataset", "condition", "item", "pair", "cluster", "splits", "columns")

    groups: tuple[str, ...] = ()  # what means and rates are computed for, beside those of all rows
    cluster: str | None = None  # what rows share that depend on each other; None where they are independent
    item: str | None = None  # what the rows of one minimal pair share; None without such pairs

    @property
    @abstractmethod
    def needed(self) -> tuple[str, ...]:
        """The columns that must hold a text in every row."""

    @property
    def optional(self) -> tuple[str, ...]:
        """The columns that hold a text in some rows."""
        return ()

    @property
    def shared(self) -> dict[str, str]:
        known = [(self.cluster, CLUSTER), (self.item, ITEM), *((group, GROUP) for group in self.groups)]
        return {name: purpose for name, purpose in known if name is not None}

    def by_purpose(self, options: object = None) -> list[str]:
        """The columns by their purpose, as a sentence says them; with `options` those that none of these names."""
        found = []
        for option, (own, purpose) in _PURPOSES.items():
            named = getattr(self, own, None)
            if named and (options is None or getattr(options, option, "") in (None, (), [])):
                found.append(f"{' and '.join([named] if isinstance(named, str) else named)} ({purpose})")
        return found

    @property
    def joint(self) -> list[str]:
        """A note on what joins prefix and sentence, if there is a prefix."""
        if getattr(self, "prefix", None) is None:
            return []
        own = getattr(self, "joiner", None)
        usual = "a space, and by nothing between scripts without spaces"
        return [f"prefix and sentence are joined by {usual if own is None else repr(own) if own else 'nothing'}"]

    @property
    def told(self) -> str:
        """A sentence for the methods; empty where no column has one of these purposes."""
        used = self.by_purpose()
        return f" Columns of the table: {', '.join(used)}." if used else ""

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
        """The requests of some rows: columns of the table, `PLACE_ROW` and, of several files, `PLACE_FILE`.

        `title` is the table's. All columns of the rows stay.
        """

    def subject(self, request: Mapping[str, Any]) -> str:  # noqa: ARG002 - part of the interface
        """What of its row a request asks, for a message; empty where a row has one request."""
        return ""

    def faults(self) -> Mapping[str, pl.Expr]:
        """What makes an item invalid, as `requests.valid.refused` takes it."""
        return {}

    def keys(self, rows: pl.DataFrame, title: str, condition: str, item: str | None = None) -> dict[str, pl.Expr]:
        """The keys of requests; items are the rows by their numbers, or what rows share by the column `item`.

        Rows share clusters by the column of clusters, or else of items; one without a value is a cluster of its own.
        """

        def of_file(column: str) -> pl.Expr:
            name = pl.col(column).cast(pl.String)
            return item_of(pl.col(PLACE_FILE), name) if PLACE_FILE in rows.columns else name

        name, shared, cluster = of_file(item or PLACE_ROW), self.cluster or self.item, pl.lit(None, pl.String)
        if shared:  # no value begins with a space
            cluster = pl.col(shared).cast(pl.String) if self.cluster else of_file(shared)
            cluster = cluster.fill_null(pl.format(" no {}: {}", pl.lit(shared), of_file(PLACE_ROW)))
        keys = {"dataset": pl.lit(title), "condition": pl.lit(condition), "item": name, "pair": name}
        return {**keys, "cluster": cluster, **self.groups_of_rows}

    @property
    def groups_of_rows(self) -> dict[str, pl.Expr]:
        """The keys that say which groups a row of the table is in."""
        groups = {column: pl.col(column).cast(pl.String) for column in self.groups}
        named = [pl.when(value.is_not_null()).then(pl.lit(column)) for column, value in groups.items()]
        known = pl.concat_list(named).list.drop_nulls() if named else pl.lit([], pl.List(pl.String))
        splits = pl.concat_list(pl.lit(ALL), *groups.values()).list.drop_nulls()
        return {"splits": splits, "columns": pl.concat_list(pl.lit(None, pl.String), known)}

    def to_json(self) -> dict[str, Any]:
        own: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        return {name: value for name, value in own.items() if value is not None}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        return msgspec.convert(value, cls)


def item_of(file: pl.Expr, name: pl.Expr) -> pl.Expr:
    """An item of one of several files, another one for other files or names: the first `:` ends the file's name."""
    escaped = file.str.replace_all("%", "%25", literal=True).str.replace_all(":", "%3A", literal=True)
    return pl.concat_str(escaped, pl.lit(":"), name)


def is_off(given: str | Sequence[str]) -> bool:
    """Whether an empty name says that no column is meant, not even one with an obvious name."""
    return list(given) == [""] or given == ""


def find_column(table: UserTable, option: str, given: str | None, obvious: Sequence[str] = ()) -> str | None:
    """The column that a user named with `option`; else one with an obvious name; else None.

    An empty name stands for no column. The exact name wins; of names alike but for case and spaces none is guessed.
    """
    if given == "":
        return None
    if given is not None:
        if not _has(table, given):
            needed_columns(table, (option, given, obvious))  # which refuses it
        return seen_name(given)
    for name in obvious:
        alike = [own for own in table.columns if own.strip().lower() == name]
        if len(alike) > 1 and name not in alike:
            both = " or ".join(map(repr, alike))
            raise InputError(f"{table.name}: is {both} the column {name!r}? Name one with {option} COLUMN")
        if alike:
            return name if name in alike else alike[0]
    return None


def needed_columns(table: UserTable, *asked: tuple[str, str | None, Sequence[str]]) -> list[str]:
    """As `find_column`, for columns that the table must have; all that it lacks are in one message.

    It ends with what of the table was not read: the columns can be there.
    """
    absent = absent_columns(table, {option: [given] for option, given, _ in asked if given is not None})
    absent = tuple(dict.fromkeys((*absent, *table.absent)))
    rest = [one for one in asked if one[:2] not in absent]
    found = [find_column(table, *one) for one in rest]
    lacking = [(option, obvious[0]) for (option, _, obvious), name in zip(rest, found, strict=True) if name is None]
    noted = "".join(f"; {note.removeprefix(f'{table.name}: ')}" for note in table.notes)
    if len(absent) == 1 and not lacking:
        [(option, name)] = absent
        near = did_you_mean(name, table.columns)
        raise InputError(f"{option} {name}: {near}{table.name} has no such column; it has {table.said}{noted}")
    if absent or lacking:
        names = [f"no column {name!r} ({option})" for option, name in absent]
        said = " and ".join([*names, *(f"no column {name!r}" for _, name in lacking)])
        which, options = "one" if len(lacking) == 1 else "ones", " and ".join(f"{own} COLUMN" for own, _ in lacking)
        once = "" if table.headings is None else f", or once in {table.headings}"
        remedy = f": give the right {which} with {options}{once}" if lacking else ""
        raise InputError(f"{table.name}: {said}; it has {table.said}{remedy}{noted}")
    return [name for name in found if name is not None]


def absent_columns(table: UserTable, given: Mapping[str, Sequence[str]]) -> tuple[tuple[str, str], ...]:
    """Options with the columns that they name and the table lacks."""
    named = [(option, name) for option, names in given.items() for name in names if name]
    return tuple((option, name) for option, name in named if not _has(table, name))


def _has(table: UserTable, name: str) -> bool:
    return seen_name(name) in table.columns or table.is_file_name(name)


def find_columns(
    table: UserTable, option: str, given: str | Sequence[str], obvious: Sequence[str] = ()
) -> tuple[str, ...]:
    """The columns named for a purpose, else one with an obvious name. `InputError`: one is missing, or named twice."""
    names = [given] if isinstance(given, str) else list(given)
    if is_off(given):
        return ()
    found = tuple(needed_columns(table, *((option, name, [name]) for name in names))) if names else ()
    if twice := [name for name in found if found.count(name) > 1]:
        raise InputError(f"{option} {twice[0]}: given twice; name each column once")
    return found or tuple(filter(None, [find_column(table, option, None, obvious)]))


def yes_or_no(column: str, yes: Sequence[str] = (), no: Sequence[str] = ()) -> pl.Expr:
    """A column that says yes or no, in these words or the usual ones, as truth values; null where it says neither."""
    value = pl.col(column).cast(pl.String).str.strip_chars().str.to_lowercase()
    said = pl.when(value.is_in([*yes, *YES, "1.0"])).then(pl.lit(value=True))
    return said.when(value.is_in([*no, *NO, "0.0"])).then(pl.lit(value=False))


def said_by_name(by_name: Sequence[str]) -> list[str]:
    """What a person is told of columns that no option has named."""
    if not by_name:
        return []
    return [f"columns found by their names: {', '.join(by_name)}; an empty name, such as --group '', leaves one out"]


def context(column: str | None) -> pl.Expr:
    """What stands before a text; null where nothing does."""
    if column is None:
        return pl.lit(None, pl.String)
    value = pl.col(column).cast(pl.String)
    return pl.when(~value.str.strip_chars().is_in(list(MISSING))).then(value)


@dataclass(frozen=True, eq=False)
class Told:
    """What a person is told of the labels before a run."""

    groups: pl.DataFrame  # column, group, rows, items (0 without a column of items), in the order of their first rows
    notes: tuple[str, ...]  # what a person may not have meant, a line each
    by_name: tuple[str, ...] = ()  # the columns that were found by their names, and what for
    read: tuple[str, ...] = ()  # what was read otherwise than it is written, such as white space at the ends


@dataclass(frozen=True, eq=False)
class Labels:
    """The labels of a table that is read part by part."""

    table: str  # its name, for messages
    columns: Mapping[str, str]  # → `GROUP`, `ITEM`, `CLUSTER` or `WANTED`
    notes: list[str] = field(default_factory=list)  # what is told before what the labels say
    by_name: list[str] = field(default_factory=list)  # see `Told`
    read: list[str] = field(default_factory=list)  # see `Told`
    parts: list[pl.DataFrame] = field(default_factory=list, repr=False)

    def see(self, file: str, rows: Rows) -> None:
        """Take in some rows of a file."""
        values = {name: rows.frame[name].cast(pl.String) for name in self.columns}
        kind = "row" if rows.places["line"].null_count() else "line"
        part = pl.DataFrame({_PLACE: rows.places[kind]}).with_columns(pl.lit(f"{file}, {kind}").alias(_FILE))
        for name, own in values.items():
            there = rows.written[name].cast(pl.String)
            alone = label(there)
            second = pl.select(pl.when(alone != own).then(alone)).to_series()
            slips = {_SPELLING: alone.is_not_null() & (alone != there), _SECOND: second}
            part = part.with_columns(own.alias(name), *(slip.alias(kind + name) for kind, slip in slips.items()))
        self.parts.append(part)

    @cached_property
    def rows(self) -> pl.DataFrame:
        kinds = {"": pl.String, _SPELLING: pl.Boolean, _SECOND: pl.String}
        empty = {kind + name: dtype for kind, dtype in kinds.items() for name in self.columns}
        return pl.concat([pl.DataFrame(schema=empty), *self.parts], how="diagonal")

    def _of(self, purpose: str) -> list[str]:
        return [name for name, own in self.columns.items() if own == purpose]

    def told(self) -> Told:
        """Raises InputError if a column has too many groups, or two groups differ in case alone."""
        for name in self._of(GROUP):
            if self.rows[name].drop_nulls().n_unique() > _MOST_VALUES:
                raise InputError(
                    f"{self.table}: the column {name!r} has more than {_MOST_VALUES:,} different values; give another "
                    "--group, or name it with --cluster or --item if it says which rows belong together"
                )
        items = pl.col(self._of(ITEM)).drop_nulls().n_unique() if self._of(ITEM) else pl.lit(0)
        schema = {"column": pl.String, "group": pl.String, "rows": pl.Int64, "items": pl.Int64}
        counts = [
            self.rows.drop_nulls(name)
            .group_by(pl.lit(name).alias("column"), pl.col(name).alias("group"), maintain_order=True)
            .agg(pl.len().cast(pl.Int64).alias("rows"), items.cast(pl.Int64).alias("items"))
            for name in self._of(GROUP)
        ]
        slips = [self._slips(name, purpose) for name, purpose in self.columns.items()]
        pairs = [self._unpaired(name, item) for name in self._of(GROUP) for item in self._of(ITEM)]
        notes = [f"{self.table}: {line}" for lines in (*slips, *pairs) for line in lines]
        groups = pl.concat([pl.DataFrame(schema=schema), *counts])
        return Told(groups, (*self.notes, *notes), tuple(self.by_name), tuple(self.read))

    def _slips(self, name: str, purpose: str) -> Iterator[str]:
        rows, value = self.rows, pl.col(name)
        names = rows[name].drop_nulls().unique(maintain_order=True)
        spelled = pl.DataFrame([names]).with_columns(folded=value.map_elements(str.casefold, pl.String))
        alike = spelled.group_by("folded", maintain_order=True).agg(value).filter(value.list.len() > 1)[name]
        if len(alike) and purpose != WANTED:
            told = (
                " and ".join(f"{own!r} ({self._where(rows.filter(value == own))})" for own in names)
                for names in alike.head(_LISTED)
            )
            more = f" and {len(alike) - _LISTED:,} more" if len(alike) > _LISTED else ""
            said = f"{name} has {'; '.join(told)}{more}, which differ in upper and lower case alone"
            if purpose == GROUP:
                raise InputError(f"{self.table}: {said}: write them alike, or give them different names")
            yield f"{said}: they count as different {purpose}s"
        # pandas makes 1.0 of 1 where a value of the column is missing.
        if twice := [own for own in names.filter(names.str.ends_with(".0")) if own[:-2] in {*names}]:
            told = (f"{own[:-2]!r} and {own!r}" for own in twice[:_LISTED])
            yield f"{name} has {', '.join(told)}, which can be one number: they count as different {purpose}s"
        if len(odd := rows.filter(pl.col(_SPELLING + name))):
            what = "spaces at the ends, other spaces than the usual one, invisible characters, or letters in two parts"
            yield f"{name} has {what}, which do not count: {self._where(odd)}"
        second = rows.drop_nulls(_SECOND + name).group_by(_SECOND + name, name, maintain_order=True).len()
        for written, own, n in second.iter_rows():
            yield f"{name}: {written!r} counts as {own!r}, as the authors of the data count it ({counted(n, 'row')})"
        if len(empty := rows.filter(value.is_null())):
            yield f"{name} is empty, so that {_EMPTY[purpose]}: {self._where(empty)}"

    def _unpaired(self, group: str, item: str) -> Iterator[str]:
        rows = self.rows.drop_nulls([group, item])
        names = rows[group].unique(maintain_order=True).to_list()
        own = rows.group_by(item, maintain_order=True).agg(pl.col(group).unique())
        short = own.filter(pl.col(group).list.len() < len(names))
        if not 1 < len(names) <= MOST_GROUPS or short.is_empty():
            return
        if (own[group].list.len() < 2).all():
            yield f"no {item} has rows in two groups of {group}, so these groups are not minimal pairs"
            return
        told = [
            f"{name!r} ({self._where(rows.filter(pl.col(item) == name))}) lacks "
            + " and ".join(repr(other) for other in names if other not in groups)
            for name, groups in short.head(_LISTED).iter_rows()
        ]
        more = f" and {len(short) - _LISTED:,} more" if len(short) > _LISTED else ""
        verb = "is" if len(short) == 1 else "are"
        said = f"{len(short):,} of {counted(len(own), 'item')} {verb} not in every group of {group}"
        yield f"{said}: {', '.join(told)}{more}"

    def _where(self, rows: pl.DataFrame) -> str:
        """The first rows as a message names them: `line 4`, `lines 4, 9 and 3 more`; with their files if several."""
        kind, some = "", [f"{file} {place}" for file, place in rows[_FILE, _PLACE].head(_LISTED).iter_rows()]
        if self.rows[_FILE].n_unique() == 1:
            kind = some[0].split()[-2] + (" " if len(rows) == 1 else "s ")
            some = [place.split()[-1] for place in some]
        if more := len(rows) - len(some):
            return f"{kind}{', '.join(some)} and {more:,} more"
        return kind + " and ".join(filter(None, [", ".join(some[:-1]), some[-1]]))
