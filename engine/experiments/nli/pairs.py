"""Reading text-hypothesis pairs: the benchmark with negation, and original dev sets in the layouts of GLUE.

Both are tables with a header; tabs separate the fields, and quotes have no meaning. The benchmark's files (Hossain et
al. 2020) are in cp1252 with CRLF; a copy that somebody has saved as UTF-8 is read as such. Its rows do not name the
type of a pair. It follows from the index: three rows a pair, `index % 3` = 0 T negated, 1 H negated, 2 both.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ...errors import InputError
from ...files.reading import file_sha256, read_regular
from ...text.text_lines import MOST_TABLE, Row, checked_length, decoded, stream_lines, stream_rows
from ..items import ORIGINAL
from .labels import SOURCES, Label, parse_label

KINDS = ("Tneg-H", "T-Hneg", "Tneg-Hneg")
NEW = "new"  # the condition of the pairs with negation
NO_CONSENSUS = "-"  # SNLI's gold label where the annotators did not agree; such pairs are not used, as everywhere

_TEXT, _HYPOTHESIS, _LABEL = ("sentence1", "Text"), ("sentence2", "Hypothesis"), ("gold_label", "label")
_OWN_COLUMNS = {"captionID": "SNLI", "promptID": "MNLI"}  # columns that GLUE's files of one source alone have


@dataclass(frozen=True)
class Pair:
    """A text, a hypothesis and how they were judged.

    Attributes:
        item: Its number in its file.
        kind: Which side was negated (one of `KINDS`), or "" in an original set.
        text: The text.
        hypothesis: The hypothesis.
        gold: The label.
        location: File and line.
        id: The same in every file with this pair: a digest of kind, text, hypothesis and label. The second pair of a
            file with the same digest has `-2` after it.
    """

    item: int
    kind: str
    text: str
    hypothesis: str
    gold: Label
    location: str
    id: str = ""


@dataclass(frozen=True)
class PairSet:
    """The pairs of one file.

    Attributes:
        source: RTE, SNLI or MNLI.
        condition: `new` or `original`.
        pairs: The pairs, in the order of the file.
        sha256: Digest of the file.
        skipped: Number of rows without a gold label.
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


def read_sets(benchmark: Path, originals: Mapping[str, Path], sources: Sequence[str]) -> tuple[PairSet, ...]:
    """Read the pairs of some sources, original sets before those with negation.

    Args:
        benchmark: The folder with RTE.txt, SNLI.txt and MNLI.txt.
        originals: Source → its original dev set.
        sources: Which of the benchmark's files to read.

    Raises:
        InputError: A file is missing or bad.
    """
    return (
        *(read_original(originals[source], source) for source in SOURCES if source in originals),
        *(read_benchmark(benchmark / f"{source}.txt", source) for source in SOURCES if source in sources),
    )


def read_benchmark(path: Path, source: str) -> PairSet:
    """Read one file of the benchmark with negation.

    Args:
        path: Such as RTE.txt.
        source: RTE, SNLI or MNLI.

    Raises:
        InputError: The file cannot be read or decoded, has no rows, lacks a column; a row has too few fields, an empty
            sentence, an unknown label, an index that is not a number or that an earlier row has.
    """
    content = _content(path)
    rows = list(stream_rows(decoded(_from_cp1252(content, path), str(path)), str(path)))
    index = _column(path, rows[0], "index")
    locations: dict[int, str] = {}
    pairs = []
    for row in rows:
        number = row.fields[index]
        if not re.fullmatch("[0-9]{1,9}", number):
            raise InputError(f"{row.location}: index {number!r} is not a whole number; it says of which type a pair is")
        item = int(number)
        if (earlier := locations.setdefault(item, row.location)) != row.location:
            raise InputError(
                f"{row.location}: {earlier} has the index {item}, too; give each pair its own, which says its type"
            )
        pairs.append(_pair(path, row, source, item, KINDS[item % len(KINDS)]))
    return PairSet(source, NEW, _with_ids(pairs), hashlib.sha256(content).hexdigest())


