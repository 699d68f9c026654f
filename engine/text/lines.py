"""The lines of a text file with their byte offsets, so that a row can be read again where it lies."""

import hashlib
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple, Self

from ..errors import InputError
from .textfiles import BYTE_ORDER_MARK, LONGEST_LINE, decoded_line


class Place(NamedTuple):
    """A place between two lines.

    Attributes:
        offset: Bytes before it.
        line: Lines before it.
    """

    offset: int = 0
    line: int = 0


BEGINNING = Place()


class BadLineError(InputError):
    """A line that is not text; the lines after it can be read."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Lines(Iterator[str]):
    """The lines from a place on; one line is in memory.

    Attributes:
        place: Where the next line begins.
    """

    def __init__(self, stream: BinaryIO, name: str, start: Place = BEGINNING, digest: "hashlib._Hash | None" = None):
        """Read on from a place.

        Args:
            stream: The file.
            name: Of the file, for messages.
            start: Where to begin.
            digest: Gets the bytes of every line that is read.
        """
        stream.seek(start.offset)
        self.place = start
        self._stream = stream
        self._name = name
        self._digest = digest

    @property
    def location(self) -> str:
        """File and number of the line that was read last."""
        return f"{self._name}:{self.place.line}"

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        """The next line with a line feed at its end.

        Raises:
            BadLineError: It is not UTF-8, or holds a control character.
            InputError: It is too long for a line of text.
        """
        line = self._stream.readline(LONGEST_LINE + 1)
        if not line:
            raise StopIteration
        if self._digest is not None:
            self._digest.update(line)
        self.place = Place(self.place.offset + len(line), self.place.line + 1)
        if len(line) > LONGEST_LINE:
            raise InputError(
                f"{self.location}: this line has more than {LONGEST_LINE:,} bytes; give a table with shorter lines"
            )
        try:
            return (
                decoded_line(line.removeprefix(BYTE_ORDER_MARK) if self.place.line == 1 else line, self.location) + "\n"
            )
        except InputError as error:
            raise BadLineError(str(error).removeprefix(f"{self.location}: ")) from None
