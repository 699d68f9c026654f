"""Texts: read in parts of whole lines, so that they can have any size, and divided into sentences and words.

Words are divided as in CD-SCO, which follows the Penn Treebank: `do n't`, `can not`, `Holmes 's`, `well-known`.
"""

import hashlib
import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, NamedTuple

from ...basics.errors import InputError
from ...basics.paths import without_home
from ...text.text_lines import Lines, Place, open_text
from .cue_words import WORDS

_END = re.compile(r"""([.!?…]["'”’)\]]*)\s+(?=["'“‘(\[]*[A-Z0-9])""")
_ABBREVIATED = re.compile(rf"\b(?:{'|'.join(map(re.escape, WORDS['abbreviations']))}|[A-Z])\.$")
_NUMBERED = re.compile(rf"\b(?:{'|'.join(WORDS['before_numbers'])})\.$", re.IGNORECASE)
_LONGEST_ABBREVIATION = max(map(len, WORDS["abbreviations"])) + 2

_WORDS = re.compile(
    r"""(?i:can)(?=not\b)                      # can not
      | [^\W\d_]+?(?=(?i:n't)\b)               # do n't
      | (?i:n't)\b
      | '(?i:s|re|ve|ll|d|m)\b                 # Holmes 's
      | (?:Mr|Mrs|Ms|Dr|St)\.                  # a full stop of an abbreviation belongs to it
      | \d+(?:[.,:]\d+)*(?:\w+)?
      | \w+(?:-\w+)*
      | \.{2,} | -{2,} | \S
    """,
    re.VERBOSE,
)
BYTES_PER_PART = 2**18  # some 2,500 sentences
_HINT = "give a text file"


def split_sentences(line: str) -> list[str]:
    """Sentences of a paragraph: they end with . ! ? before a capital or a digit, but not after an abbreviation."""
    sentences = []
    start = 0
    for match in _END.finditer(line):
        # Only the last word counts: to search the whole sentence again at each full stop would take quadratic time.
        last = max(start, match.end(1) - _LONGEST_ABBREVIATION), match.end(1)
        is_number = line[match.end()].isdecimal() and _NUMBERED.search(line, *last)
        if not is_number and not _ABBREVIATED.search(line, *last):
            sentences.append(line[start : match.end(1)].strip())
            start = match.end()
    return [sentence for sentence in (*sentences, line[start:].strip()) if sentence]


def split_words(sentence: str) -> list[str]:
    """The words and punctuation marks of a sentence, from left to right."""
    return _WORDS.findall(sentence.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'"))


class TextPart(NamedTuple):
    """Lines that are read together, how many they are, and their digest."""

    place: Place
    lines: int
    sha256: str


@dataclass(frozen=True, eq=False)
class TextFile:
    """A UTF-8 text, also `.gz`."""

    path: Path
    name: str  # what results call it
    sha256: str  # of the text, unpacked
    parts: tuple[TextPart, ...]

    @classmethod
    def scan(cls, path: Path, bytes_per_part: int = BYTES_PER_PART) -> "TextFile":
        """Read a file once, line by line, to know its digest and its parts of at least `bytes_per_part` bytes."""
        digest, own, parts, blank = hashlib.sha256(), hashlib.sha256(), [], True
        with open_text(path, _HINT) as stream:
            lines = Lines(stream, str(path), digest=digest)
            start = lines.place
            for line in lines:
                blank = blank and not line.strip()
                own.update(f"{line}\n".encode())
                if lines.place.offset - start.offset >= bytes_per_part:
                    parts.append(TextPart(start, lines.place.line - start.line, own.hexdigest()))
                    start, own = lines.place, hashlib.sha256()
            if lines.place.line > start.line:
                parts.append(TextPart(start, lines.place.line - start.line, own.hexdigest()))
        if blank:
            raise InputError(f"{path}:1: no sentence in this file; give a text with one sentence or paragraph per line")
        return cls(path, without_home(path), digest.hexdigest(), tuple(parts))

    def at(self, path: Path) -> "TextFile":
        return replace(self, path=path)

    def read(self, number: int) -> list[tuple[str, int]]:
        """The lines of a part, each with its number; an `InputError` if the file is gone or has changed."""
        part, digest = self.parts[number], hashlib.sha256()
        with _CONTINUED.opened(self.path, part.place.offset) as stream:
            lines = Lines(stream, str(self.path), part.place)
            found = []
            for line in lines:
                found.append((f"{line}\n", lines.place.line))
                digest.update(found[-1][0].encode())
                if len(found) == part.lines:
                    break
        if digest.hexdigest() != part.sha256:
            raise InputError(
                f"{self.path}: the lines from {part.place.line + 1} on have changed since the run began; give the text "
                "as it was, or choose another --output"
            )
        return found


class _Continued:
    """The packed file that was read last stays open: to reach a part, all before it would be unpacked again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._path: Path | None = None
        self._stack = ExitStack()
        self._stream: BinaryIO | None = None

    @contextmanager
    def opened(self, path: Path, offset: int) -> Iterator[BinaryIO]:
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
