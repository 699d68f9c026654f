"""The diagnostics of Ettinger (2020) as completions to compare, from the files of aetting/lm-diagnostics.

    CPRAG-102     34 contexts of two sentences, an expected word and two related words that do not fit
    ROLE-88       44 pairs of contexts with the roles of two nouns swapped, a target that fits one of them (`N-a`)
    NEG-136-SIMP  18 subjects, affirmative and negative, a category and a wrong one
    NEG-136-NAT   16 sentences, affirmative and negative, with a word that makes each true; half of them read naturally

A sentence is its context, the word, and a full stop. `(a|an)` in a context is the article of the word that is scored:
`an` before a, e, i, o, u. Perturbed contexts, whose accuracy alone is asked for, as upstream has them:

    shuffled             first sentence without its full stops, its words in another order (one item for each draw)
    truncated            of the second sentence the last two words before the target
    shuffled-truncated   both, with the same orders
    -Obj                 `which OBJECT the SUBJECT had` becomes `which one the SUBJECT had`
    -Sub                 it becomes `which OBJECT the other had`
    -ObjSub              both
"""

import dataclasses
import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ...errors import InputError
from ...inference.cloze import MASK
from ...sentences.keys import string_keys
from ...sentences.textfiles import Row, read_table
from ..summary import ALL, ORIGINAL

CPRAG, ROLE, SIMP, NAT = DATASETS = ("CPRAG-102", "ROLE-88", "NEG-136-SIMP", "NEG-136-NAT")
SHUFFLED, TRUNCATED, BOTH = CPRAG_PERTURBED = ("shuffled", "truncated", "shuffled-truncated")
ROLE_PERTURBED = ("-Obj", "-Sub", "-ObjSub")
CONSTRAINTS = ("H", "L")
BINS = ("cloze-1", "cloze-2", "cloze-3", "cloze-4")
POLARITIES = ("affirmative", "negative")
LICENSING = {"Y": "licensed", "N": "unlicensed"}
ARTICLE = "(a|an)"
_WORDS_KEPT = 2


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
    place: str = field(compare=False)


@dataclass(frozen=True)
class Reversal:
    """A row of ROLE-88; `order` is `a` where the target fits, else `b`, and `expected` has first words only."""

    pair: str
    order: str
    context: str
    expected: tuple[str, ...]
    cloze: float
    target: str
    place: str = field(compare=False)

    @property
    def item(self) -> str:
        """As the file has it."""
        return f"{self.pair}-{self.order}"


@dataclass(frozen=True)
class Negation:
    """A row of NEG-136: for each of `POLARITIES` a context and the word that makes it true; licensing is Y, N or ""."""

    item: str
    contexts: tuple[str, str]
    targets: tuple[str, str]
    licensing: str
    place: str = field(compare=False)


@dataclass(frozen=True)
class Diagnostics:
    """The rows of the files read; nothing of a file that was not."""

    pragmatic: tuple[Pragmatic, ...] = ()
    reversals: tuple[Reversal, ...] = ()
    simple: tuple[Negation, ...] = ()
    natural: tuple[Negation, ...] = ()

    @property
    def sha256(self) -> str:
        """Hexadecimal digest of the rows, wherever they stand in what file."""
        tables = dataclasses.asdict(self)
        rows = {name: [{**row, "place": None} for row in table] for name, table in tables.items()}
        return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


@dataclass(frozen=True)
class Completion:
    """A text with one [MASK], and a word in its place."""

    text: str
    word: str

    @property
    def sentence(self) -> str:
        """The text with the word."""
        return self.text.replace(MASK, self.word)


@dataclass(frozen=True)
class Item:
    """Something to be right or wrong about.

    Attributes:
        dataset: one of `DATASETS`.
        condition: `original`, or how the context is perturbed.
        item: what tells it from the others of its data set and condition.
        cluster: the row or pair of rows that it comes from.
        splits: those that it counts in.
        expected: for accuracy, completions of one text, any of which is right; none where accuracy is not asked for.
        comparisons: for sensitivity, (good, bad) completions, all of which must come out right; none where it is not.
        draw: the number of the shuffle, from 1.
        place: file and line.
    """

    dataset: str
    condition: str
    item: str
    cluster: str
    splits: tuple[str, ...]
    expected: tuple[Completion, ...]
    comparisons: tuple[tuple[Completion, Completion], ...]
    place: str
    draw: int | None = None

    @property
    def completions(self) -> tuple[Completion, ...]:
        """All that are looked at, each once."""
        return tuple(dict.fromkeys([*self.expected, *(one for pair in self.comparisons for one in pair)]))


# ---------------------------------------------------------------- files


