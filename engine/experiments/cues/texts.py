"""A text file in parts of whole lines, so that a file of any size is read part by part."""

import hashlib
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, NamedTuple

from ...errors import InputError
from ...files.paths import without_home
from ...text.text_lines import Lines, Place, open_text

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
        with open_text(path, _HINT) as stream:
            lines = Lines(stream, str(path), digest=digest)
            start = lines.place
            for line in lines:
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
            for line in lines:
                found.append((f"{line}\n", lines.place.line))
                if len(found) == part.lines:
                    return found
        raise InputError(f"{self.path}: the file has become shorter since the run began")


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
            with open_text(path, _HINT) as stream:
                yield stream
            return
        with self._lock:
            if self._path != path or self._stream is None or self._stream.tell() > offset:
                self._stack.close()
                self._stack = ExitStack()
                self._stream, self._path = self._stack.enter_context(open_text(path, _HINT)), path
            yield self._stream


_CONTINUED = _Continued()
