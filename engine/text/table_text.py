"""A source of rows, and the rows of a text: CSV and TSV as people and programs write them, JSON lines, a JSON list."""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import methodcaller
from typing import Any

import polars as pl
import regex

from ..basics.errors import InputError
from ..basics.printable import counted
from ..basics.reading import parse_json
from .table_cells import checked_names, seen_name
from .text_lines import BadLineError, Lines, each_key_once, json_object, open_text, read_text

HINT = "give a table as CSV, TSV, JSON lines or Parquet"
PLACE = "\0"  # no column of a user has this name
PLACES = {"row": pl.Int64, "line": pl.Int64, "reason": pl.String}
"""Where a row stands: its number from 1, its line (null outside text files); and why it cannot be used."""
_MOST_LIST = 2**26  # bytes of a JSON list, which is held in memory
_DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar", " ": "space"}
_COMMENT = "a line that begins with # is not a row of a table; remove it"
_NEXT = regex.compile(r"[\s,]*")
_CSV_ERRORS = {
    "field limit": "a text of more than 131,072 characters, or a double quote that is not closed",
    "unexpected end of data": "a double quote that is not closed",
    "new-line character": "a line end in the middle of the line; save the file as CSV with the usual line ends",
}

Row = tuple[int | None, Mapping[str, Any] | str]  # the line where it begins; its cells, or why it cannot be read
Record = tuple[int, list[Any], str | None]  # the line where it begins, its fields, and why it cannot be read


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


def location(file: str, row: int, line: int | None) -> str:
    """Where a row of a file stands, for a message."""
    return f"{file}, row {row}" if line is None else f"{file}:{line}"


def of_delimited(source: Source, usual: str) -> Iterator[Row]:
    """Rows of fields, whose delimiter the header shows; `usual` is that of the kind."""
    with open_text(source.data) as stream:
        form, lines = source.form, Lines(stream, source.name, encoding=source.form.encoding)
        filled = filter(str.strip, lines)
        first = next(filled, "")
        said = first[4:] if first[:4].lower() == "sep=" and len(first) == 5 else ""
        if said:  # a spreadsheet's own line about the delimiter
            first = next(filled, "")
        sign = said if said in _DELIMITERS else "\t" if form.plain else _delimiter(first, usual)
        # `map` goes on after a line that cannot be read; a generator would end there. A space before a double quote is
        # layout, and one before another text is not read anyway.
        every = chain([first], lines)
        quoted = csv.reader(map("{}\n".format, every), delimiter=sign, strict=True, skipinitialspace=True)
        records = _each(map(methodcaller("split", "\t"), every) if form.plain else quoted, lines)
        _, header, reason = next(records, (0, [], None))
        if reason or first.startswith("# "):
            raise InputError(f"{lines.location}: {reason or _COMMENT}")
        # An unquoted text with a comma too many looks like a row with a name, so that the header must stand in quotes.
        can_be_named = len(header) > 1 and (first.startswith('"') or sign == "\t") and not form.plain
        yield from below(source, header, _records(source, lines, records, header, sign, can_be_named), lines.line)


def _delimiter(header: str, usual: str) -> str:
    """The sign that a header has most often, as many spreadsheets write `;`; in TSV, a comma stands within a name."""
    sign = max(",;\t|", key=lambda own: (own == usual == "\t" in header, header.count(own), own == usual))
    return " " if sign not in header and header.startswith('"') else sign  # a space can stand in a name, too


def _each(reader: Iterator[Any], lines: Lines) -> Iterator[tuple[int, Any, str | None]]:
    """What is read next of some lines, the line where it begins, and why it cannot be read."""
    while True:
        first, found, reason = lines.line + 1, None, None
        try:
            found = next(reader)
        except StopIteration:
            return
        except BadLineError as error:
            reason = error.reason
        except csv.Error as error:
            usual = f"{error}; write a double quote within a quoted text twice"
            reason = next((told for begin, told in _CSV_ERRORS.items() if begin in str(error)), usual)
        yield first, found, reason


