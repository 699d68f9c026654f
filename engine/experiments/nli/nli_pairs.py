"""Pairs of texts and their labels: the benchmark with negation, and original dev sets in the layouts of GLUE.

Where classifier or data set has two labels only, gold label and prediction are both scored two-way, after the three-way
decision (as for HANS, McCoy et al. 2019, section 4). The benchmark's files (Hossain et al. 2020) are tables in cp1252,
or saved as UTF-8. `index % 3` is the type of a pair: 0 T negated, 1 H negated, 2 both.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from ...basics.errors import InputError
from ...basics.reading import file_sha256, read_regular
from ...text.text_lines import MOST_TABLE, Row, checked_length, decoded, stream_lines, stream_rows
from ..items import ORIGINAL

KINDS = ("Tneg-H", "T-Hneg", "Tneg-Hneg")
NEW = "new"  # the condition of the pairs with negation
NO_CONSENSUS = "-"  # SNLI's gold label where the annotators did not agree; such pairs are not used, as everywhere
_TEXT, _HYPOTHESIS, _LABEL = ("sentence1", "Text"), ("sentence2", "Hypothesis"), ("gold_label", "label")
_OWN_COLUMNS = {"captionID": "SNLI", "promptID": "MNLI"}  # columns that GLUE's files of one source alone have


class Label(StrEnum):
    """A judgement about a hypothesis, given a text."""

    ENTAILMENT = "entailment"
    CONTRADICTION = "contradiction"
    NEUTRAL = "neutral"
    NOT_ENTAILMENT = "not_entailment"


class Source(StrEnum):
    """The data sets that pairs come from."""

    RTE = "RTE"
    SNLI = "SNLI"
    MNLI = "MNLI"


THREE_WAY = (Label.ENTAILMENT, Label.CONTRADICTION, Label.NEUTRAL)  # in the order of the paper's Table 5
TWO_WAY = (Label.ENTAILMENT, Label.NOT_ENTAILMENT)
SOURCES = {str(Source.RTE): TWO_WAY, str(Source.SNLI): THREE_WAY, str(Source.MNLI): THREE_WAY}

_EXPECTED = f"{', '.join(THREE_WAY)} (or {' and '.join(TWO_WAY)})"
# Compared without case, spaces, hyphens and underscores.
_SPELLINGS = {
    Label.ENTAILMENT: ("entailment", "entail", "entails", "entailed", "e"),
    Label.CONTRADICTION: ("contradiction", "contradict", "contradicts", "contradicted", "contradictory", "c"),
    Label.NEUTRAL: ("neutral", "neutrality", "unknown", "n"),
    Label.NOT_ENTAILMENT: (
        *("notentailment", "notentailed", "nonentailment", "nonentailed", "noentailment"),
        *("doesnotentail", "notentail", "notentails"),
    ),
}
_LABEL_OF = {spelling: label for label, spellings in _SPELLINGS.items() for spelling in spellings}


def parse_label(name: str) -> Label | None:
    """The label that a name stands for, or None if it does not stand for any."""
    return _LABEL_OF.get(re.sub(r"[\s_-]+", "", name).casefold())


def map_head(names: Sequence[str], model: str, given: str | None = None) -> tuple[Label, ...]:
    """Which label each logit of a classifier stands for: by its own names, or by those `given`, separated by commas."""
    if given is not None:
        words = [word.strip() for word in given.split(",")]
        if len(words) != len(names):
            raise InputError(f"--labels {given}: {len(words)} labels, but {model} has {len(names)}")
        if (found := _scheme(words)) is None:
            raise InputError(f"--labels {given}: give {_EXPECTED}, each once, in the order of the model's labels")
        return found
    if (found := _scheme(names)) is None:
        raise InputError(
            f"{model}: its labels are {', '.join(map(repr, names))}, but {_EXPECTED} are needed; if they are other "
            "names for these, give --labels with the right names in the same order"
        )
    return found


def _scheme(names: Sequence[str]) -> tuple[Label, ...] | None:
    """The labels that names stand for, if they are all two-way or all three-way labels, each once."""
    labels = tuple(filter(None, map(parse_label, names)))
    return labels if len(labels) == len(names) and sorted(labels) in (sorted(THREE_WAY), sorted(TWO_WAY)) else None


def common_scheme(head: Sequence[Label], gold: Sequence[Label]) -> tuple[Label, ...]:
    """The labels that a classifier and a data set can both be scored by."""
    return TWO_WAY if len(head) == 2 or len(gold) == 2 else THREE_WAY


def coarsen(label: Label, scheme: Sequence[Label]) -> Label:
    """A label in a scheme: in the two-way scheme, neutral and contradiction are not entailment."""
    return label if label in scheme else Label.NOT_ENTAILMENT


@dataclass(frozen=True)
class Pair:
    """A text, a hypothesis and how they were judged.

    The id is a digest of kind, text, hypothesis and label; the second such pair of a file has `-2` after it.
    """

    item: int  # number in its file
    kind: str  # which side was negated (one of `KINDS`), or "" in an original set
    text: str
    hypothesis: str
    gold: Label
    location: str  # file and line
    id: str = ""


@dataclass(frozen=True)
class PairSet:
    """The pairs of one file."""

    source: str
    condition: str  # `new` or `original`
    pairs: tuple[Pair, ...]
    sha256: str
    skipped: int = 0  # rows without a gold label

    @property
    def labels(self) -> tuple[Label, ...]:
        return SOURCES[self.source]


def read_sets(benchmark: Path, originals: Mapping[str, Path], sources: Sequence[str]) -> tuple[PairSet, ...]:
    """Read original dev sets, then files of the folder `benchmark`; `sources` says which of these."""
    return (
        *(read_original(originals[source], source) for source in SOURCES if source in originals),
        *(read_benchmark(benchmark / f"{source}.txt", source) for source in SOURCES if source in sources),
    )


def read_benchmark(path: Path, source: str) -> PairSet:
    """Read one file of the benchmark with negation, such as RTE.txt; an `InputError` names the line that is bad."""
    content = read_regular(path, MOST_TABLE, "give a file of pairs")
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
    """Read an original dev set: columns sentence1, sentence2, and gold_label or label (GLUE's RTE, MNLI and SNLI)."""
    found = list(stream_original(path, source))
    pairs = [pair for pair in found if pair is not None]
    if not pairs:
        raise InputError(f"{path}:2: no row has a gold label; give the dev split")
    return PairSet(source, ORIGINAL, _with_ids(pairs), file_sha256(path), skipped=len(found) - len(pairs))


def stream_original(path: Path, source: str) -> Iterator[Pair | None]:
    """The pairs of an original set one by one, without their ids; None for a row without a gold label."""
    label = ""
    for item, row in enumerate(stream_rows(stream_lines(path, "give a file of pairs", MOST_TABLE), str(path))):
        if not label:
            label = _column(path, row, *_LABEL)
            column, other = next(((name, of) for name, of in _OWN_COLUMNS.items() if name in row.fields), ("", source))
            if other != source:
                raise InputError(f"{path}:1: the column {column} is that of {other}; give a file of {source}")
        yield None if row.fields[label] == NO_CONSENSUS else _pair(path, row, source, item, "")


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
    seen: Counter[str] = Counter()
    found = []
    for pair in pairs:
        content = f"{pair.kind}\t{pair.text}\t{pair.hypothesis}\t{pair.gold}"
        digest = hashlib.sha256(content.encode()).hexdigest()[:16]
        seen[digest] += 1
        found.append(replace(pair, id=digest if seen[digest] == 1 else f"{digest}-{seen[digest]}"))
    return tuple(found)


def _column(path: Path, row: Row, *names: str) -> str:
    header = row.fields
    if found := next((name for name in names if name in header), None):
        return found
    raise InputError(f"{path}:1: no column {' or '.join(names)}; the header has {', '.join(header)}")


def _from_cp1252(content: bytes, path: Path) -> bytes:
    """A file in cp1252 or UTF-8 as UTF-8. Text in cp1252 beyond ASCII is practically never valid UTF-8."""
    for encoding in ("utf-8", "cp1252"):
        try:
            return content.decode(encoding).encode()
        except UnicodeDecodeError as error:
            line = content[: error.start].count(b"\n") + 1
            message = f"{path}:{line}: byte 0x{content[error.start]:02x} is not UTF-8 or cp1252"
    raise InputError(message)