def read_original(path: Path, source: str) -> PairSet:
    """Read an original dev set: columns sentence1, sentence2, and gold_label or label (GLUE's RTE, MNLI and SNLI).

    Args:
        path: The file.
        source: RTE, SNLI or MNLI.

    Raises:
        InputError: As for `read_benchmark`, or no row has a gold label.
    """
    found = list(stream_original(path, source))
    pairs = [pair for pair in found if pair is not None]
    if not pairs:
        raise InputError(f"{path}:2: no row has a gold label; give the dev split")
    return PairSet(source, ORIGINAL, _with_ids(pairs), file_sha256(path), skipped=len(found) - len(pairs))


def stream_original(path: Path, source: str) -> Iterator[Pair | None]:
    """The pairs of an original set one by one, without their ids; None for a row without a gold label.

    Args:
        path: The file, such as train.tsv or dev.tsv of GLUE.
        source: RTE, SNLI or MNLI.

    Raises:
        InputError: As for `read_benchmark`, or the header has a column that only another source has.
    """
    label = ""
    for item, row in enumerate(stream_rows(stream_lines(path, "give a file of pairs", MOST_TABLE), str(path))):
        if not label:
            label = _column(path, row, *_LABEL)
            _refuse_other_source(path, row, source)
        yield None if row.fields[label] == NO_CONSENSUS else _pair(path, row, source, item, "")


def _refuse_other_source(path: Path, row: Row, source: str) -> None:
    column, other = next(((name, of) for name, of in _OWN_COLUMNS.items() if name in row.fields), ("", source))
    if other != source:
        raise InputError(f"{path}:1: the column {column} is that of {other}; give a file of {source}")


def _pair(path: Path, row: Row, source: str, item: int, kind: str) -> Pair:
    text, hypothesis, label = (row.fields[_column(path, row, *names)] for names in (_TEXT, _HYPOTHESIS, _LABEL))
    gold = parse_label(label)
    if gold is None or gold not in SOURCES[source]:
        raise InputError(f"{row.location}: unknown label {label!r}; {source} has {', '.join(SOURCES[source])}")
    if not text.strip() or not hypothesis.strip():
        raise InputError(f"{row.location}: the {'hypothesis' if text.strip() else 'text'} is empty")
    for side in (text, hypothesis):
        checked_length(side, row.location)
    return Pair(item, kind, text, hypothesis, gold, row.location)


def _with_ids(pairs: Iterable[Pair]) -> tuple[Pair, ...]:
    """The pairs with their ids."""
    seen: Counter[str] = Counter()
    found = []
    for pair in pairs:
        content = f"{pair.kind}\t{pair.text}\t{pair.hypothesis}\t{pair.gold}"
        digest = hashlib.sha256(content.encode()).hexdigest()[:16]
        seen[digest] += 1
        found.append(replace(pair, id=digest if seen[digest] == 1 else f"{digest}-{seen[digest]}"))
    return tuple(found)


def _column(path: Path, row: Row, *names: str) -> str:
    """The first of these columns that the table has."""
    header = row.fields
    if found := next((name for name in names if name in header), None):
        return found
    raise InputError(f"{path}:1: no column {' or '.join(names)}; the header has {', '.join(header)}")


def _content(path: Path) -> bytes:
    return read_regular(path, MOST_TABLE, "give a file of pairs")


def _from_cp1252(content: bytes, path: Path) -> bytes:
    """A file in cp1252 or UTF-8 as UTF-8. Text in cp1252 beyond ASCII is practically never valid UTF-8."""
    for encoding in ("utf-8", "cp1252"):
        try:
            return content.decode(encoding).encode()
        except UnicodeDecodeError as error:
            line = content[: error.start].count(b"\n") + 1
            message = f"{path}:{line}: byte 0x{content[error.start]:02x} is not UTF-8 or cp1252"
    raise InputError(message)
