"""The files of aetting/lm-diagnostics: one table for each data set of Ettinger (2020).

CPRAG-102     34 contexts of two sentences, an expected word and two related words that do not fit
ROLE-88       44 pairs of contexts with the roles of two nouns swapped, a target that fits one of them (`N-a`)
NEG-136-SIMP  18 subjects, affirmative and negative, a category and a wrong one
NEG-136-NAT   16 sentences, affirmative and negative, with a word that makes each true; half of them read naturally
"""

import dataclasses
import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from ...basics.errors import InputError
from ...basics.reading import files_below, is_file
from ...inference.free_text import MASK
from ...text.text_lines import Row, read_table

CONSTRAINTS = ("H", "L")
LICENSING = {"Y": "licensed", "N": "unlicensed"}
_NEGATION = "item context_aff context_neg target_aff target_neg"


class Dataset(StrEnum):
    """The data sets, in the order of the tables."""

    CPRAG = "CPRAG-102"
    ROLE = "ROLE-88"
    SIMP = "NEG-136-SIMP"
    NAT = "NEG-136-NAT"


CPRAG, ROLE, SIMP, NAT = DATASETS = tuple(dataset.value for dataset in Dataset)


@dataclass(frozen=True)
class Pragmatic:
    """A row of CPRAG-102."""

    item: str
    first: str
    second: str
    expected: str
    within_category: str
    between_category: str
    constraint: str
    location: str = field(compare=False)


@dataclass(frozen=True)
class Reversal:
    """A row of ROLE-88; `order` is `a` if the target fits, else `b`; `expected` has the first word of each answer."""

    pair: str
    order: str
    context: str
    expected: tuple[str, ...]
    cloze: float
    target: str
    location: str = field(compare=False)

    @property
    def item(self) -> str:
        return f"{self.pair}-{self.order}"


@dataclass(frozen=True)
class Negation:
    """A row of NEG-136: affirmative and negative, a context and the word that makes it true; licensing: Y, N or ""."""

    item: str
    contexts: tuple[str, str]
    targets: tuple[str, str]
    licensing: str
    location: str = field(compare=False)


@dataclass(frozen=True)
class Rows:
    """The rows of the files that were read; empty for the others."""

    pragmatic: tuple[Pragmatic, ...] = ()
    reversals: tuple[Reversal, ...] = ()
    simple: tuple[Negation, ...] = ()
    natural: tuple[Negation, ...] = ()

    @property
    def sha256(self) -> str:
        tables = dataclasses.asdict(self)
        rows = {name: [{**row, "location": None} for row in table] for name, table in tables.items()}
        return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def read_diagnostics(path: Path, datasets: Sequence[str] = ()) -> Rows:
    """The tables of a folder, with NAME.tsv in it or below it, or one such file; by default all that are there."""
    if is_file(path):
        if tuple(datasets or (path.stem,)) != (path.stem,) or path.stem not in DATASETS:
            raise InputError(f"{path}: the file must be named {' or '.join(f'{n}.tsv' for n in datasets or DATASETS)}")
        files = {path.stem: path}
    else:
        files = {}
        for name in datasets or DATASETS:
            if not (below := files_below(path, f"{name}.tsv")):
                hint = "give the folder of lm-diagnostics, or other --dataset"
                raise InputError(f"{path}: there is no {name}.tsv in it; {hint}")
            files[name] = below[0]
    found = Rows(**{_TABLES[name][0]: _read(file, *_TABLES[name][1:]) for name, file in files.items()})
    _check_pairs(found.reversals)
    return found


def _read(path: Path, columns: str, read: Callable[[Row], Any]) -> tuple[Any, ...]:
    rows = read_table(path, columns.split())
    first: dict[str, Row] = {}
    for row in rows:
        known = first.setdefault(row.text("item"), row)
        if known is not row:
            raise InputError(f"{row.location}: item {row.text('item')} is also in {known.location}; give it once")
    return tuple(map(read, rows))


def _pragmatic(row: Row) -> Pragmatic:
    first, second = _context(row, "context_s1"), _context(row, "context_s2")
    expected, within, between = map(row.text, ("expected", "within_category", "between_category"))
    constraint = _one_of(row, "constraint", CONSTRAINTS)
    return Pragmatic(row.text("item"), first, second, expected, within, between, constraint, row.location)


def _reversal(row: Row) -> Reversal:
    match = re.fullmatch(r"(.+)-([ab])", row.text("item"))
    if not match:
        raise InputError(f"{row.location}: item is {row.text('item')!r}; it must be a number and -a or -b")
    cloze = row.number("exp_cloze")
    if not 0 <= cloze <= 1:
        raise InputError(f"{row.location}: exp_cloze is {cloze:g}; it must be from 0 to 1")
    alternatives = [words.split() for words in row.text("expected").split("|")]
    if not all(alternatives):
        raise InputError(
            f"{row.location}: expected is {row.text('expected')!r}; there must be words on both sides of |"
        )
    context = _context(row, "context")
    which = context.find("which ")  # a regular expression would take cubic time
    if not context.endswith(" had") or which < 0 or context.find(" the ", which + 6, len(context) - 4) < 0:
        raise InputError(f"{row.location}: context is {context!r}; it must end in `which … the … had`")
    expected = tuple(dict.fromkeys(words[0] for words in alternatives))
    return Reversal(match[1], match[2], context, expected, cloze, row.text("target"), row.location)


def _check_pairs(rows: Sequence[Reversal]) -> None:
    targets = {row.item: row.target for row in rows}
    for row in rows:
        other = f"{row.pair}-{'b' if row.order == 'a' else 'a'}"
        if other not in targets:
            raise InputError(f"{row.location}: item {row.item} has no counterpart {other}")
        if targets[other] != row.target:
            raise InputError(
                f"{row.location}: target is {row.target!r}, but that of {other} is {targets[other]!r}; "
                "a pair must have the same target"
            )


def _negation(row: Row) -> Negation:
    contexts = _context(row, "context_aff"), _context(row, "context_neg")
    return Negation(row.text("item"), contexts, (row.text("target_aff"), row.text("target_neg")), "", row.location)


def _natural(row: Row) -> Negation:
    return dataclasses.replace(_negation(row), licensing=_one_of(row, "licensing", tuple(LICENSING)))


def _context(row: Row, name: str) -> str:
    text = row.text(name)
    if MASK in text:
        raise InputError(
            f"{row.location}: {name} has a {MASK}; it must end before the word to predict: remove the mask"
        )
    return text


def _one_of(row: Row, name: str, known: Sequence[str]) -> str:
    value = row.text(name)
    if value not in known:
        raise InputError(f"{row.location}: {name} is {value!r}; it must be {' or '.join(known)}")
    return value


# The field of `Rows`, the columns of the file, and what reads a line.
_TABLES: dict[str, tuple[str, str, Callable[[Row], Any]]] = {
    CPRAG: (
        "pragmatic", "item context_s1 context_s2 expected within_category between_category constraint", _pragmatic
    ),
    ROLE: ("reversals", "item context expected exp_cloze target", _reversal),
    SIMP: ("simple", _NEGATION, _negation),
    NAT: ("natural", f"{_NEGATION} licensing", _natural),
}  # fmt: skip
