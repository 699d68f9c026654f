"""Words as single tokens at the mask: gold answers, targets, word lists."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding

from ..inference.cloze import MASK
from ..sentences.tokens import MaskTokenizer

NOT_ONE_TOKEN = -1
_TEMPLATE = f"This is the {MASK} ."  # words that do not belong to a sentence are looked up in this one


def target_ids(tokenizer: MaskTokenizer, texts: Sequence[str], words: Sequence[str]) -> NDArray[np.int32]:
    """The token that a model would have to predict for each word.

    Args:
        tokenizer: The model's tokenizer.
        texts: n texts with one [MASK] each.
        words: n words, one for each text.

    Returns:
        int32 [n]: the token that the word is at the mask, or `NOT_ONE_TOKEN` if the word is several tokens, changes
        the tokens before it, or is unknown.
    """
    wordless = tokenizer.wordless_ids()
    masked = tokenizer.encode([text.replace(MASK, tokenizer.mask_token) for text in texts])
    filled = tokenizer.encode_with_offsets([text.replace(MASK, word) for text, word in zip(texts, words, strict=True)])
    ids = np.full(len(texts), NOT_ONE_TOKEN, np.int32)
    for row, (text, word, base, encoding) in enumerate(zip(texts, words, masked, filled, strict=True)):
        start = text.index(MASK)
        position = _covering_token(encoding, start, start + len(word))
        if position is None or base.tolist()[: position + 1] != [*encoding.ids[:position], tokenizer.mask_id]:
            continue
        if encoding.ids[position] not in wordless:
            ids[row] = encoding.ids[position]
    return ids


def _covering_token(encoding: Encoding, start: int, stop: int) -> int | None:
    """The position of the token that covers the characters from start to stop and nothing else but a space before."""
    overlapping = [i for i, (first, last) in enumerate(encoding.offsets) if first < stop and last > start]
    if len(overlapping) != 1:
        return None
    first, last = encoding.offsets[overlapping[0]]
    return overlapping[0] if first in {start - 1, start} and last == stop else None


def listed_ids(tokenizer: MaskTokenizer, words: Sequence[str]) -> NDArray[np.int32]:
    """The tokens of a word list, int32 [m], ascending, without the words that are not one token in a sentence."""
    ids = np.unique(target_ids(tokenizer, [_TEMPLATE] * len(words), words))
    found: NDArray[np.int32] = ids[ids != NOT_ONE_TOKEN]
    return found


def word_ids(tokenizer: MaskTokenizer, vocab_size: int) -> NDArray[np.int32]:
    """The tokens that can be a word of letters by themselves, int32 [m], ascending.

    Tokens that continue a word, punctuation, numbers and special tokens are not among them. The beginning of a longer
    word is, if it looks like a word. Stop words are, although LAMA's own list does not have them.
    """
    known = range(min(vocab_size, tokenizer.vocab_size))
    texts = [tokenizer.token_text(i) for i in known]
    candidates = [i for i in known if texts[i].isalpha()]
    found = target_ids(tokenizer, [_TEMPLATE] * len(candidates), [texts[i] for i in candidates])
    candidate_ids = np.array(candidates, np.int32)
    words: NDArray[np.int32] = candidate_ids[found == candidate_ids]
    return words
