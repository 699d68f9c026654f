"""Reading text-hypothesis pairs: the benchmark with negation, and the original dev sets in GLUE's layouts.

Both are tables separated by tabs, without quoting, with a header. The benchmark's files (Hossain et al. 2020) are in
cp1252 with CRLF; a copy that somebody has saved as UTF-8 is read as such. Its rows have no type; it follows from the
index: three rows a pair, `index % 3` = 0 T negated, 1 H negated, 2 both.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import InputError
from ..summary import ORIGINAL
from .labels import THREE_WAY, TWO_WAY, Label, parse_label

SOURCES = {"RTE": TWO_WAY, "SNLI": THREE_WAY, "MNLI": THREE_WAY}
KINDS = ("Tneg-H", "T-Hneg", "Tneg-Hneg")
NEW = "new"  # the condition of the pairs with negation
NO_CONSENSUS = "-"  # SNLI's gold label where the annotators did not agree: left out, as everywhere

# A file in cp1252 with a letter beyond ASCII is practically never valid UTF-8, so UTF-8 can be tried first.
_BENCHMARK_ENCODINGS, _GLUE_ENCODINGS = ("utf-8-sig", "cp1252"), ("utf-8-sig",)
_TEXT, _HYPOTHESIS, _LABEL = ("sentence1", "Text"), ("sentence2", "Hypothesis"), ("gold_label", "label")


@dataclass(frozen=True)
class Pair:
    """A text, a hypothesis and what was judged of them.

    Attributes:
        item: its number in its file.
        kind: which side was negated (one of `KINDS`), or "" in an original set.
        place: file and line.
    """

    item: int
    kind: str
    text: str
    hypothesis: str
    gold: Label
    place: str


@dataclass(frozen=True)
class PairSet:
    """The pairs of one file.

    Attributes:
        source: RTE, SNLI or MNLI.
        condition: `new` or `original`.
        sha256: of the file.
        skipped: rows without a gold label that were left out.
    """

    source: str
    condition: str
    pairs: tuple[Pair, ...]
    sha256: str
    skipped: int = 0

    @property
    def labels(self) -> tuple[Label, ...]:
        """The labels that pairs of this source are judged by."""
        return SOURCES[self.source]


def read_benchmark(path: Path, source: str) -> PairSet:
    """Read one file of the benchmark with negation.

    Args:
        path: such as RTE.txt.
        source: RTE, SNLI or MNLI.

    Raises:
        InputError: the file cannot be read or decoded, has no rows, lacks a column; a row has too few fields, an empty
            sentence, an unknown label, no number as index, or one that stood before.
    """
    table = _Table.read(path, _BENCHMARK_ENCODINGS)
    index, text, hypothesis, label = (table.column(*names) for names in (("index",), _TEXT, _HYPOTHESIS, _LABEL))
    lines: dict[int, int] = {}
    pairs = []
    for number, row in table.rows:
        place = f"{path}:{number}"
        if not row[index].isascii() or not row[index].isdigit():
            raise InputError(f"{place}: index {row[index]!r} is no number; the type of a pair follows from it")
        item = int(row[index])
        if (earlier := lines.setdefault(item, number)) != number:
            raise InputError(
                f"{place}: index {item} stands already in line {earlier}; the type of a pair follows from it"
            )
        gold = _gold(row[label], source, place)
        pairs.append(Pair(item, KINDS[item % 3], *_sentences(row[text], row[hypothesis], place), gold, place))
    return PairSet(source, NEW, tuple(pairs), table.sha256)


def read_original(path: Path, source: str) -> PairSet:
    """Read an original dev set: columns sentence1, sentence2, and gold_label or label (GLUE's RTE, MNLI and SNLI).

    Raises:
        InputError: as for `read_benchmark`, or no row has a gold label.
    """
    table = _Table.read(path, _GLUE_ENCODINGS)
    text, hypothesis, label = (table.column(*names) for names in (_TEXT, _HYPOTHESIS, _LABEL))
    pairs = []
    for item, (number, row) in enumerate(table.rows):
        if row[label] != NO_CONSENSUS:
            place = f"{path}:{number}"
            gold = _gold(row[label], source, place)
            pairs.append(Pair(item, "", *_sentences(row[text], row[hypothesis], place), gold, place))
    if not pairs:
        raise InputError(f"{path}:2: no row has a gold label; give the dev split")
    return PairSet(source, ORIGINAL, tuple(pairs), table.sha256, skipped=len(table.rows) - len(pairs))


def _gold(name: str, source: str, place: str) -> Label:
    label = parse_label(name)
    if label is None or label not in SOURCES[source]:
        raise InputError(f"{place}: unknown label {name!r}; {source} has {', '.join(SOURCES[source])}")
    return label


def _sentences(text: str, hypothesis: str, place: str) -> tuple[str, str]:
    if not text.strip() or not hypothesis.strip():
        raise InputError(f"{place}: the {'hypothesis' if text.strip() else 'text'} is empty")
    return text, hypothesis


@dataclass(frozen=True)
class _Table:
    """Header and rows of a file, with their line numbers."""

    path: Path
    header: tuple[str, ...]
    rows: tuple[tuple[int, tuple[str, ...]], ...]
    sha256: str

    @classmethod
    def read(cls, path: Path, encodings: Sequence[str]) -> "_Table":
        try:
            content = path.read_bytes()
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror}); give a file of pairs") from error
        if b"\0" in content:
            zero = content[: content.index(b"\0")].count(b"\n") + 1
            raise InputError(f"{path}:{zero}: byte 0x00, so it is no text in UTF-8 or cp1252 (UTF-16?)")
        # Not splitlines(): texts may hold characters that it takes for ends of lines.
        lines = [line.removesuffix("\r") for line in _decode(path, content, encodings).split("\n")]
        if not lines[0].strip():
            raise InputError(f"{path}:1: the file is empty; a header and one pair a line are needed")
        header = tuple(lines[0].split("\t"))
        rows = []
        for number, line in enumerate(lines[1:], 2):
            if line:
                fields = tuple(line.split("\t"))
                if len(fields) != len(header):
                    raise InputError(f"{path}:{number}: {len(fields)} fields, the header has {len(header)}")
                rows.append((number, fields))
        if not rows:
            raise InputError(f"{path}:2: no pairs under the header")
        return cls(path, header, tuple(rows), hashlib.sha256(content).hexdigest())

    def column(self, *names: str) -> int:
        """The number of the first of these columns that there is."""
        for name in names:
            if name in self.header:
                return self.header.index(name)
        raise InputError(f"{self.path}:1: no column {' or '.join(names)}; the header has {', '.join(self.header)}")


def _decode(path: Path, content: bytes, encodings: Sequence[str]) -> str:
    place = ""
    for encoding in encodings:
        try:
            return content.decode(encoding)
        except UnicodeDecodeError as error:
            line = content[: error.start].count(b"\n") + 1
            place = f"{path}:{line}: byte 0x{content[error.start]:02x}"
    raise InputError(f"{place} is not {' or '.join(encoding.removesuffix('-sig') for encoding in encodings)}")
