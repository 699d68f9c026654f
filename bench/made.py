"""Items of our own for `bench lama|diagnostics|gh22|nli`, where the papers' data are not at hand; as long as those."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..engine.experiments.diagnostics.contexts import Negation, Pragmatic, Reversal, Rows
from ..engine.experiments.lama.facts import Fact
from ..engine.experiments.nli.nli_pairs import KINDS, SOURCES, Pair
from ..engine.inference.exported import ExportedModel
from ..engine.inference.free_text import MASK
from ..engine.text.lexicon import load_lexicon

# Words of a query, of 11,165 facts of Negated LAMA; of text and hypothesis, of 1,500 pairs each of RTE, SNLI and MNLI.
_QUERY = (3, 6, 7, 7, 7, 8, 8, 9, 9, 10, 15)
_PAIRS = {
    "RTE": ((4, 13, 15, 17, 19, 21, 23, 24, 25, 29, 48), (3, 5, 6, 7, 8, 9, 10, 11, 12, 16, 28)),
    "SNLI": ((3, 7, 8, 9, 10, 11, 12, 13, 15, 17, 27), (2, 5, 6, 6, 7, 7, 8, 9, 10, 11, 25)),
    "MNLI": ((2, 6, 8, 10, 12, 14, 16, 18, 21, 25, 33), (2, 6, 7, 8, 9, 9, 10, 11, 13, 15, 30)),
}
Words = NDArray[np.str_]
_FACTS, _PER_SOURCE = 2_000, 1_500
_PRAGMATIC, _REVERSALS, _SIMPLE, _NATURAL = 34, 44, 18, 16


def one_token_verbs(exported: ExportedModel) -> list[str]:
    """The verbs of the bundled lexicon that are one token of a model."""
    verbs = load_lexicon().verbs
    found = exported.tokenizer.word_tokens([("Anna likes to ", ".")] * len(verbs), verbs)
    return [verb for verb, token in zip(verbs, found.tolist(), strict=True) if token >= 0]


def made_facts(words: Sequence[str]) -> tuple[Fact, ...]:
    """Facts with a query and its negation."""
    random, fillers = np.random.default_rng(0), _fillers()
    facts = []
    for number, length in enumerate(_lengths(random, _QUERY, _FACTS)):
        gold, before = str(random.choice(words)), _words(random, fillers, max(1, length - 3))
        asked = f"{before} is {MASK} .", f"{before} is not {MASK} ."
        facts.append(Fact("TREx", "P36", f"{number}", gold, *asked, {}, f"{number}", f"made:{number}"))
    return tuple(facts)


def made_diagnostics(words: Sequence[str]) -> Rows:
    """As many rows as the files have, with contexts of about their length; each word is one token of the model."""
    random, fillers = np.random.default_rng(0), _fillers()

    def text(least: int, most: int) -> str:
        return _words(random, fillers, int(random.integers(least, most + 1)))

    def one() -> str:
        return str(random.choice(words))

    pragmatic = tuple(
        Pragmatic(f"{i}", f"{text(8, 20)}.", text(5, 14), one(), one(), one(), "HL"[i % 2], f"made:{i}")
        for i in range(_PRAGMATIC)
    )
    reversals = tuple(
        Reversal(
            f"{i}", order, f"the {text(1, 1)} which {text(1, 1)} the {text(1, 1)} had", (one(),), i / 44, one(), "made"
        )
        for i in range(_REVERSALS)
        for order in "ab"
    )

    def negations(count: int, licensing: str) -> tuple[Negation, ...]:
        sides = (((f"{text(2, 3)} is (a|an)", f"{text(2, 3)} is not (a|an)"), (one(), one())) for _ in range(count))
        return tuple(Negation(f"{i}", *own, licensing, "made") for i, own in enumerate(sides))

    simple, natural = negations(_SIMPLE, ""), negations(_NATURAL, "Y")
    return Rows(pragmatic, reversals, simple, natural)


def made_pairs(source: str) -> tuple[Pair, ...]:
    """Pairs of texts."""
    random, fillers = np.random.default_rng(0), _fillers()
    sides = [_lengths(random, deciles, _PER_SOURCE) for deciles in _PAIRS[source]]
    gold = SOURCES[source][0]
    return tuple(
        Pair(
            item=number,
            kind=KINDS[number % len(KINDS)],
            text=f"{_words(random, fillers, first)}.",
            hypothesis=f"{_words(random, fillers, second)} {number}.",
            gold=gold,
            location=f"made:{number}",
            id=f"{number}",
        )
        for number, (first, second) in enumerate(zip(*sides, strict=True))
    )


def _lengths(random: np.random.Generator, deciles: Sequence[int], n: int) -> list[int]:
    """Numbers of words that are spread as the deciles say."""
    places = np.linspace(0, 1, len(deciles))
    drawn = np.interp(random.random(n), places, deciles)
    return [max(1, length) for length in np.rint(drawn).astype(int).tolist()]


def _fillers() -> Words:
    lexicon = load_lexicon()
    return np.array([*lexicon.verbs, *(word for name in lexicon.professions for word in name.split())])


def _words(random: np.random.Generator, fillers: Words, n: int) -> str:
    return " ".join(random.choice(fillers, n).tolist())