def read_diagnostics(path: Path, datasets: Sequence[str] = ()) -> Diagnostics:
    """Read the tables of a folder, or one of them.

    Args:
        path: a folder with NAME.tsv in it or below it, for each data set; or such a file.
        datasets: which ones to read; by default all four, or the one of the file.

    Raises:
        InputError: an unknown name, a missing file, or a bad line.
    """
    for name in datasets:
        if name not in DATASETS:
            raise InputError(f"unknown data set {name!r}; known are {', '.join(DATASETS)}")
    if path.is_file():
        wanted: Sequence[str] = datasets or (path.stem,)
        if tuple(wanted) != (path.stem,) or path.stem not in DATASETS:
            raise InputError(f"{path}: is no {' or '.join(datasets or DATASETS)}; a file is known by its name")
        files = {path.stem: path}
    else:
        files = {name: _find(path, name) for name in datasets or DATASETS}
    return Diagnostics(
        pragmatic=read_cprag(files[CPRAG]) if CPRAG in files else (),
        reversals=read_role(files[ROLE]) if ROLE in files else (),
        simple=read_neg(files[SIMP], with_licensing=False) if SIMP in files else (),
        natural=read_neg(files[NAT], with_licensing=True) if NAT in files else (),
    )


def _find(folder: Path, name: str) -> Path:
    found = sorted(folder.rglob(f"{name}.tsv"))
    if not found:
        raise InputError(f"{folder}: no {name}.tsv in there; give the folder of lm-diagnostics, or leave {name} out")
    return found[0]


def read_cprag(path: Path) -> tuple[Pragmatic, ...]:
    """Read CPRAG-102.tsv.

    Raises:
        InputError: the table is bad, an item comes twice, a context has a mask, or a constraint is neither H nor L.
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
            row.place,
        )
        for row in rows
    )


def read_role(path: Path) -> tuple[Reversal, ...]:
    """Read ROLE-88.tsv.

    Raises:
        InputError: the table is bad, an item comes twice or has no counterpart with the same target, a context has a
            mask or no `which … the … had`, or a cloze value is no fraction.
    """
    rows = tuple(
        _reversal(row) for row in _unique(read_table(path, ("item", "context", "expected", "exp_cloze", "target")))
    )
    targets = {row.item: row.target for row in rows}
    for row in rows:
        other = f"{row.pair}-{'b' if row.order == 'a' else 'a'}"
        if other not in targets:
            raise InputError(f"{row.place}: item {row.item} has no counterpart {other}")
        if targets[other] != row.target:
            raise InputError(
                f"{row.place}: target {row.target!r}, but {targets[other]!r} in {other}; a pair shares one"
            )
    return rows


def _reversal(row: Row) -> Reversal:
    match = re.fullmatch(r"(.+)-([ab])", row.text("item"))
    if not match:
        raise InputError(f"{row.place}: item is {row.text('item')!r}; a number and -a or -b is needed")
    cloze = row.number("exp_cloze")
    if not 0 <= cloze <= 1:
        raise InputError(f"{row.place}: exp_cloze is {cloze:g}; a fraction from 0 to 1 is needed")
    alternatives = [words.split() for words in row.text("expected").split("|")]
    if not all(alternatives):
        raise InputError(f"{row.place}: expected is {row.text('expected')!r}; there is no word beside a |")
    context = _context(row, "context")
    if not re.search("which .* the .* had$", context):
        raise InputError(f"{row.place}: context is {context!r}; one that ends in `which … the … had` is needed")
    expected = tuple(dict.fromkeys(words[0] for words in alternatives))
    return Reversal(match[1], match[2], context, expected, cloze, row.text("target"), row.place)


def read_neg(path: Path, *, with_licensing: bool) -> tuple[Negation, ...]:
    """Read NEG-136-SIMP.tsv, or NEG-136-NAT.tsv, which has a column licensing.

    Raises:
        InputError: the table is bad, an item comes twice, a context has a mask, or licensing is neither Y nor N.
    """
    columns = ["item", "context_aff", "context_neg", "target_aff", "target_neg", *(["licensing"] * with_licensing)]
    return tuple(
        Negation(
            row.text("item"),
            (_context(row, "context_aff"), _context(row, "context_neg")),
            (row.text("target_aff"), row.text("target_neg")),
            _one_of(row, "licensing", tuple(LICENSING)) if with_licensing else "",
            row.place,
        )
        for row in _unique(read_table(path, columns))
    )


def _unique(rows: Sequence[Row]) -> Sequence[Row]:
    first: dict[str, Row] = {}
    for row in rows:
        known = first.setdefault(row.text("item"), row)
        if known is not row:
            raise InputError(f"{row.place}: item {row.text('item')} stands already in {known.place}; give it once")
    return rows


def _context(row: Row, name: str) -> str:
    text = row.text(name)
    if MASK in text:
        raise InputError(f"{row.place}: {name} has a {MASK}, but it ends before the word to predict: take it out")
    return text


def _one_of(row: Row, name: str, known: Sequence[str]) -> str:
    value = row.text(name)
    if value not in known:
        raise InputError(f"{row.place}: {name} is {value!r}; it is {' or '.join(known)}")
    return value


# ---------------------------------------------------------------- items


def build_items(diagnostics: Diagnostics, *, draws: int, seed: int) -> tuple[Item, ...]:
    """All items of all conditions.

    Args:
        diagnostics: the rows.
        draws: how many times the words of a sentence are shuffled.
        seed: of the shuffles.
    """
    return (
        *(item for row in diagnostics.pragmatic for item in _pragmatic_items(row, draws, seed)),
        *_reversal_items(diagnostics.reversals),
        *(item for row in diagnostics.simple for item in _negation_items(SIMP, row)),
        *(item for row in diagnostics.natural for item in _negation_items(NAT, row)),
    )


def complete(context: str, word: str) -> Completion:
    """A context with the word to predict and a full stop; `(a|an)` in it becomes the word's article."""
    article = "an" if word[0].lower() in "aeiou" else "a"
    return Completion(f"{context.replace(ARTICLE, article)} {MASK}.", word)


