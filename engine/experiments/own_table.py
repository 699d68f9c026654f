"""The columns of a user's own table by their purpose, and the requests of its rows: groups, items, clusters.

Rows count in the split `all`, and in one for each column of groups in which they have a value. Skipped ones are listed.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import polars as pl

from ..basics.errors import InputError
from ..requests.items import ALL
from ..text.table import Table as UserTable
from ..text.table import find_column, needed_column
from ..text.table_cells import MISSING
from .labels import CLUSTER, GROUP, ITEM

ROW, FILE = "row", "file"
COLUMNS = "columns"  # the key of the table's columns in the metadata of a run
_LISTED = {"line": pl.Int64(), "reason": pl.String(), "content": pl.String()}
SKIPPED: Mapping[str, pl.DataType] = {f"skipped: {name}": dtype for name, dtype in _LISTED.items()}
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

    @property
    def clusters(self) -> pl.Expr:
        """The cluster of a row; null where rows are independent. A row without a value is a cluster of its own."""
        if (name := self.cluster or self.item) is None:
            return pl.lit(None, pl.String)
        return pl.col(name).cast(pl.String).fill_null(pl.format("no {}: {}", pl.lit(name), pl.col(ROW)))

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

    def to_json(self) -> dict[str, Any]:
        known = {name: value for name, value in asdict(self).items() if value is not None}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in known.items()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        fields: dict[str, Any] = {name: tuple(own) if isinstance(own, list) else own for name, own in value.items()}
        return cls(**fields)


def is_off(given: str | Sequence[str]) -> bool:
    """Whether an empty name says that no column is meant, not even one with an obvious name."""
    return list(given) == [""] or given == ""


def find_columns(
    table: UserTable, option: str, given: str | Sequence[str], obvious: Sequence[str] = ()
) -> tuple[str, ...]:
    """The columns named for a purpose, else one with an obvious name. `InputError`: one is missing, or named twice."""
    names = [given] if isinstance(given, str) else list(given)
    if is_off(given):
        return ()
    found = tuple(needed_column(table, option, name, [name]) for name in names)
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
