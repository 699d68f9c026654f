"""Text files of other authors, read line by line, so that an error can say where."""

import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import InputError


@dataclass(frozen=True)
class Row:
    """One line of a file, taken apart.

    Attributes:
        fields: name → value; strings in a table, JSON values in JSON lines.
        place: file and line.
    """

    fields: dict[str, Any]
    place: str

    def text(self, name: str) -> str:
        """A field that must be a text with something in it.

        Raises:
            InputError: it is missing, no text, or empty.
        """
        value = self.fields.get(name)
        if not isinstance(value, str) or not value.strip():
            found = "is missing" if name not in self.fields else f"is {value!r}"
            raise InputError(f"{self.place}: {name} {found}; a text is needed")
        return value.strip()

    def number(self, name: str) -> float:
        """A field that must be a number.

        Raises:
            InputError: it is something else.
        """
        try:
            return float(self.text(name))
        except ValueError:
            raise InputError(f"{self.place}: {name} is {self.fields[name]!r}; a number is needed") from None


def read_lines(path: Path) -> list[tuple[str, str]]:
    """The lines of a UTF-8 file that hold anything, each with its place; `.gz` is unpacked.

    Raises:
        InputError: the file cannot be read, is empty, or holds a byte that is not UTF-8.
    """
    try:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: cannot be read ({reason})") from error
    return list(decoded(content, str(path)))


def decoded(content: bytes, name: str) -> Iterator[tuple[str, str]]:
    """The lines of a file's content that hold anything, each with its place.

    Raises:
        InputError: it is empty, or holds a byte that is not UTF-8.
    """
    empty = True
    for number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        place = f"{name}:{number}"
        try:
            text = line.removesuffix(b"\r").decode()
        except UnicodeDecodeError as error:
            raise InputError(
                f"{place}: byte 0x{line[error.start]:02x} is not UTF-8; save the file as UTF-8 text"
            ) from error
        if text.strip():
            empty = False
            yield text, place
    if empty:
        raise InputError(f"{name}:1: the file is empty")


def read_table(path: Path, columns: Sequence[str]) -> list[Row]:
    """The rows of a table separated by tabs, without quoting, with a header.

    Args:
        path: the file.
        columns: the columns that it must have; others are kept too.

    Raises:
        InputError: as `read_lines`; a column is missing, a row has more or fewer fields than the header, or there is no
            row.
    """
    (header, first), *lines = read_lines(path)
    names = [name.strip() for name in header.split("\t")]
    if absent := [name for name in columns if name not in names]:
        raise InputError(f"{first}: no column {absent[0]!r}; the header has {', '.join(names)}")
    rows = []
    for line, place in lines:
        fields = line.split("\t")
        if len(fields) != len(names):
            raise InputError(f"{place}: {len(fields)} fields, where the header has {len(names)}")
        rows.append(Row(dict(zip(names, fields, strict=True)), place))
    if not rows:
        raise InputError(f"{path}:2: no row below the header")
    return rows


def json_rows(lines: Sequence[tuple[str, str]]) -> list[Row]:
    """Lines that hold a JSON object each.

    Raises:
        InputError: a line does not.
    """
    rows = []
    for line, place in lines:
        try:
            fields = json.loads(line)
        except ValueError as error:
            raise InputError(f"{place}: not JSON ({error})") from error
        if not isinstance(fields, dict):
            raise InputError(f"{place}: {line.strip()[:40]!r} is no JSON object; one object a line is needed")
        rows.append(Row(fields, place))
    return rows
