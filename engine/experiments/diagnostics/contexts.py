"""The tables of aetting/lm-diagnostics (Ettinger 2020), and their contexts as completions to compare.

CPRAG-102     34 contexts of two sentences, an expected word and two related words that do not fit
ROLE-88       44 pairs of contexts with the roles of two nouns swapped, a target that fits one of them (`N-a`)
NEG-136-SIMP  18 subjects, affirmative and negative, a category and a wrong one
NEG-136-NAT   16 sentences, affirmative and negative, with a word that makes each true; half of them read naturally

A sentence is its context, the word, and a full stop. Perturbed contexts, as upstream has them, ask for accuracy only:

    shuffled             first sentence without its full stops, its words in another order (one item for each draw)
    truncated            of the second sentence the last two words before the target
    shuffled-truncated   both, with the same orders
    -Obj                 `which OBJECT the SUBJECT had` becomes `which one the SUBJECT had`
    -Sub, -ObjSub        it becomes `which OBJECT the other had`, `which one the other had`
"""

import dataclasses
import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ...basics.errors import InputError
from ...basics.reading import files_below, is_file
from ...inference.free_text import MASK
from ...requests.items import ALL, KEYS, ORIGINAL, OWN
from ...requests.word import Word
from ...text.agreement import Article, article_of
from ...text.keys import string_keys
from ...text.lexicon import load_lexicon
from ...text.text_lines import Row, read_table

CONSTRAINTS = ("H", "L")
LICENSING = {"Y": "licensed", "N": "unlicensed"}
_NEGATION = "item context_aff context_neg target_aff target_neg"

SHUFFLED, TRUNCATED, BOTH = CPRAG_PERTURBED = ("shuffled", "truncated", "shuffled-truncated")
ROLE_PERTURBED = ("-Obj", "-Sub", "-ObjSub")
BINS = ("cloze-1", "cloze-2", "cloze-3", "cloze-4")
POLARITIES = ("affirmative", "negative")
COMPARED = ("good", "bad", "bad2")  # roles
DRAW = "draw"  # the column of groups that are shuffles
ARTICLE = "(a|an)"
_WORDS_KEPT = 2


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
    targets = {row.item: row.target for row in found.reversals}
    for row in found.reversals:
        other = f"{row.pair}-{'b' if row.order == 'a' else 'a'}"
        if other not in targets:
            raise InputError(f"{row.location}: item {row.item} has no counterpart {other}")
        if targets[other] != row.target:
            raise InputError(
                f"{row.location}: target is {row.target!r}, but that of {other} is {targets[other]!r}; "
                "a pair must have the same target"
            )
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


def _negation(row: Row) -> Negation:
    contexts = _context(row, "context_aff"), _context(row, "context_neg")
    licensing = _one_of(row, "licensing", tuple(LICENSING)) if "licensing" in row.fields else ""
    targets = row.text("target_aff"), row.text("target_neg")
    return Negation(row.text("item"), contexts, targets, licensing, row.location)


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
    NAT: ("natural", f"{_NEGATION} licensing", _negation),
}  # fmt: skip


Completion = tuple[str, str]
"""A text with one [MASK], and a word for the mask."""


def requests_of(diagnostics: Rows, *, draws: int, seed: int) -> pl.DataFrame:
    """The requests of all items in all conditions; `draws` is how many times the words of a sentence are shuffled."""
    rows = [
        *(own for row in diagnostics.pragmatic for own in _pragmatic_requests(row, draws, seed)),
        *_reversal_requests(diagnostics.reversals),
        *(own for row in diagnostics.simple for own in _negation_requests(SIMP, row)),
        *(own for row in diagnostics.natural for own in _negation_requests(NAT, row)),
    ]
    further = {"is_expected": pl.Boolean, "draw": pl.Int32, "place": pl.String}
    return pl.DataFrame(rows, {**KEYS, **Word.asks, **further})


def _requests(
    dataset: str,
    condition: str,
    item: str,
    cluster: str,
    splits: tuple[str, ...],
    location: str,
    expected: Sequence[Completion] = (),
    compared: Sequence[Completion] = (),
    draw: int | None = None,
) -> Iterator[dict[str, Any]]:
    """Those of an item: each different completion.

    Any of the `expected` words is right; of those `compared` the first is more probable than the others. `draw` is the
    number of the shuffle, from 1.
    """
    roles = dict(zip(compared, COMPARED, strict=False))
    drawn = (f"draw-{draw}",) if draw else ()
    for own in dict.fromkeys([*expected, *compared]):
        yield {
            "dataset": dataset,
            "condition": condition,
            "item": " ".join((item, *drawn)),
            # Only the contexts of ROLE-88 are themselves the same in two conditions; else it is the row of the file.
            "pair": item if dataset == ROLE else cluster,
            "cluster": cluster,
            "splits": [ALL, *splits, *drawn],
            "columns": [None, *[OWN] * len(splits), *[DRAW] * len(drawn)],
            "role": roles.get(own),
            "text": own[0],
            "word": own[1],
            "is_expected": own in expected,
            "draw": draw,
            "place": location,
        }


