"""The one reader of text files, also packed with gzip: line by line, so that every error names its file and line."""

import codecs
import gzip
import hashlib
import io
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self

from ..basics.errors import InputError
from ..basics.reading import open_regular, parse_json, unreadable

LONGEST_LINE = 1_000_000  # bytes; a longer line shows that the file is not a text with line ends
MOST_LIST, MOST_TABLE = 2**22, 2**31  # bytes of a word list, and of a table or of JSON lines
LONGEST_ENTRY, LONGEST_FIELD = 200, 10_000  # characters of an entry of a word list, and of a text in a table
MISSING = ("", "NA", "NaN", "<NA>", "NaT", "#N/A", r"\N")
"""What stands for no value in a cell, whatever wrote it: R, pandas, spreadsheets, databases."""
BYTE_ORDER_MARK, GZIP = b"\xef\xbb\xbf", b"\x1f\x8b"
# Control characters that no text holds. Other authors' texts do hold tabs, form feeds and the controls above U+007F.
CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")
_SHOWN = 60  # characters of a line in a message


class Located(NamedTuple):
    """A line without its end, or what stands on it."""

    text: str
    location: str  # file and number


class BadLineError(InputError):
    """A line that is not text; the lines after it can be read."""

    def __init__(self, location: str, reason: str) -> None:
        super().__init__(f"{location}: {reason}")
        self.reason = reason


class Lines(Iterator[str]):
    """The lines of a file, without their ends; one line is in memory."""

    def __init__(
        self,
        stream: BinaryIO,
        name: str,
        digest: "hashlib._Hash | None" = None,
        most: int | None = None,
        encoding: str = "",
    ) -> None:
        """The digest gets the bytes of every line. `most` are bytes; None for a file that is never held in memory.

        `encoding` is that of lines that are not UTF-8; without it, they are not texts.
        """
        self.line = self.offset = 0  # lines and bytes that were read
        self._stream, self._name, self._digest, self._most = stream, name, digest, most
        self._encoding = encoding

    @property
    def location(self) -> str:
        return f"{self._name}:{self.line}"

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        """The next line. BadLineError: it is not a text. InputError: the line is too long, or the file is too large."""
        line = self._stream.readline(LONGEST_LINE + 1)
        if not line:
            raise StopIteration
        if self._digest is not None:
            self._digest.update(line)
        self.line, self.offset = self.line + 1, self.offset + len(line)
        if self._most is not None and self.offset > self._most:
            raise InputError(f"{self.location}: the file has more than {self._most:,} bytes; give a smaller one")
        if len(line) > LONGEST_LINE:
            raise InputError(
                f"{self.location}: this line has more than {LONGEST_LINE:,} bytes; give a file with shorter lines"
            )
        line = line.removeprefix(BYTE_ORDER_MARK)  # in the middle, too, where files were joined
        # Only a line feed ends a line: JSON may hold the other characters that str.splitlines() splits at.
        text = self._decoded(line.removesuffix(b"\n").removesuffix(b"\r"))
        if found := CONTROL.search(text):
            raise BadLineError(self.location, _not_printable(found[0], text))
        return text

    def _decoded(self, line: bytes) -> str:
        for encoding in filter(None, ("utf-8", self._encoding)):
            try:
                return line.decode(encoding)
            except UnicodeDecodeError as error:
                said = f"byte 0x{line[error.start]:02x} is not UTF-8"
                said += f" or {self._encoding}" if self._encoding else _likely(line, error)
        raise BadLineError(self.location, f"{said}; save the file as UTF-8 text")

    def located(self) -> Iterator[Located]:
        for line in self:
            yield Located(line, self.location)


@contextmanager
def open_text(path: Path, hint: str = "") -> Iterator[BinaryIO]:
    """A text file, unpacked where it is packed."""
    with open_regular(path, hint) as file:
        try:
            packed = path.suffix == ".gz" or file.peek(len(GZIP)).startswith(GZIP)
            with gzip.open(file) if packed else file as stream:
                yield stream  # type: ignore[misc]  # a GzipFile reads like a BinaryIO
        except (OSError, EOFError, zlib.error) as error:
            raise unreadable(path, error, hint) from error


def stream_lines(path: Path, hint: str = "", most: int | None = None) -> Iterator[Located]:
    """All lines of a file; only one is held in memory."""
    with open_text(path, hint) as stream:
        yield from Lines(stream, str(path), most=most).located()


def read_lines(path: Path) -> list[Located]:
    """The lines of a file that are not empty; InputError if there is none."""
    return _not_empty(stream_lines(path, most=MOST_TABLE), str(path))


def decoded(content: bytes, name: str) -> list[Located]:
    """As `read_lines`, of a file that is held in memory."""
    return _not_empty(Lines(io.BytesIO(content), name).located(), name)


def _not_empty(lines: Iterator[Located], name: str) -> list[Located]:
    if found := [line for line in lines if line.text.strip()]:
        return found
    raise InputError(f"{name}:1: the file is empty")


def read_text(path: Path, hint: str, most: int) -> str:
    """A file as one text with line feeds, without a byte order mark."""
    return "".join(f"{text}\n" for text, _ in stream_lines(path, hint, most))


def checked_length(text: str, what: str) -> str:
    """The same text; InputError if it is too long for any model."""
    if len(text) > LONGEST_FIELD:
        raise InputError(f"{what} has {len(text):,} characters; give a text with at most {LONGEST_FIELD:,}")
    return text


def json_object(line: str, location: str) -> dict[str, Any]:
    """The JSON object of a line."""
    fields = parse_json(line, location, each_key_once)
    if isinstance(fields, dict):
        return fields
    raise InputError(f"{location}: {line.strip()[:40]!r} is not a JSON object; write one object per line")


def each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object of its keys and values, for `parse_json`; InputError, without a place, if a key stands twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"the key {twice!r} stands there twice; write it once")
    return found


def read_entries(path: Path, hint: str = "") -> list[Located]:
    """The entries of a word list: one a line; empty lines and lines that begin with "#" do not count."""
    found = []
    for line, location in stream_lines(path, hint, MOST_LIST):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        if fault := fault_of_entry(text):
            raise InputError(f"{location}: {fault}")
        found.append(Located(text, location))
    return found


def fault_of_entry(text: str) -> str:
    """The error in a word or phrase that fills a slot; empty if there is none."""
    if odd := next((character for character in text if not character.isprintable()), None):
        return _not_printable(odd, text)
    if not text.strip():
        return "an empty word; give one"
    if len(text) > LONGEST_ENTRY:
        return f"{len(text):,} characters in {text!r}; a word has at most {LONGEST_ENTRY}"
    if "  " in text:
        return f"two spaces in a row in {text!r}; write one"
    if " #" in text:
        return f"a comment after the entry in {text!r}; give it a line of its own"
    return ""


def _likely(line: bytes, error: UnicodeDecodeError) -> str:
    """What the bytes are, if they tell: UTF-16, or a letter in the usual encoding of Windows in the West."""
    if line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return ": this is UTF-16 text"
    letter = line[error.start : error.start + 1].decode("cp1252", "replace")
    return f", but probably {letter!r} in cp1252, the encoding of Windows" if letter.isalpha() else ""


def _not_printable(character: str, text: str) -> str:
    start = max(0, text.index(character) - _SHOWN // 2)
    excerpt = text[start : start + _SHOWN]
    return f"the character U+{ord(character):04X} in {excerpt!r} is not printable; remove it"
