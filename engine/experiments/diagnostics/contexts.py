"""The diagnostics of Ettinger (2020) as completions to compare.

A sentence is its context, the word, and a full stop. Perturbed contexts, as upstream has them, ask for accuracy only:

    shuffled             first sentence without its full stops, its words in another order (one item for each draw)
    truncated            of the second sentence the last two words before the target
    shuffled-truncated   both, with the same orders
    -Obj                 `which OBJECT the SUBJECT had` becomes `which one the SUBJECT had`
    -Sub, -ObjSub        it becomes `which OBJECT the other had`, `which one the other had`
"""

import dataclasses
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ...inference.free_text import MASK
from ...text.keys import string_keys
from ..items import ALL, ORIGINAL
from .files import CPRAG, LICENSING, NAT, ROLE, SIMP, Negation, Pragmatic, Reversal, Rows

SHUFFLED, TRUNCATED, BOTH = CPRAG_PERTURBED = ("shuffled", "truncated", "shuffled-truncated")
ROLE_PERTURBED = ("-Obj", "-Sub", "-ObjSub")
BINS = ("cloze-1", "cloze-2", "cloze-3", "cloze-4")
POLARITIES = ("affirmative", "negative")
ARTICLE = "(a|an)"
_WORDS_KEPT = 2


@dataclass(frozen=True)
class Completion:
    """A text with one [MASK], and a word for the mask."""

    text: str
    word: str

    @property
    def sentence(self) -> str:
        return self.text.replace(MASK, self.word)


@dataclass(frozen=True)
class Item:
    """What a model can be right or wrong about."""

    dataset: str  # one of `files.DATASETS`
    condition: str  # `original`, or how the context is perturbed
    item: str  # a name that no other item of its data set and condition has
    cluster: str  # the row or pair of rows that it comes from
    splits: tuple[str, ...]  # those that it counts in
    expected: tuple[Completion, ...]  # of one text, any is right; empty if accuracy is not asked for
    compared: tuple[Completion, ...]  # the first is more probable than the others; empty if that is not asked
    location: str  # file and line
    draw: int | None = None  # the number of the shuffle, from 1

    @property
    def completions(self) -> tuple[Completion, ...]:
        return tuple(dict.fromkeys([*self.expected, *self.compared]))


def build_items(diagnostics: Rows, *, draws: int, seed: int) -> tuple[Item, ...]:
    """All items of all conditions; `draws` is how many times the words of a sentence are shuffled."""
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


def generic(context: str, condition: str) -> str:
    """A context of ROLE-88 whose object, subject or both are a generic noun."""
    if "Obj" in condition:
        context = re.sub("which .* the", "which one the", context)
    return re.sub("which (.*) the .* had", r"which \1 the other had", context) if "Sub" in condition else context


def _pragmatic_items(row: Pragmatic, draws: int, seed: int) -> Iterator[Item]:
    def ask(condition: str, first: str, second: str, draw: int | None = None) -> Item:
        numbered = (f"draw-{draw}",) if draw else ()
        expected = complete(f"{first} {second}", row.expected)
        others = (row.within_category, row.between_category) if condition == ORIGINAL else ()
        compared = [dataclasses.replace(expected, word=word) for word in (expected.word, *others)] if others else []
        name, splits = " ".join((row.item, *numbered)), (ALL, row.constraint, *numbered)
        return Item(CPRAG, condition, name, row.item, splits, (expected,), tuple(compared), row.location, draw)

    last = " ".join(row.second.split()[-_WORDS_KEPT:])
    yield ask(ORIGINAL, row.first, row.second)
    yield ask(TRUNCATED, row.first, last)
    for draw in range(1, draws + 1):
        shuffled = shuffle(row.first, draw, seed)
        yield ask(SHUFFLED, shuffled, row.second, draw)
        yield ask(BOTH, shuffled, last, draw)


def _reversal_items(rows: Sequence[Reversal]) -> Iterator[Item]:
    pairs: dict[str, dict[str, Completion]] = defaultdict(dict)
    locations = {row.pair: row.location for row in rows}
    cloze = [row.cloze for row in rows]
    # Cut at the quartiles; a value equal to a cut is below it.
    bins = np.searchsorted(np.percentile(cloze, [25, 50, 75]), cloze, side="left").tolist() if rows else []
    for row, own_bin in zip(rows, bins, strict=True):
        for condition in (ORIGINAL, *ROLE_PERTURBED):
            expected = tuple(complete(generic(row.context, condition), word) for word in row.expected)
            yield Item(ROLE, condition, row.item, row.pair, (ALL, BINS[own_bin]), expected, (), row.location)
        pairs[row.pair][row.order] = complete(row.context, row.target)
    for pair, targets in pairs.items():
        yield Item(ROLE, ORIGINAL, pair, pair, (ALL,), (), (targets["a"], targets["b"]), locations[pair])


def _negation_items(dataset: str, row: Negation) -> Iterator[Item]:
    for polarity, context, true, false in zip(POLARITIES, row.contexts, row.targets, row.targets[::-1], strict=True):
        kind = LICENSING.get(row.licensing)
        splits = (ALL, polarity, *((kind, f"{polarity}-{kind}") if kind else ()))
        compared = complete(context, true), complete(context, false)
        # Nearly every word completes a negative context, so none is expected there.
        expected = compared[:1] if polarity == POLARITIES[0] else ()
        yield Item(dataset, ORIGINAL, f"{row.item} {polarity}", row.item, splits, expected, compared, row.location)