@cache
def _articles() -> tuple[Article, ...]:
    return load_lexicon().agreement.articles


def complete(context: str, word: str, location: str = "") -> Completion:
    """A context with the word to predict and a full stop; `(a|an)` in it becomes the word's article.

    The rule is that of the English words. For each word of the published tables it gives the article of upstream's
    code, which looks at the first letter. `InputError` where letters do not tell the article.
    """
    article = ""
    if ARTICLE in context and not (article := article_of(_articles(), "", word, "")):
        raise InputError(
            f"{location}: letters do not tell whether {word!r} has a or an; write the article into the context in "
            f"place of {ARTICLE}, or give another word"
        )
    return f"{context.replace(ARTICLE, article)} {MASK}.", word


def shuffle(sentence: str, draw: int, seed: int) -> str:
    """A sentence without full stops, its words in the order of their keyed hashes, and a full stop after them."""
    words = sentence.replace(".", "").split()
    keys = string_keys([f"{sentence}\t{i}" for i in range(len(words))], f"diagnostics, shuffle {draw}, seed {seed}")
    return " ".join(words[i] for i in np.argsort(keys, kind="stable")) + "."


def _pragmatic_requests(row: Pragmatic, draws: int, seed: int) -> Iterator[dict[str, Any]]:
    def ask(condition: str, first: str, second: str, draw: int | None = None) -> Iterator[dict[str, Any]]:
        text, word = complete(f"{first} {second}", row.expected, row.location)
        words = (word, row.within_category, row.between_category) if condition == ORIGINAL else ()
        compared = [(text, own) for own in words]
        keys = CPRAG, condition, row.item, row.item, (row.constraint,), row.location
        return _requests(*keys, [(text, word)], compared, draw)

    last = " ".join(row.second.split()[-_WORDS_KEPT:])
    yield from ask(ORIGINAL, row.first, row.second)
    yield from ask(TRUNCATED, row.first, last)
    for draw in range(1, draws + 1):
        shuffled = shuffle(row.first, draw, seed)
        yield from ask(SHUFFLED, shuffled, row.second, draw)
        yield from ask(BOTH, shuffled, last, draw)


def _reversal_requests(rows: Sequence[Reversal]) -> Iterator[dict[str, Any]]:
    pairs: dict[str, dict[str, Completion]] = defaultdict(dict)
    locations = {row.pair: row.location for row in rows}
    cloze = [row.cloze for row in rows]
    # Cut at the quartiles; a value equal to a cut is below it.
    bins = np.searchsorted(np.percentile(cloze, [25, 50, 75]), cloze, side="left").tolist() if rows else []
    for row, own_bin in zip(rows, bins, strict=True):
        for condition in (ORIGINAL, *ROLE_PERTURBED):
            context = row.context
            if "Obj" in condition:
                context = re.sub("which .* the", "which one the", context)
            if "Sub" in condition:
                context = re.sub("which (.*) the .* had", r"which \1 the other had", context)
            expected = [complete(context, word, row.location) for word in row.expected]
            yield from _requests(ROLE, condition, row.item, row.pair, (BINS[own_bin],), row.location, expected)
        pairs[row.pair][row.order] = complete(row.context, row.target, row.location)
    for pair, targets in pairs.items():
        compared = targets["a"], targets["b"]
        yield from _requests(ROLE, ORIGINAL, pair, pair, (), locations[pair], compared=compared)


def _negation_requests(dataset: str, row: Negation) -> Iterator[dict[str, Any]]:
    for polarity, context, true, false in zip(POLARITIES, row.contexts, row.targets, row.targets[::-1], strict=True):
        kind = LICENSING.get(row.licensing)
        splits = (polarity, *((kind, f"{polarity}-{kind}") if kind else ()))
        compared = [complete(context, word, row.location) for word in (true, false)]
        # Nearly every word completes a negative context, so none is expected there.
        expected = compared[:1] if polarity == POLARITIES[0] else []
        keys = dataset, ORIGINAL, f"{row.item} {polarity}", row.item, splits, row.location
        yield from _requests(*keys, expected, compared)
