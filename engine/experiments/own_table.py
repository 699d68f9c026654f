"""What the experiments on a user's own table share: groups and clusters, skipped rows, means by group, and the plan.

Rows count in the split `all`, and in one for each column of groups in which they have a value. Skipped ones are listed.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import polars as pl

from ..basics.errors import InputError
from ..basics.option import OptionField, options_of
from ..basics.option_values import fault
from ..basics.printable import counted
from ..basics.reading import is_file
from ..inference.free_text import MASK
from ..requests.stage import TOKENS as TOKENS  # noqa: PLC0414 - stages of tables import it from here
from ..text.spelling import otherwise
from ..text.table import Check, Rows, TableLike, find_column, headings_file, needed_column, open_table, refuse_absent
from ..text.table import Table as UserTable
from ..text.toml_file import TomlFile
from ..views import Column, Table
from .experiment import Experiment
from .labels import CLUSTER, GROUP, ITEM, Labels, Told
from .plan import Plan

ROW, FILE = "row", "file"
COLUMNS = "columns"  # the key of the table's columns in the metadata of a run
_LISTED = {"line": pl.Int64(), "reason": pl.String(), "content": pl.String()}
SKIPPED: Mapping[str, pl.DataType] = {f"skipped: {name}": dtype for name, dtype in _LISTED.items()}
YES, NO = ("true", "yes", "1"), ("false", "no", "0")
_MOST_LISTED = 20  # bad rows
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
class OwnColumns(ABC):
    """Columns of a table by their purpose."""

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


@dataclass(frozen=True, eq=False)
class TablePlan(Plan):
    """A run on a table that was planned, not done."""

    told: Told
    bad: pl.DataFrame  # columns place, reason
    skips: bool = True  # whether bad rows are skipped; else the run would stop at the first one

    def tables(self) -> list[Table]:
        found, groups = super().tables(), self.told.groups
        if not groups.is_empty():
            items = [Column("items", "items")] if groups["items"].sum() else []
            named = [Column("column", "column"), Column("group", "group"), Column("rows", "rows"), *items]
            found.append(Table("Groups", groups, named, section="column"))
        if not self.bad.is_empty():
            more = len(self.bad) - _MOST_LISTED
            notes = [f"and {more:,} more; --json has all"] if more > 0 else []
            columns = [Column("row", "place", wrap=False), Column("what is wrong", "reason")]
            title = f"Rows that {'would be skipped' if self.skips else 'are wrong'}"
            found.append(Table(title, self.bad.head(_MOST_LISTED), columns, notes=notes))
        return found

    def remarks(self) -> list[str]:
        return [*said_by_name(self.told.by_name), *self.told.read, *super().remarks()]

    def document(self) -> dict[str, Any]:
        return {
            **super().document(),
            "groups": self.told.groups.to_dicts(),
            BY_NAME: list(self.told.by_name),
            READ: list(self.told.read),
            "bad rows": self.bad.to_dicts(),
        }

    def refuse_faults(self) -> None:
        if not self.skips and not self.bad.is_empty():
            place, reason = self.bad.row(0)
            wrong = counted(len(self.bad), "row is", "rows are")
            raise InputError(f"{place}: {reason} ({wrong} wrong; correct them, or skip them with --skip-bad)")


def said_by_name(by_name: Sequence[str]) -> list[str]:
    """What a person is told of columns that no option has named."""
    if not by_name:
        return []
    return [f"columns found by their names: {', '.join(by_name)}; an empty name, such as --group '', leaves one out"]


class TableExperiment(Experiment):
    """An experiment on a user's table."""

    rows_per_part: ClassVar[int] = 2048

    data: TableLike
    skip_bad: bool

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, value in self.completed(vars(self)).items():
            object.__setattr__(self, name, value)  # it is frozen

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

    def open(self, data: TableLike, results: Iterable[str]) -> UserTable:
        """Read a table; a column with the name of a result is called `table_NAME`."""
        table = open_table(data, self.rows_per_part).without_names((*results, *SKIPPED))
        fields = {name: own for name, own in self.column_options().items() if own.option.metavar == "COLUMN"}
        named = {own.flag: getattr(self, name) or () for name, own in fields.items()}
        refuse_absent(table, {option: [own] if isinstance(own, str) else own for option, own in named.items()})
        return table

    def spellings(self, table: UserTable) -> Mapping[str, Mapping[str, str]]:  # noqa: ARG002 - part of the interface
        """Of labels that a published data set spells in several ways: column → spelling → the one that counts."""
        return {}

    def scan(self, table: UserTable, columns: OwnColumns, check: Check) -> tuple[UserTable, Labels]:
        """Look at all rows: at what is wrong with them, and at what they share."""
        texts = (*columns.needed, *columns.optional)
        if twice := [name for name in texts if texts.count(name) > 1]:
            raise InputError(f"the column {twice[0]} is named for two texts of a row; name one column for each")
        labels, shared = Labels(table.name, columns.shared), tuple(columns.shared)
        read_otherwise = Counter[tuple[str, str]]()

        def see(file: str, rows: Rows, labelled: pl.DataFrame) -> None:
            labels.see(file, rows, labelled)
            for column in texts:
                for what, has_it in otherwise(column, MASK).items():
                    read_otherwise[what, column] += int(rows.frame.select(has_it).to_series().sum())

        spelled = self.spellings(table)
        named: dict[str, Any] = {"optional": columns.optional, "labels": shared, "spelled": spelled}
        found = table.scan(columns.needed, check, **named, skip_bad=self.skip_bad, see=see)
        labels.read.extend(
            f"{what} in {counted(n, 'text')} of {column}" for (what, column), n in read_otherwise.items() if n
        )
        labels.read.extend(columns.joint)
        if table.headings is not None and is_file(table.headings):
            labels.notes.append(f"{table.headings} says which columns are meant, where no option does")
        labels.notes.extend(found.notes)
        labels.by_name.extend(columns.by_purpose(self))
        return found, labels
