"""The mono-token verbs: those that a model can predict at the mask of a pattern."""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ..basics.choices import VerbConvention
from ..basics.errors import InputError
from .composition import share_a_token
from .pattern import VERB, Pattern
from .tokenizer import NOT_ONE_TOKEN, MaskTokenizer


def mask_fillers(
    tokenizer: MaskTokenizer,
    pattern: Pattern,
    verbs: Sequence[str],
    fillers: Mapping[str, str],
    convention: VerbConvention,
    further: Sequence[Sequence[str]] = (),
    in_context: Sequence[str] = (),
    others: Sequence[Mapping[str, str]] = (),
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The mono-token verbs, whose main form is one token at the mask: int64 [m], their indices, and int32 [m] tokens.

    By the convention `BARE` the verb must be one token alone, too. The tokens are int32 [m, k] where a verb has other
    forms (`further`) that are one token. `in_context` are the verbs as they stand at {ACT}, where that is to be theirs;
    `others` fill further sentences, in which a verb must be the same token.
    """
    accepted = [(verb, *others) for verb, others in zip(verbs, further, strict=True)] if further else [*zip(verbs)]
    spelled = [pattern.mask.spell(form) for forms in accepted for form in forms]
    owners = [verb for verb, forms in zip(in_context, accepted, strict=True) for _ in forms] if in_context else []
    tokens = tokens_at_mask(tokenizer, pattern, spelled, [fillers, *others], owners)
    if convention == VerbConvention.BARE:
        tokens = np.where([len(ids) == 1 for ids in tokenizer.alone(spelled)], tokens, NOT_ONE_TOKEN)
    # The tokens of each verb in a row, int32 [verbs, k]: its main form first, which also stands for forms it lacks.
    of_forms, most = iter(tokens.tolist()), max(map(len, accepted))
    each = [[next(of_forms) for _ in forms] for forms in accepted]
    found = np.array([own + own[:1] * (most - len(own)) for own in each], np.int32)
    found = np.where(found == NOT_ONE_TOKEN, found[:, :1], found)
    index = np.flatnonzero(found[:, 0] != NOT_ONE_TOKEN)
    if not len(index):
        masked = pattern.text(fillers, tokenizer.mask_token)
        raise InputError(
            f"none of {len(verbs)} verbs is one token ({convention}) in place of the mask in {masked!r}: give a model "
            "that knows the language of the words, or another pattern"
        )
    usable = found[index]
    return index, usable[:, 0] if (usable == usable[:, :1]).all() else usable


def tokens_at_mask(
    tokenizer: MaskTokenizer,
    pattern: Pattern,
    spelled: Sequence[str],
    sentences: Sequence[Mapping[str, str]],
    owners: Sequence[str] = (),
) -> NDArray[np.int32]:
    """The token of each word that is the same one in all sentences, or `NOT_ONE_TOKEN`: int32 [n].

    `owners` are the verbs at {ACT} of the sentences with each word, where these are not those of the fillers.
    """
    each = [tokenizer.word_tokens(_places(tokenizer, pattern, own, owners, len(spelled)), spelled) for own in sentences]
    return np.where(np.all([own == each[0] for own in each], axis=0), each[0], NOT_ONE_TOKEN).astype(np.int32)


def mask_words(
    tokenizer: MaskTokenizer, pattern: Pattern, verbs: Sequence[str], fillers: Mapping[str, str]
) -> list[tuple[int, ...] | str]:
    """The tokens of each verb at the mask, in any number; or, as text, why the model cannot predict it there."""
    spelled = [pattern.mask.spell(verb) for verb in verbs]
    return tokenizer.word_sequences(_places(tokenizer, pattern, fillers, (), len(spelled)), spelled)


def beside_mask(
    tokenizer: MaskTokenizer, pattern: Pattern, words: Mapping[str, Sequence[str]], verb: str
) -> dict[str, list[str]]:
    """Slot beside the mask → its words that can be in one token with a verb; without those that never are."""
    holes, base = pattern.holes, {slot: words[slot][0] for slot in pattern.slots}
    mask, found = holes.index(pattern.mask), dict[str, list[str]]()
    for beside in (mask - 1, mask + 1):
        if not 0 <= beside < len(holes) or (beside > mask and not tokenizer.reads_behind):
            continue
        slot = holes[beside].slot
        spelled = [[hole.spell(base[hole.slot]) if hole.slot in base else verb for hole in holes] for _ in words[slot]]
        for own, word in zip(spelled, words[slot], strict=True):
            own[beside] = holes[beside].spell(word)
        together = share_a_token(tokenizer, pattern, min(beside, mask), spelled)
        if shared := list(itertools.compress(words[slot], together)):
            found.setdefault(slot, []).extend(shared)
    return found


def other_sentences(
    pattern: Pattern, words: Mapping[str, Sequence[str]], beside: Mapping[str, Sequence[str]]
) -> list[dict[str, str]]:
    """Fillers of the sentences in which a verb may be another token than in that of the first words."""
    base = {slot: words[slot][0] for slot in pattern.slots}
    each = {slot: dict.fromkeys((base[slot], *own)) for slot, own in beside.items() if slot != VERB}
    combined = (dict(zip(each, own, strict=True)) for own in itertools.product(*each.values()))
    return [{**base, **own} for own in itertools.islice(combined, 1, None)]


def _places(
    tokenizer: MaskTokenizer, pattern: Pattern, fillers: Mapping[str, str], owners: Sequence[str], n: int
) -> list[tuple[str, str]]:
    """What stands before the mask and behind it, for each of n words; with its own verb at {ACT}."""
    before, after = pattern.text(fillers, "\0").split("\0")
    tokenizer.encode_masked([before + tokenizer.mask_token + after])
    if not owners or VERB not in pattern.slots:
        return [(before, after)] * n
    texts = {verb: pattern.text({**fillers, VERB: verb}, "\0").partition("\0") for verb in dict.fromkeys(owners)}
    return [(texts[verb][0], texts[verb][2]) for verb in owners]
