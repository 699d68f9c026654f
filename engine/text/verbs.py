"""The mono-token verbs: those that a model can predict at the mask of a pattern."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ..basics.choices import VerbConvention
from ..basics.errors import InputError
from .pattern import Pattern
from .tokenizer import NOT_ONE_TOKEN, MaskTokenizer


def mask_fillers(
    tokenizer: MaskTokenizer,
    pattern: Pattern,
    verbs: Sequence[str],
    fillers: Mapping[str, str],
    convention: VerbConvention,
    further: Sequence[Sequence[str]] = (),
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The mono-token verbs, whose main form is one token at the mask: int64 [m], their indices, and int32 [m] tokens.

    By the convention `BARE` the verb must be one token alone, too. The tokens are int32 [m, k] where a verb has other
    forms (`further`) that are one token.
    """
    accepted = [(verb, *others) for verb, others in zip(verbs, further, strict=True)] if further else [*zip(verbs)]
    before, after, spelled = _in_place(tokenizer, pattern, [form for forms in accepted for form in forms], fillers)
    tokens = tokenizer.word_tokens([(before, after)] * len(spelled), spelled)
    if convention == VerbConvention.BARE:
        tokens = np.where([len(ids) == 1 for ids in tokenizer.alone(spelled)], tokens, NOT_ONE_TOKEN)
    # The tokens of each verb in a row, int32 [verbs, k]: its main form first, the row filled up with it.
    forms = np.array([len(own) for own in accepted])
    first = np.cumsum(forms) - forms
    found = np.repeat(tokens[first][:, None], max(forms), axis=1)
    for number in range(1, found.shape[1]):
        has = np.flatnonzero(forms > number)
        other = tokens[first[has] + number]
        found[has, number] = np.where(other == NOT_ONE_TOKEN, found[has, 0], other)
    index = np.flatnonzero(found[:, 0] != NOT_ONE_TOKEN)
    if not len(index):
        masked = before + tokenizer.mask_token + after
        raise InputError(
            f"none of {len(verbs)} verbs is one token ({convention}) in place of the mask in {masked!r}: give a model "
            "that knows the language of the words"
        )
    usable = found[index]
    return index, usable[:, 0] if (usable == usable[:, :1]).all() else usable


def mask_words(
    tokenizer: MaskTokenizer, pattern: Pattern, verbs: Sequence[str], fillers: Mapping[str, str]
) -> list[tuple[int, ...] | str]:
    """The tokens of each verb at the mask, in any number; or, as text, why the model cannot predict it there."""
    before, after, spelled = _in_place(tokenizer, pattern, verbs, fillers)
    return tokenizer.word_sequences([(before, after)] * len(spelled), spelled)


def _in_place(
    tokenizer: MaskTokenizer, pattern: Pattern, verbs: Sequence[str], fillers: Mapping[str, str]
) -> tuple[str, str, list[str]]:
    """What stands before the mask, what follows it, and the verbs as they are spelled there."""
    before, after = pattern.text(fillers, "\0").split("\0")
    tokenizer.encode_masked([before + tokenizer.mask_token + after])
    return before, after, [pattern.mask.spell(verb) for verb in verbs]
