"""Sentences on which the graphs of a model are compared.

Sentences are those of the bundled patterns with random words, as texts, and strings of random tokens from the shortest
to the longest that the model takes, because a graph can be right for short sentences only.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...inference.exported import ExportedModel
from ...text.lexicon import load_lexicon
from ...text.patterns import Pattern, load_patterns
from ...text.slots import NAME, PROFESSION, PRONOUN, VERB
from ...text.tokenizer import NOT_ONE_TOKEN, MaskTokenizer

_LENGTHS = (3, 17, 64, 150, 512)


@dataclass(frozen=True, eq=False)
class Sentence:
    """One sentence as a graph takes it.

    Attributes:
        text: As the tokenizer reads it; empty for a string of random tokens.
        ids: int32 [L]; of a causal model, what stands before the mask.
        mask: The row that is asked for: the position of the mask; of a causal model, the one before it.
        expected: Some token, whose logit and rank the graph reports.
    """

    text: str
    ids: NDArray[np.int32]
    mask: int
    expected: int


def masked_sentences(exported: ExportedModel, n: int, seed: int) -> list[Sentence]:
    """N sentences of the bundled patterns, and strings of random tokens.

    Args:
        exported: A masked or a causal language model.
        n: How many sentences.
        seed: Of the words and tokens.
    """
    tokenizer = exported.tokenizer
    found = list(_of_patterns(exported, tokenizer, n, seed))
    random = np.random.default_rng(seed)
    tokens = np.setdiff1d(np.arange(exported.vocab_size), [tokenizer.mask_id, exported.padding_id or 0])
    for length in sorted({min(length, exported.max_length) for length in (*_LENGTHS, exported.max_length)} - {1, 2}):
        ids = random.choice(tokens, length).astype(np.int32)
        mask = int(random.integers(length))
        if not exported.is_causal:
            ids[mask] = tokenizer.mask_id
        found.append(Sentence("", ids, mask, int(random.choice(tokens))))
    return found


def _of_patterns(exported: ExportedModel, tokenizer: MaskTokenizer, n: int, seed: int) -> Iterator[Sentence]:
    for pattern, fillers in _filled(n, seed):
        text = pattern.text(fillers, tokenizer.mask_token)
        [ids] = tokenizer.encode_masked([text])
        before, _, after = text.partition(tokenizer.mask_token)
        [token] = tokenizer.word_tokens([(before, after)], [fillers[VERB]]).tolist()
        if len(ids) <= exported.max_length:
            mask = int(np.flatnonzero(ids == tokenizer.mask_id)[0])
            token = 0 if token == NOT_ONE_TOKEN else token
            if exported.is_causal:
                ids, mask = ids[:mask], mask - 1
            yield Sentence(text, ids, mask, token)


def text_pairs(n: int, seed: int) -> list[tuple[str, str]]:
    """The two sentences of the bundled patterns as n pairs, with random words; no mask in them."""
    pairs = []
    for pattern, fillers in _filled(n, seed):
        first, _, second = pattern.text(fillers, fillers[VERB]).partition(". ")
        pairs.append((f"{first}.", second))
    return pairs


def _filled(n: int, seed: int) -> Iterator[tuple[Pattern, dict[str, str]]]:
    """The bundled patterns, one after the other, with random words."""
    lexicon, patterns = load_lexicon(), load_patterns().all
    random = np.random.default_rng(seed)
    for number in range(n):
        name = int(random.integers(len(lexicon.names)))
        yield (
            patterns[number % len(patterns)],
            {
                NAME: lexicon.names[name],
                PROFESSION: str(random.choice(lexicon.professions)),
                VERB: str(random.choice(lexicon.verbs)),
                PRONOUN: lexicon.pronouns[lexicon.genders[name]],
            },
        )
