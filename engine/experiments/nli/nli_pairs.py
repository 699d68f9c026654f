"""Pairs of texts and their labels: the benchmark with negation, and original dev sets in the layouts of GLUE.

Where classifier or data set has two labels only, gold label and prediction are both scored two-way, after the three-way
decision (as for HANS, McCoy et al. 2019, section 4). The benchmark's files (Hossain et al. 2020) are tables in cp1252,
or saved as UTF-8. `index // 3` is the original pair, `index % 3` the type of a pair: 0 T negated, 1 H negated, 2 both.

What a file says twice is compared: the type of a pair and the sentences that the pairs of a triple share, a column of
languages, quotation marks that a spreadsheet doubled.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from ...basics.errors import InputError
from ...basics.reading import file_sha256
from ...requests.items import ORIGINAL
from ...text.records import Row, records
from ...text.table_text import Form
from ...text.text_lines import checked_length

KINDS = ("Tneg-H", "T-Hneg", "Tneg-Hneg")
NEW = "new"  # the condition of the pairs with negation
NO_CONSENSUS = "-"  # SNLI's gold label where the annotators did not agree; such pairs are not used, as everywhere
_TYPE = "type"  # a column of the benchmark's files that need not be there
_ANNOTATORS = ["label1", "gold_label"]  # how GLUE's header of SNLI ends, though its rows have up to five such labels
_LANGUAGES = ("language", "lang")
# A text as a spreadsheet or pandas writes it: in quotation marks, with those inside doubled.
_QUOTED, _DOUBLED = re.compile('"(?:[^"]|"")+"'), '""'
_TEXT, _HYPOTHESIS = ("sentence1", "Text", "premise"), ("sentence2", "Hypothesis", "hypothesis")
_LABEL = ("gold_label", "label")
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
_UNKNOWN = "unknown"  # what classifiers of RTE-3 call neutral; no data set here has it
# Compared without case, spaces, hyphens and underscores.
_SPELLINGS = {
    Label.ENTAILMENT: ("entailment", "entail", "entails", "entailed", "e"),
    Label.CONTRADICTION: ("contradiction", "contradict", "contradicts", "contradicted", "contradictory", "c"),
    Label.NEUTRAL: ("neutral", "neutrality", _UNKNOWN, "n"),
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
        if (found := scheme_of(words)) is None:
            raise InputError(f"--labels {given}: give {_EXPECTED}, each once, in the order of the model's labels")
        return found
    if (found := scheme_of(names)) is None:
        raise InputError(
            f"{model}: its labels are {', '.join(map(repr, names))}, but {_EXPECTED} are needed; if they are other "
            "names for these, give --labels with the right names in the same order"
        )
    return found


def scheme_of(names: Sequence[str]) -> tuple[Label, ...] | None:
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


class Unused(StrEnum):
    """Why a row of an original set does not count."""

    NO_LABEL = "without a gold label"
    EMPTY = "with an empty sentence"


def unused_sentence(counts: Mapping[str, int]) -> str:
    """How many pairs do not count, by reason; empty if all count."""
    return " and ".join(f"{n:,} pairs {why}" for why, n in counts.items()) + " do not count" if counts else ""


@dataclass(frozen=True)
class PairSet:
    """The pairs of one file."""

    source: str
    condition: str  # `new` or `original`
    pairs: tuple[Pair, ...]
    sha256: str
    unused: Mapping[str, int] = field(default_factory=dict)  # why rows do not count → how many

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
    """Read one file of the benchmark with negation, such as RTE.txt; an `InputError` names the line that is bad.

    The type of a pair follows from its index. A file of some pairs of a triple needs a column `type` that confirms it.
    """
    # Text in cp1252 beyond ASCII is practically never valid UTF-8.
    rows = list(records(path, form=Form(plain=True, encoding="cp1252")))
    index = _column(path, rows[0], "index")
    locations: dict[int, str] = {}
    pairs = []
    for row in rows:
        number = row[index]
        if not re.fullmatch("[0-9]{1,9}", number):
            raise InputError(f"{row.location}: index {number!r} is not a whole number; it says of which type a pair is")
        item = int(number)
        if (earlier := locations.setdefault(item, row.location)) != row.location:
            raise InputError(
                f"{row.location}: {earlier} has the index {item}, too; give each pair its own, which says its type"
            )
        kind = KINDS[item % len(KINDS)]
        if row.get(_TYPE, kind) != kind:
            said = f"the type is {row[_TYPE]!r}, but the index {item} is that of {kind}"
            raise InputError(f"{row.location}: {said}; {_INDEX_OF_AUTHORS}")
        pairs.append(_pair(path, row, source, item, kind))
    _check_triples(pairs, whole=_TYPE not in rows[0])
    return PairSet(source, NEW, _with_ids(_unquoted(pairs)), file_sha256(path))


_INDEX_OF_AUTHORS = f"give the index of the authors' file, where index % {len(KINDS)} says the type of a pair"


def _check_triples(pairs: Sequence[Pair], *, whole: bool) -> None:
    """Refuse indices that contradict the sentences: two pairs of a triple negate T alike, and two negate H alike."""
    triples: dict[int, dict[int, Pair]] = {}
    for pair in pairs:
        triples.setdefault(pair.item // len(KINDS), {})[pair.item % len(KINDS)] = pair
    for triple, own in triples.items():
        first = next(iter(own.values()))
        if whole and (lacking := sorted({*range(len(KINDS))} - own.keys())):
            said = f"index {first.item} is here, but not {len(KINDS) * triple + lacking[0]} of the same original pair"
            remedy = f"{_INDEX_OF_AUTHORS}, or add a column {_TYPE} ({', '.join(KINDS)})"
            raise InputError(f"{first.location}: {said}; {remedy}")
        for one, side in ((0, "text"), (1, "hypothesis")):
            if {one, 2} <= own.keys() and getattr(own[one], side).split() != getattr(own[2], side).split():
                places = f"{own[2].location}: the {side} is not that of {own[one].location}"
                raise InputError(f"{places}, though the indices say so; {_INDEX_OF_AUTHORS}")


def read_original(path: Path, source: str) -> PairSet:
    """Read an original set: sentence1 and sentence2, or premise and hypothesis, and gold_label or label."""
    pairs: list[Pair] = []
    unused: Counter[str] = Counter()
    for found in _unquoted(_pairs_of(path, source)):
        if isinstance(found, Pair):
            pairs.append(found)
        else:
            unused[str(found)] += 1
    if not pairs:
        raise InputError(f"{path}:2: no row has a gold label; give a split with labels")
    return PairSet(source, ORIGINAL, _with_ids(pairs), file_sha256(path), unused)


def _pairs_of(path: Path, source: str) -> Iterator[Pair | Unused]:
    label = language = ""
    for item, row in enumerate(_rows_of(path)):
        if not label:
            language = next((name for name in _LANGUAGES if name in row), "")
            first = row.get(language)
            label = _column(path, row, *_LABEL)
            column, other = next(((name, of) for name, of in _OWN_COLUMNS.items() if name in row), ("", source))
            if other != source:
                raise InputError(f"{path}:1: the column {column} is that of {other}; give a file of {source}")
        if row.get(language) != first:
            said = f"the {language} is {row[language]!r}, and {first!r} above"
            raise InputError(f"{row.location}: {said}; give a file of one language")
        if row.get(label) == NO_CONSENSUS:
            yield Unused.NO_LABEL
        elif not all(row[_column(path, row, *names)].strip() for names in (_TEXT, _HYPOTHESIS)):
            yield Unused.EMPTY
        else:
            yield _pair(path, row, source, item, "")


def _rows_of(path: Path) -> Iterator[Row]:
    """The rows of a table with tabs, or of JSON lines, as the authors of SNLI and MNLI publish them."""
    for row in records(path, form=Form(plain=True, tidy=_with_one_label)):
        texts = {name: cell or "" for name, cell in row.items() if isinstance(cell, str | None)}
        yield Row(texts, row.location)


def _with_one_label(header: Sequence[str], fields: list[str]) -> list[str]:
    """GLUE's train file of SNLI has rows with five labels of annotators under a header with one: the last is gold."""
    more = fields[len(header) - 1 : -1]
    if header[-2:] == _ANNOTATORS and more and all(not own.strip() or parse_label(own) for own in more):
        return [*fields[: len(header) - 1], fields[-1]]
    return fields


