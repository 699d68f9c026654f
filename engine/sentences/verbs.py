"""The mono-token verbs: those that a model can predict at the mask of a pattern."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ..choices import VerbConvention
from ..errors import InputError
from .patterns import Pattern
from .slots import MASK
from .tokenizer import NOT_ONE_TOKEN, MaskTokenizer


def mask_fillers(
    tokenizer: MaskTokenizer,
    pattern: Pattern,
    verbs: Sequence[str],
    fillers: Mapping[str, str],
    convention: VerbConvention,
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The mono-token verbs: verbs that are one token at the mask (see `MaskTokenizer.word_tokens`).

    Where the mask starts a sentence, the verb begins with a capital, as every other filler does.

    Args:
        tokenizer: The model's.
        pattern: The pattern with the mask.
        verbs: The candidates.
        fillers: One filler for each of the pattern's slots.
        convention: With `BARE` the verb must be one token alone, too. The token to expect at the mask is that of the
            sentence all the same.

    Returns:
        int64 [m], the mono-token verbs' indices in verbs, ascending, and int32 [m], the token of each.

    Raises:
        InputError: No verb is left, or the sentence has another mask.
    """
    before, after = pattern.text(fillers, "\0").split("\0")
    masked = before + tokenizer.mask_token + after
    tokenizer.encode_masked([masked])
    [hole] = (hole for hole in pattern.holes if hole.slot == MASK)
    spelled = [hole.spell(verb) for verb in verbs]
    tokens = tokenizer.word_tokens([(before, after)] * len(spelled), spelled)
    usable = tokens != NOT_ONE_TOKEN
    if convention == VerbConvention.BARE:
        usable &= tokenizer.is_single_token(spelled)
    index = np.flatnonzero(usable)
    if not len(index):
        raise InputError(f"none of {len(verbs)} verbs is one token ({convention}) in place of the mask in {masked!r}")
    return index, tokens[index]