def shuffle(sentence: str, draw: int, seed: int) -> str:
    """A sentence without full stops, its words in the order of their keyed hashes, and a full stop after them."""
    words = sentence.replace(".", "").split()
    keys = string_keys([f"{sentence}\t{i}" for i in range(len(words))], f"diagnostics, shuffle {draw}, seed {seed}")
    return " ".join(words[i] for i in np.argsort(keys, kind="stable")) + "."


def truncate(sentence: str) -> str:
    """The last two words of a sentence."""
    return " ".join(sentence.split()[-_WORDS_KEPT:])


def without_object(context: str) -> str:
    """The fronted object becomes `one`."""
    return re.sub("which .* the", "which one the", context)


def without_subject(context: str) -> str:
    """The subject becomes `other`."""
    return re.sub("which (.*) the .* had", r"which \1 the other had", context)


def cloze_bins(cloze: Sequence[float]) -> list[str]:
    """The bin of each value, cut at the quartiles; a value equal to a cut is below it."""
    cuts = np.percentile(cloze, [25, 50, 75]) if len(cloze) else np.empty(0)
    return [BINS[i] for i in np.searchsorted(cuts, cloze, side="left")]


def _pragmatic_items(row: Pragmatic, draws: int, seed: int) -> Iterator[Item]:
    def ask(condition: str, first: str, second: str, draw: int | None = None) -> Item:
        numbered = f"draw-{draw}" if draw else ""
        splits = (ALL, row.constraint, *([numbered] if draw else []))
        expected = (complete(f"{first} {second}", row.expected),)
        item = f"{row.item} {numbered}".strip()
        return Item(CPRAG, condition, item, row.item, splits, expected, (), row.place, draw)

    original = ask(ORIGINAL, row.first, row.second)
    [good] = original.expected
    bad = [dataclasses.replace(good, word=word) for word in (row.within_category, row.between_category)]
    yield dataclasses.replace(original, comparisons=tuple((good, other) for other in bad))
    yield ask(TRUNCATED, row.first, truncate(row.second))
    for draw in range(1, draws + 1):
        shuffled = shuffle(row.first, draw, seed)
        yield ask(SHUFFLED, shuffled, row.second, draw)
        yield ask(BOTH, shuffled, truncate(row.second), draw)


def _reversal_items(rows: Sequence[Reversal]) -> Iterator[Item]:
    pairs: dict[str, dict[str, Completion]] = defaultdict(dict)
    places = {row.pair: row.place for row in rows}
    for row, own_bin in zip(rows, cloze_bins([row.cloze for row in rows]), strict=True):
        contexts = (
            row.context,
            without_object(row.context),
            without_subject(row.context),
            without_subject(without_object(row.context)),
        )
        for condition, context in zip((ORIGINAL, *ROLE_PERTURBED), contexts, strict=True):
            expected = tuple(complete(context, word) for word in row.expected)
            yield Item(ROLE, condition, row.item, row.pair, (ALL, own_bin), expected, (), row.place)
        pairs[row.pair][row.order] = complete(row.context, row.target)
    for pair, targets in pairs.items():
        yield Item(ROLE, ORIGINAL, pair, pair, (ALL,), (), ((targets["a"], targets["b"]),), places[pair])


def _negation_items(dataset: str, row: Negation) -> Iterator[Item]:
    for polarity, context, true, false in zip(POLARITIES, row.contexts, row.targets, row.targets[::-1], strict=True):
        splits = [ALL, polarity]
        if row.licensing:
            licensing = LICENSING[row.licensing]
            splits += [licensing, f"{polarity}-{licensing}"]
        good, bad = complete(context, true), complete(context, false)
        # Nearly any word completes a negative context, so that none is expected there.
        expected = (good,) if polarity == POLARITIES[0] else ()
        yield Item(
            dataset,
            ORIGINAL,
            f"{row.item} {polarity}",
            row.item,
            tuple(splits),
            expected,
            ((good, bad),),
            row.place,
        )
