"""Words that are one token at the mask: gold answers, targets, word lists."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..inference.free_text import MASK
from ..text.tokenizer import NOT_ONE_TOKEN, MaskTokenizer

_SENTENCE = f"This is the {MASK} ."  # where words of a list are looked up


def target_ids(tokenizer: MaskTokenizer, texts: Sequence[str], words: Sequence[str]) -> NDArray[np.int32]:
    """The token that a model would have to predict for each word (see `MaskTokenizer.word_tokens`).

    Args:
        tokenizer: The model's tokenizer.
        texts: n texts with one [MASK] each.
        words: n words, one for each text.

    Returns:
        int32 [n]; `NOT_ONE_TOKEN` where a word is not one token.
    """
    contexts = []
    for text in texts:
        before, _, after = text.partition(MASK)
        contexts.append((before, after))
    return tokenizer.word_tokens(contexts, words)


def listed_ids(tokenizer: MaskTokenizer, words: Sequence[str]) -> NDArray[np.int32]:
    """The tokens of a word list, int32 [m], ascending; words that are not one token in a sentence are dropped."""
    ids = np.unique(target_ids(tokenizer, [_SENTENCE] * len(words), words))
    found: NDArray[np.int32] = ids[ids != NOT_ONE_TOKEN]
    return found


def word_ids(tokenizer: MaskTokenizer, vocab_size: int) -> NDArray[np.int32]:
    """The tokens that can be a word of letters by themselves, int32 [m], ascending.

    Tokens that continue a word, punctuation, numbers and special tokens are not among them. Beginnings of words are,
    where they look like words, and so are stop words, which LAMA's own list does not have.
    """
    known = range(min(vocab_size, tokenizer.vocab_size))
    texts = [tokenizer.token_text(i) for i in known]
    candidates = [i for i in known if texts[i].isalpha()]
    found = target_ids(tokenizer, [_SENTENCE] * len(candidates), [texts[i] for i in candidates])
    candidate_ids = np.array(candidates, np.int32)
    words: NDArray[np.int32] = candidate_ids[found == candidate_ids]
    return words