def _records(
    source: Source, lines: Lines, records: Iterator[Record], header: Sequence[str], sign: str, can_be_named: bool
) -> Iterator[Record]:
    """The records that are rows, each without its name if R's `write.table` gave it one, for which no header stands."""
    named, swallowed, width, tidy = None if can_be_named else False, list[int](), len(header), source.form.tidy
    for first, read, unread in records:
        if unread:
            yield first, [], unread
            continue
        fields = tidy(header, read) if tidy else read
        if not any(fields) or (sign == "|" and not "".join(fields).strip("-: ")):
            continue  # spreadsheets write rows of empty cells below a table, Markdown dashes below a header
        if named is None:
            named = len(fields) == width + 1 and fields[0].isdigit() and fields[-1] != ""
        own = fields[1:] if named else fields
        is_ragged, reason = len(own) != width, None
        if own[:1] and own[0].startswith("#" if is_ragged else "# "):
            reason = _COMMENT
        elif is_ragged:
            more = f"; a text that has a {_DELIMITERS[sign]} must stand in double quotes" if len(own) > width else ""
            reason = f"{counted(len(fields), 'field')}, but the header has {width}{more}"
        elif lines.line > first and any(_holds_a_row(text, sign, len(fields)) for text in own):
            swallowed.append(first)
        yield first, own, reason
    if swallowed:
        more = f" ({len(swallowed):,} such rows)" if len(swallowed) > 1 else ""
        source.notes.append(
            f"line {swallowed[0]}: a text in double quotes goes on over a line that looks like a row of its own{more}"
            "; is a double quote missing, or one too many?"
        )


def _holds_a_row(text: str, sign: str, fields: int) -> bool:
    """Whether a quoted text goes on over a line that has as many delimiters as a row."""
    return "\n" in text and any(line.count(sign) >= fields - 1 for line in text.split("\n"))


def below(source: Source, header: Sequence[Any], records: Iterable[Record], line: int) -> Iterator[Row]:
    """The rows below a header. R and pandas write a first column without a name, which its position names."""
    seen = [seen_name(own) for own in header]
    names = checked_names([own or f"column {i}" for i, own in enumerate(seen, 1)], f"{source.name}:{line}")
    for place, fields, reason in records:
        if not reason and str(fields[0]).startswith('{"ImportId":'):
            told = "below the names of the columns, Qualtrics has two lines more; remove them"
            raise InputError(f"{source.name}: {told}")
        again = not reason and is_header(seen, fields) and "this row is the header again; remove it"
        yield place, reason or again or dict(zip(names, fields, strict=True))


def is_header(header: Sequence[str], fields: Sequence[Any]) -> bool:
    """Whether a row is the header again, also in other letters, such as capitals."""
    return all(seen_name(cell).lower() == name.lower() for name, cell in zip(header, fields, strict=True))


def of_json(source: Source) -> Iterator[Row]:
    """One object per line."""
    with open_text(source.data) as stream:
        lines = Lines(stream, source.name, encoding=source.form.encoding)
        for line, text, reason in _each(lines, lines):
            if reason or text.strip():
                yield (line, reason) if reason else row_of(text.strip(), line)


def of_list(source: Source) -> Iterator[Row]:
    """The objects of a JSON list, each with the line where it begins."""
    text, decoder = read_text(source.data, HINT, _MOST_LIST).removesuffix("\n"), json.JSONDecoder()
    place, line = text.index("[") + 1, text.count("\n", 0, text.index("[")) + 1
    for _ in parse_json(text, source.name):  # which refuses a list that is not whole
        begin = _NEXT.match(text, place).end()
        line, (_, place) = line + text.count("\n", place, begin), decoder.raw_decode(text, begin)
        yield row_of(text[begin:place], line)
        line += text.count("\n", begin, place)


def row_of(given: str | Mapping[Any, Any], line: int | None = None) -> Row:
    """A JSON object or a dictionary, with the names that a person sees, of which no two may be alike."""
    try:
        own = json_object(given, "") if isinstance(given, str) else given
        return line, each_key_once([(seen_name(name), cell) for name, cell in own.items()])
    except InputError as error:
        reason = str(error).removeprefix(": ")
        remedy = "; write one object per line, or a list of them" if reason.startswith("not JSON") else ""
        return line, f"{reason}{remedy}"
