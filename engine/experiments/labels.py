"""What rows of a user's table share: groups, items, clusters; and what in them looks like a slip of the keyboard.

Spaces at the ends of a value do not count, and an empty cell is not a value.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import polars as pl

from ..basics.errors import InputError
from ..basics.printable import counted
from ..text.table import Rows
from ..text.table_cells import label

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
_SPACES, _SPELLING, _SECOND = "spaces in ", "spelling of ", "published spelling of "


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
    _groups: dict[str, set[str]] = field(default_factory=dict, repr=False)

    def see(self, file: str, rows: Rows, labelled: pl.DataFrame) -> None:
        """Take in rows as they stand in a file, and with their labels as they count. `InputError`: too many groups."""
        values = {name: labelled[name].cast(pl.String) for name in self.columns}
        numbers, kind = (rows.numbers, "row") if rows.lines is None else (rows.lines, "line")
        part = pl.DataFrame({_PLACE: numbers}).with_columns(pl.lit(f"{file}, {kind}").alias(_FILE))
        for name, own in values.items():
            there = rows.frame[name].cast(pl.String)
            alone = label(there)
            slips = {
                _SPACES: alone.is_not_null() & (alone != there),
                _SPELLING: alone.is_not_null() & (alone != there.str.strip_chars()),
                _SECOND: pl.select(pl.when(alone != own).then(alone)).to_series(),
            }
            part = part.with_columns(own.alias(name), *(slip.alias(kind + name) for kind, slip in slips.items()))
        self.parts.append(part)
        for name in set(self._of(GROUP)) & set(values):
            known = self._groups.setdefault(name, set())
            known.update(values[name].drop_nulls().unique())
            if len(known) > _MOST_VALUES:
                raise InputError(
                    f"{self.table}: the column {name!r} has more than {_MOST_VALUES:,} different values; give another "
                    "--group, or name it with --cluster or --item if it says which rows belong together"
                )

    @cached_property
    def rows(self) -> pl.DataFrame:
        kinds = {"": pl.String, _SPACES: pl.Boolean, _SPELLING: pl.Boolean, _SECOND: pl.String}
        empty = {kind + name: dtype for kind, dtype in kinds.items() for name in self.columns}
        return pl.concat([pl.DataFrame(schema=empty), *self.parts], how="diagonal")

    def _of(self, purpose: str) -> list[str]:
        return [name for name, own in self.columns.items() if own == purpose]

    def told(self) -> Told:
        """Raises InputError if two groups differ in case alone."""
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
        spelled = rows.drop_nulls(name).select(value, folded=value.str.to_lowercase()).unique(maintain_order=True)
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
        if len(odd := rows.filter(pl.col(_SPELLING + name))):
            what = "other spaces than the usual one, invisible characters, or letters in two parts"
            yield f"{name} has {what}, which do not count: {self._where(odd)}"
        second = rows.drop_nulls(_SECOND + name).group_by(_SECOND + name, name, maintain_order=True).len()
        for written, own, n in second.iter_rows():
            yield f"{name}: {written!r} counts as {own!r}, as the authors of the data count it ({counted(n, 'row')})"
        if len(spaces := rows.filter(pl.col(_SPACES + name) & ~pl.col(_SPELLING + name))):
            yield f"{name} has spaces at the ends, which do not count: {self._where(spaces)}"
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