_Found = TypeVar("_Found", bound=Pair | Unused)


def _unquoted(pairs: Iterable[_Found]) -> Iterator[_Found]:
    """The same pairs; an `InputError` if their quotation marks are those of a spreadsheet, which GLUE does not have."""
    # Where the first text is that only these programs would write, and whether another text is not written so:
    # pandas puts a text with a quotation mark into quotation marks, a spreadsheet also one with a comma.
    doubled = comma = ""
    other_mark = other_comma = False
    for pair in pairs:
        sides, place = ((pair.text, pair.hypothesis), pair.location) if isinstance(pair, Pair) else ((), "")
        for side in sides:
            if _QUOTED.fullmatch(side):
                doubled = doubled or place * (_DOUBLED in side[1:-1])
                comma = comma or place * ("," in side)
            else:
                other_mark, other_comma = other_mark or '"' in side, other_comma or "," in side
        yield pair
    if (first := doubled or comma * (not other_comma)) and not other_mark:
        said = "this text stands in quotation marks, as a spreadsheet or pandas writes it"
        raise InputError(f"{first}: {said}; save the file without quotation marks, as GLUE has it")


def _pair(path: Path, row: Row, source: str, item: int, kind: str) -> Pair:
    text, hypothesis, label = (row[_column(path, row, *names)] for names in (_TEXT, _HYPOTHESIS, _LABEL))
    gold = parse_label(label)
    if gold not in SOURCES[source] or label.strip().casefold() == _UNKNOWN:
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
    if found := next((name for name in names if name in row), None):
        return found
    raise InputError(f"{path}:1: no column {', '.join(names)}; there are {', '.join(row)}")
