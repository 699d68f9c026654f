"""Texts: read in parts of whole lines, so that they can have any size, and divided into sentences and words.

Words are divided as in CD-SCO, which follows the Penn Treebank: `do n't`, `can not`, `Holmes 's`, `well-known`.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import polars as pl

from ...basics.errors import InputError
from ...basics.paths import without_home
from ...text.table import OwnFolder, part_file
from ...text.text_lines import Lines, open_text
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


@dataclass(frozen=True, eq=False)
class TextFile:
    """A UTF-8 text, also `.gz`. Its lines lie in a folder of our own, a Parquet file a part, as the rows of tables."""

    name: str  # what results call it
    sha256: str  # of the text, unpacked
    folder: Path
    sizes: tuple[int, ...]  # lines of each part
    owner: object = field(default=None, repr=False)  # removes the folder when the last text that has it is gone

    @classmethod
    def scan(cls, path: Path, bytes_per_part: int = BYTES_PER_PART) -> "TextFile":
        """Read a file once, line by line, into parts of at least `bytes_per_part` bytes."""
        digest, folder, sizes, blank = hashlib.sha256(), OwnFolder(), list[int](), True
        with open_text(path, _HINT) as stream:
            for part in _parts(Lines(stream, str(path), digest), bytes_per_part):
                part.write_parquet(part_file(folder.path, len(sizes)), compression="lz4", statistics=False)
                sizes.append(len(part))
                blank = blank and not part["text"].str.strip_chars().ne("").any()
        if blank:
            raise InputError(f"{path}:1: no sentence in this file; give a text with one sentence or paragraph per line")
        return cls(without_home(path), digest.hexdigest(), folder.path, tuple(sizes), folder)

    def at(self, folder: Path) -> "TextFile":
        return replace(self, folder=folder)

    def read(self, number: int) -> list[tuple[str, int]]:
        """The lines of a part, each with its number."""
        return pl.read_parquet(part_file(self.folder, number)).rows()


def _parts(lines: Lines, size: int) -> Iterator[pl.DataFrame]:
    while True:
        first, stop, some = lines.line + 1, lines.offset + size, list[str]()
        while lines.offset < stop and (line := next(lines, None)) is not None:
            some.append(line)
        if not some:
            return
        yield pl.DataFrame({"text": some, "line": range(first, lines.line + 1)})
