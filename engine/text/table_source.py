"""A table that is to be read: a file, or what is in memory, and how it is written."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

PLACE = "\0"  # no column of a user has this name
PLACES = {"row": pl.Int64, "line": pl.Int64, "reason": pl.String}
"""Where a row stands: its number from 1, its line (null outside text files); and why it cannot be used."""
Row = tuple[int | None, Mapping[str, Any] | str]  # the line where it begins; its cells, or why it cannot be read


@dataclass(frozen=True)
class Form:
    """How a text file is written, if not as spreadsheets and pandas write it."""

    plain: bool = False  # tabs separate the fields, and quotation marks have no meaning
    encoding: str = ""  # of lines that are not UTF-8
    tidy: Callable[[Sequence[str], list[str]], list[str]] | None = None  # header, fields of a row → its fields


AS_USUAL = Form()


@dataclass(eq=False)
class Source:
    """A file; or what is in memory. Once all is read, it knows its columns and notes."""

    name: str
    data: Any  # its path, a frame of Polars, columns, or a list of dictionaries; None once it is read
    form: Form = AS_USUAL
    sha256: str = ""  # in hex: of a file's bytes, or of the names, types and values in memory
    columns: dict[str, None] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)  # column that cannot be read → why
    notes: list[str] = field(default_factory=list)  # what a person may not have meant

    def location(self, row: int, line: int | None) -> str:
        """Where a row stands, for a message."""
        return f"{self.name}, row {row}" if line is None else f"{self.name}:{line}"
