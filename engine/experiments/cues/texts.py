"""A text file in parts of whole lines, so that a file of any size is read part by part."""

import gzip
import hashlib
import threading
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, NamedTuple

from ...errors import InputError
from ...files.home import without_home
from ...files.reading import open_regular, unreadable
from ...text.lines import BadLineError, Lines, Place

BYTES_PER_PART = 2**18  # some 2,500 sentences
_HINT = "give a text file"


class TextPart(NamedTuple):
    """Lines that are read together.

    Attributes:
        place: Where they begin.
        lines: How many they are.
    """

    place: Place
    lines: int


@dataclass(frozen=True, eq=False)
class TextFile:
    """A UTF-8 text, also `.gz`.

    Attributes:
        path: The file.
        name: What results call it.
        sha256: Digest of the text, unpacked.
        parts: All of its lines.
    """

    path: Path
    name: str
    sha256: str
    parts: tuple[TextPart, ...]

    @classmethod
    def scan(cls, path: Path, bytes_per_part: int = BYTES_PER_PART) -> "TextFile":
        """Read a file once, to know its digest and its parts; one line is in memory.

        Args:
            path: The file.
            bytes_per_part: A part ends with the line in which it has so many bytes.

        Raises:
            InputError: The file cannot be read, or holds no word; a line is not UTF-8, holds a control character or is
                too long.
        """
        digest, parts, blank = hashlib.sha256(), [], True
        with _opened(path) as stream:
            lines = Lines(stream, str(path), digest=digest)
            start = lines.place
            for line in _readable(lines):
                blank = blank and not line.strip()
                if lines.place.offset - start.offset >= bytes_per_part:
                    parts.append(TextPart(start, lines.place.line - start.line))
                    start = lines.place
            if lines.place.line > start.line:
                parts.append(TextPart(start, lines.place.line - start.line))
        if blank:
            raise InputError(f"{path}:1: no sentence in this file; give a text with one sentence or paragraph per line")
        return cls(path, without_home(path), digest.hexdigest(), tuple(parts))

    def at(self, path: Path) -> "TextFile":
        """The same text in another place."""
        return replace(self, path=path)

    def read(self, number: int) -> list[tuple[str, int]]:
        """The lines of a part, each with its number.

        Raises:
            InputError: The file cannot be read any more, or was changed.
        """
        part = self.parts[number]
        with _CONTINUED.opened(self.path, part.place.offset) as stream:
            lines = Lines(stream, str(self.path), part.place)
            found = []
            for line in _readable(lines):
                found.append((line, lines.place.line))
                if len(found) == part.lines:
                    return found
        raise InputError(f"{self.path}: the file has become shorter since the run began")


def _readable(lines: Lines) -> Iterator[str]:
    """The lines; one that is not text is an error with its file and number."""
    try:
        yield from lines
    except BadLineError as error:
        raise InputError(f"{lines.location}: {error}") from None


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    with open_regular(path, _HINT) as file:
        try:
            with gzip.open(file) if path.suffix == ".gz" else file as stream:
                yield stream  # type: ignore[misc]  # a GzipFile reads like a BinaryIO
        except (OSError, EOFError, zlib.error) as error:
            raise unreadable(path, error, _HINT) from error


class _Continued:
    """The packed file that was read last stays open: to reach a part, all before it would be unpacked again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._path: Path | None = None
        self._stack = ExitStack()
        self._stream: BinaryIO | None = None

    @contextmanager
    def opened(self, path: Path, offset: int) -> Iterator[BinaryIO]:
        """A file, for reading from an offset on."""
        if path.suffix != ".gz":
            with _opened(path) as stream:
                yield stream
            return
        with self._lock:
            if self._path != path or self._stream is None or self._stream.tell() > offset:
                self._stack.close()
                self._stack = ExitStack()
                self._stream, self._path = self._stack.enter_context(_opened(path)), path
            yield self._stream


_CONTINUED = _Continued()
