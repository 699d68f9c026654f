"""A user's table, or a folder of tables with the same columns, such as BLiMP: checked, and cut into parts."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import polars as pl

from ...errors import InputError
from ...files.reading import is_folder, paths_in
from ...text.table_rows import Check, Rows
from ...text.user_table import Stimuli, Table, TableLike, open_table

ENDINGS = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")


@dataclass(frozen=True, eq=False)
class Tables:
    """One table, or several with the same columns.

    Attributes:
        name: What results call them: the name of the file or folder.
        stimuli: Each table, its rows known.
        files: What results call each of several tables; empty for a single one.
    """

    name: str
    stimuli: tuple[Stimuli, ...]
    files: tuple[str, ...] = ()

    @cached_property
    def parts(self) -> tuple[tuple[int, int], ...]:
        """All parts: number of the table, number of its part."""
        return tuple((t, number) for t, stimuli in enumerate(self.stimuli) for number in range(len(stimuli.parts)))

    @property
    def sizes(self) -> list[int]:
        """Rows of each part."""
        return [self.stimuli[t].parts[number].size for t, number in self.parts]

    @property
    def sha256(self) -> str:
        """Digest of the tables: of the one, or of the names and digests of all."""
        if not self.files:
            return self.stimuli[0].sha256
        lines = [f"{stimuli.sha256}  {file}\n" for file, stimuli in zip(self.files, self.stimuli, strict=True)]
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    @property
    def schema(self) -> dict[str, pl.DataType]:
        """All columns; a column that is a number in one table and a text in another one is a text."""
        found: dict[str, pl.DataType] = {}
        for stimuli in self.stimuli:
            for name, dtype in stimuli.schema.items():
                found[name] = dtype if found.get(name, dtype) == dtype else pl.String()
        return found

    def read(self, number: int, check: Check) -> tuple[Rows, str | None]:
        """The rows of a part, and what results call their table."""
        t, own = self.parts[number]
        rows = self.stimuli[t].read(own, check)
        missing = [
            pl.lit(None, dtype).alias(name) for name, dtype in self.schema.items() if name not in rows.frame.columns
        ]
        frame = rows.frame.with_columns(missing).select(*self.schema).cast(pl.Schema(self.schema))
        return replace(rows, frame=frame), self.files[t] if self.files else None

    def location(self, number: int, row: int, line: int | None) -> str:
        """Where a row of a part stands, for a message."""
        return self.stimuli[self.parts[number][0]].location(row, line)

    def places(self) -> dict[str, Path]:
        """The files by a name; see `Stage.files`."""
        return {f"table {t}": stimuli.path for t, stimuli in enumerate(self.stimuli) if stimuli.path is not None}

    def at(self, places: Mapping[str, Path]) -> "Tables":
        """The same tables in other places; see `Stage.with_files`."""
        return replace(
            self,
            stimuli=tuple(
                stimuli.at(places[name]) if (name := f"table {t}") in places else stimuli
                for t, stimuli in enumerate(self.stimuli)
            ),
        )


def open_tables(source: TableLike) -> tuple[str, list[Table]]:
    """Open a table, or all tables of a folder in the order of their names.

    Args:
        source: A file, a folder, a frame or columns.

    Returns:
        What results call them, and the tables.

    Raises:
        InputError: A file is not a table; a folder has none; two tables have other columns.
    """
    if not isinstance(source, str | Path):
        return "frame", [open_table(source)]
    path = Path(source)
    if not is_folder(path):
        return path.stem, [open_table(path)]
    paths = [own for own in paths_in(path) if own.suffix.lower() in ENDINGS]
    if not paths:
        raise InputError(f"{path}: this folder does not hold a table; the name of a table ends in {', '.join(ENDINGS)}")
    tables = [open_table(own) for own in paths]
    for own, table in zip(paths[1:], tables[1:], strict=True):
        if set(table.columns) != set(tables[0].columns):
            other = sorted(set(table.columns) ^ set(tables[0].columns))
            raise InputError(f"{own}: only one of this file and {paths[0]} has the column {other[0]!r}")
    return path.resolve().name, tables


def scan_tables(
    name: str, tables: Sequence[Table], texts: Sequence[str], check: Check, *, skip_bad: bool, rows_per_part: int
) -> Tables:
    """Read all rows once; see `stimuli.Table.scan`.

    Args:
        name: What results call the tables.
        tables: The tables.
        texts: Columns that must hold texts.
        check: What else makes a row bad.
        skip_bad: Whether bad rows are counted; without it the first one is an error.
        rows_per_part: Rows of a part.

    Raises:
        InputError: A file cannot be read; a row is bad; no row of a table can be used.
    """
    stimuli = [table.scan(texts, check, skip_bad=skip_bad, rows_per_part=rows_per_part) for table in tables]
    several = len(tables) > 1
    return Tables(name, tuple(stimuli), tuple(Path(str(own.path)).stem for own in stimuli) if several else ())
