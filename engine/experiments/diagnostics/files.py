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
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from ...basics.errors import InputError, choice
from ...basics.reading import files_below, is_file
from ...inference.free_text import MASK
from ...text.text_lines import Row, read_table


class Dataset(StrEnum):
    """The data sets, in the order of the tables."""

    CPRAG = "CPRAG-102"
    ROLE = "ROLE-88"
    SIMP = "NEG-136-SIMP"
    NAT = "NEG-136-NAT"


CPRAG, ROLE, SIMP, NAT = DATASETS = tuple(dataset.value for dataset in Dataset)
CONSTRAINTS = ("H", "L")
LICENSING = {"Y": "licensed", "N": "unlicensed"}


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
        """As in the file."""
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
        """Of the rows; it does not depend on the files' names."""
        tables = dataclasses.asdict(self)
        rows = {name: [{**row, "location": None} for row in table] for name, table in tables.items()}
        return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def read_diagnostics(path: Path, datasets: Sequence[str] = ()) -> Rows:
    """Read the tables of a folder, with NAME.tsv in it or below it, or one such file; by default all that are there.

    Raises:
        InputError: A name is unknown, a file is missing, or a line is bad.
    """
    datasets = [choice(Dataset, "--dataset", name).value for name in datasets]
    if is_file(path):
        wanted: Sequence[str] = datasets or (path.stem,)
        if tuple(wanted) != (path.stem,) or path.stem not in DATASETS:
            raise InputError(f"{path}: the file must be named {' or '.join(f'{n}.tsv' for n in datasets or DATASETS)}")
        files = {path.stem: path}
    else:
        files = {name: _find(path, name) for name in datasets or DATASETS}
    return Rows(
        pragmatic=read_cprag(files[CPRAG]) if CPRAG in files else (),
        reversals=read_role(files[ROLE]) if ROLE in files else (),
        simple=read_neg(files[SIMP], with_licensing=False) if SIMP in files else (),
        natural=read_neg(files[NAT], with_licensing=True) if NAT in files else (),
    )


def _find(folder: Path, name: str) -> Path:
    found = files_below(folder, f"{name}.tsv")
    if not found:
        raise InputError(
            f"{folder}: there is no {name}.tsv in it; give the folder of lm-diagnostics, or other --dataset"
        )
    return found[0]


def read_cprag(path: Path) -> tuple[Pragmatic, ...]:
    """Read CPRAG-102.tsv.

    Raises:
        InputError: The table is bad, an item is there twice, a context has a mask, or a constraint is neither H nor L.
    """
    columns = ("item", "context_s1", "context_s2", "expected", "within_category", "between_category", "constraint")
    rows = _unique(read_table(path, columns))
    return tuple(
        Pragmatic(
            row.text("item"),
            _context(row, "context_s1"),
            _context(row, "context_s2"),
            row.text("expected"),
            row.text("within_category"),
            row.text("between_category"),
            _one_of(row, "constraint", CONSTRAINTS),
            row.location,
        )
        for row in rows
    )


def read_role(path: Path) -> tuple[Reversal, ...]:
    """Read ROLE-88.tsv.

    Raises:
        InputError: The table is bad, an item is there twice or has no counterpart with the same target, a context has
            a mask or no `which … the … had`, or a cloze value is not a fraction.
    """
    rows = tuple(
        _reversal(row) for row in _unique(read_table(path, ("item", "context", "expected", "exp_cloze", "target")))
    )
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
    return rows


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
    if not _asks_for_a_verb(context):
        raise InputError(f"{row.location}: context is {context!r}; it must end in `which … the … had`")
    expected = tuple(dict.fromkeys(words[0] for words in alternatives))
    return Reversal(match[1], match[2], context, expected, cloze, row.text("target"), row.location)


def _asks_for_a_verb(context: str) -> bool:
    """Whether a context ends in `which … the … had`; a regular expression would take cubic time."""
    which = context.find("which ")
    return context.endswith(" had") and which >= 0 and context.find(" the ", which + 6, len(context) - 4) >= 0


def read_neg(path: Path, *, with_licensing: bool) -> tuple[Negation, ...]:
    """Read NEG-136-SIMP.tsv, or NEG-136-NAT.tsv, which has a column licensing.

    Raises:
        InputError: The table is bad, an item is there twice, a context has a mask, or licensing is neither Y nor N.
    """
    columns = ["item", "context_aff", "context_neg", "target_aff", "target_neg", *(["licensing"] * with_licensing)]
    return tuple(
        Negation(
            row.text("item"),
            (_context(row, "context_aff"), _context(row, "context_neg")),
            (row.text("target_aff"), row.text("target_neg")),
            _one_of(row, "licensing", tuple(LICENSING)) if with_licensing else "",
            row.location,
        )
        for row in _unique(read_table(path, columns))
    )


def _unique(rows: Sequence[Row]) -> Sequence[Row]:
    first: dict[str, Row] = {}
    for row in rows:
        known = first.setdefault(row.text("item"), row)
        if known is not row:
            raise InputError(f"{row.location}: item {row.text('item')} is also in {known.location}; give it once")
    return rows


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
