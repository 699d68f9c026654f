"""The grid of candidates: every usable verb for every [NAME, PROF] pair. It is never in memory as a whole.

A pair's id is name * professions + profession; a candidate's index is (position of its pair) * verbs + verb.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...basics.choices import Coreference, VerbConvention
from ...basics.errors import InputError
from ...runs.stage import part_ranges
from ...text.keys import checked_seed, combine, string_keys
from ...text.lexicon import Lexicon
from ...text.pattern import NAME, PROFESSION, PRONOUN, VERB, Pattern, PatternSet
from ...text.token_ids import TokenSequences
from ...text.tokenizer import MaskTokenizer
from ...text.verbs import beside_mask, mask_fillers, mask_words, other_sentences

SEVERAL = VerbConvention.SEVERAL_TOKENS

PAIR_NAME = pl.concat_str(pl.col("name").str.replace_all(",", ",,", literal=True), pl.lit(", "), "profession")
"""`Anna, a nurse`: another text for each other pair, also where a name has a comma."""


@dataclass(frozen=True, eq=False)
class Verbs:
    """Verbs of one token, or of several; and their candidates."""

    index: NDArray[np.int64]  # [n], in the lexicon
    words: TokenSequences
    professions: int  # of the lexicon
    pairs: NDArray[np.int64]  # the ids of the pairs to test, ascending
    pairs_per_part: int

    @property
    def n(self) -> int:
        return len(self.index)

    @property
    def size(self) -> int:
        return len(self.pairs) * self.n

    @property
    def parts(self) -> tuple[range, ...]:
        return part_ranges(len(self.pairs), self.pairs_per_part)

    def locate(self, index: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
        """Name, profession and verb (each int64 [n]) of candidates."""
        position, verb = np.divmod(index, self.n)
        return *np.divmod(self.pairs[position], self.professions), verb


def slot_words(lexicon: Lexicon, fillers: Mapping[str, "PairFillers"]) -> dict[str, Sequence[str]]:
    """The words of all slots."""
    return {VERB: lexicon.verbs, **{slot: filler.words for slot, filler in fillers.items()}}


def usable_verbs(
    tokenizer: MaskTokenizer,
    lexicon: Lexicon,
    patterns: PatternSet,
    fillers: Mapping[str, "PairFillers"],
    convention: VerbConvention,
) -> tuple[NDArray[np.int64], TokenSequences, dict[str, list[str]]]:
    """The verbs that can be asked for at the masks of all patterns; `fillers` are those of all slots but {ACT}.

    Returns their numbers in the lexicon, int64 [n], their tokens in the selecting pattern, [n], and, for each scored
    pattern, the verbs that its mask alone excludes. Raises InputError if no verb remains.
    """
    selecting, verbs, words = patterns.selecting, lexicon.verbs, slot_words(lexicon, fillers)
    main, further = zip(*((forms[0], forms[1:]) for forms in map(lexicon.accepted, verbs)), strict=True)

    def one_token(own: Pattern) -> tuple[NDArray[np.int64], TokenSequences]:
        base, beside = {slot: words[slot][0] for slot in own.slots}, beside_mask(tokenizer, own, words, main[0])
        others = other_sentences(own, words, beside)
        # Where the mask is apart from all words, no verb depends on them.
        in_context = verbs if beside else ()
        index, token = mask_fillers(tokenizer, own, main, base, convention, further, in_context, others)
        return index, TokenSequences.single(token)

    def several_tokens(own: Pattern) -> tuple[NDArray[np.int64], TokenSequences]:
        found = mask_words(tokenizer, own, main, {slot: words[slot][0] for slot in own.slots})
        fewest = 2 if own is selecting else 1
        known = {i: tokens for i, tokens in enumerate(found) if isinstance(tokens, tuple) and len(tokens) >= fewest}
        if not known:
            raise InputError(f"--verbs {convention}: no verb is of several tokens at the mask of {own.name}")
        return np.array([*known], np.int64), TokenSequences.of([*known.values()])

    usable = several_tokens if convention is SEVERAL else one_token
    (index, tokens), lost = usable(selecting), dict[str, list[str]]()
    for own in patterns.scored:
        kept = np.isin(index, usable(own)[0])
        lost[own.name] = [verbs[i] for i in index[~kept]]
        index, tokens = index[kept], tokens.take(np.flatnonzero(kept))
        if not len(index):
            raise InputError(
                f"no verb that can be asked for at the mask of {selecting.name} can be asked for at that of "
                f"{own.name}, too: write patterns with the same text around the mask"
            )
    return index, tokens, lost


def sample_pairs(lexicon: Lexicon, n: int | None, seed: int) -> NDArray[np.int64]:
    """The ids of the n pairs with the smallest keys, int64 [n], ascending; all if n is None. Samples are nested."""
    if n is None:
        return np.arange(lexicon.n_pairs)
    if not 1 <= n <= lexicon.n_pairs:
        raise InputError(f"{n} pairs asked for: the lexicon has {lexicon.n_pairs}; ask for 1 to {lexicon.n_pairs}")
    keys = combine(_keys(lexicon.names, "pairs", seed)[:, None], _keys(lexicon.professions, "pairs", seed)).ravel()
    return np.sort(np.argsort(keys, kind="stable")[:n])


def verb_order(
    lexicon: Lexicon, seed: int, name: NDArray[np.int64], profession: NDArray[np.int64], verb: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """The keys that order the verbs of each pair, uint64 [n_pairs, n_verbs]: verbs with smaller keys are kept first.

    A key is a function of the seed and the three words alone; name, profession and verb are indices in the lexicon.
    """
    return combine(
        _keys(lexicon.names, "verbs", seed)[name][:, None],
        _keys(lexicon.professions, "verbs", seed)[profession][:, None],
        _keys(lexicon.verbs, "verbs", seed)[verb],
    )


@dataclass(frozen=True, eq=False)
class PairFillers:
    """The filler of a slot for each [NAME, PROF] pair."""

    words: tuple[str, ...]
    index: NDArray[np.int64]  # [n_names, n_professions], each pair's index in `words`

    def word(self, name: int, profession: int) -> str:
        return self.words[int(self.index[name, profession])]


def pair_fillers(lexicon: Lexicon, coreference: Coreference, seed: int) -> dict[str, PairFillers]:
    """The filler of each slot except {ACT} and {MASK}, for each [NAME, PROF] pair.

    A profession has the form of the name's gender, the forms of a further slot that of the filler of {PRON}. Of a plain
    list, the word with the smallest key of (seed, slot, NAME, PROF, word) is taken.
    """
    shape = len(lexicon.names), len(lexicon.professions)
    genders = list(lexicon.pronouns)
    gender = np.array([genders.index(label) for label in lexicon.genders])  # of each name
    subject_words, subject = subjects(lexicon, coreference, checked_seed(seed))
    subject_gender = subject if coreference == Coreference.PRONOUN else gender[subject]
    number = np.arange(len(lexicon.professions))
    found = {NAME: PairFillers(lexicon.names, np.broadcast_to(np.arange(len(lexicon.names))[:, None], shape))}
    for slot, forms in {PROFESSION: dict.fromkeys(genders, lexicon.professions), **lexicon.forms}.items():
        numbers = {form: i for i, form in enumerate(dict.fromkeys(form for label in genders for form in forms[label]))}
        table = np.array([[numbers[form] for form in forms[label]] for label in genders])
        index = table[gender[:, None], number] if slot == PROFESSION else table[subject_gender, 0]
        found[slot] = PairFillers(tuple(numbers), index)
    found[PRONOUN] = PairFillers(subject_words, subject)
    for slot, words in lexicon.lists.items():
        names, professions, own = (_keys(part, slot, seed) for part in (lexicon.names, lexicon.professions, words))
        least = [combine(name, professions[:, None], own).argmin(axis=1) for name in names]
        found[slot] = PairFillers(words, np.stack(least))
    return found


def subjects(lexicon: Lexicon, coreference: Coreference, seed: int) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """The fillers of {PRON}, and each pair's index among them, int64 [n_names, n_professions].

    Another name is the allowed one with the smallest key of (seed, NAME, PROF, that name); an `InputError` if none is.
    """
    genders = np.array(lexicon.genders)
    shape = (len(lexicon.names), len(lexicon.professions))
    match coreference:
        case Coreference.PRONOUN:
            labels = list(lexicon.pronouns)
            index = np.array([labels.index(gender) for gender in lexicon.genders])
            return tuple(lexicon.pronouns.values()), np.broadcast_to(index[:, None], shape)
        case Coreference.SAME_NAME:
            return lexicon.names, np.broadcast_to(np.arange(len(lexicon.names))[:, None], shape)
        case Coreference.SAME_GENDER:
            allowed = (genders[:, None] == genders) & ~np.eye(len(genders), dtype=bool)
        case Coreference.OTHER_GENDER:
            allowed = genders[:, None] != genders
    names, professions = (_keys(words, "other names", seed) for words in (lexicon.names, lexicon.professions))
    chosen = np.empty(shape, dtype=np.int64)
    for name, others in enumerate(allowed):
        candidates = np.flatnonzero(others)
        if not len(candidates):
            raise InputError(
                f"with co-reference {coreference} no other name can follow {lexicon.names[name]!r}: "
                "add names to the lexicon"
            )
        chosen[name] = candidates[combine(names[name], professions[:, None], names[candidates]).argmin(axis=1)]
    return lexicon.names, chosen


def _keys(words: Sequence[str], purpose: str, seed: int) -> NDArray[np.uint64]:
    return string_keys(words, f"{purpose}, seed {checked_seed(seed)}")
