"""Which ACTs the GH22 probe puts into its contexts: the model's own predictions for each [NAME, PROF] pair.

Section 2.2 of the Self-Contained Negation Test Set: for "NAME is PROF and PRON likes to [MASK]", the tokens at ranks 1,
50, 100 and 200 of the predicted distribution. Special tokens and the unknown token are not ranked, as they are no
words; of tokens with equal logits the smaller id comes first. Everything else is taken as it comes, verbs or not: that
is what the paper criticises, and what the share of ACTs outside the verb lexicon shows.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...errors import InputError
from ...inference.exported import ExportedModel
from ...inference.free_text import log_softmax
from ...inference.model import MaskedLM
from ...negation.grid import Coreference, PairFillers, all_pairs, pair_fillers, sample_pairs
from ...sentences.composition import Composer, composer
from ...sentences.lexicon import Lexicon
from ...sentences.patterns import Pattern
from ...sentences.slots import NAME, PROFESSION, PRONOUN
from ...sentences.tokenizer import MaskTokenizer
from ..run import model_identity

STAGE, ACTS_FILE = "acts", "acts.parquet"
RANKS = (1, 50, 100, 200)
COORDINATED = 2  # ACT1 and ACT2: the next two ranks
_PAIRS_PER_PART = 1024


@dataclass(frozen=True, eq=False)
class ActSelection:
    """The choice of ACTs, ready to run.

    Attributes:
        pattern: the sentence whose mask is predicted.
        ranks: ascending.
        fillers: slot → what fills it for each [NAME, PROF] pair.
        pairs: int64 [n], ids of [NAME, PROF] pairs, ascending.
        wordless: int64, ids that are not ranked.
    """

    exported: ExportedModel
    lexicon: Lexicon
    pattern: Pattern
    ranks: tuple[int, ...]
    fillers: Mapping[str, PairFillers]
    pairs: NDArray[np.int64]
    composer: Composer
    tokenizer: MaskTokenizer
    wordless: NDArray[np.int64]
    seed: int

    @property
    def parts(self) -> tuple[range, ...]:
        """Ranges of positions in `pairs`."""
        n = len(self.pairs)
        return tuple(range(i, min(i + _PAIRS_PER_PART, n)) for i in range(0, n, _PAIRS_PER_PART))

    @property
    def identity(self) -> dict[str, Any]:
        """What must be the same for two runs to give the same ACTs."""
        return {
            **model_identity(self.exported),
            "lexicon sha256": self.lexicon.sha256,
            "sentence": self.pattern.sentence,
            "ranks": list(self.ranks),
            "pairs": len(self.pairs),
            "seed": self.seed,
        }


def plan_acts(
    exported: ExportedModel,
    lexicon: Lexicon,
    pattern: Pattern,
    *,
    ranks: Sequence[int] = RANKS,
    pairs: int | None = None,
    seed: int = 0,
) -> ActSelection:
    """Lay out the choice of ACTs.

    Args:
        exported: the model.
        lexicon: names and professions.
        pattern: the sentence whose mask is predicted; slots NAME, PROF, PRON.
        ranks: 1 is the most probable token.
        pairs: size of a sample of [NAME, PROF] pairs; None for all.
        seed: of the sample.

    Raises:
        InputError: a rank is below 1 or beyond the vocabulary, another slot in the sentence, a sentence too long.
    """
    tokenizer = MaskTokenizer.load(exported.folder, exported.mask_token)
    fillers = pair_fillers(lexicon, Coreference.PRONOUN, seed)
    if other := next((slot for slot in pattern.slots if slot not in fillers), None):
        raise InputError(f"the sentence that chooses the ACTs has the slot {other!r}; it may have {', '.join(fillers)}")
    wordless = np.array(sorted(i for i in tokenizer.wordless_ids() if i < exported.vocab_size), np.int64)
    most = exported.vocab_size - len(wordless) - COORDINATED
    if not ranks or min(ranks) < 1 or max(ranks) > most:
        raise InputError(f"--ranks {','.join(map(str, ranks))}: give ranks from 1 to {most}")
    chosen = ActSelection(
        exported=exported,
        lexicon=lexicon,
        pattern=pattern,
        ranks=tuple(sorted(set(ranks))),
        fillers=fillers,
        pairs=all_pairs(lexicon) if pairs is None else sample_pairs(lexicon, pairs, seed),
        composer=composer(tokenizer, pattern, {slot: filler.words for slot, filler in fillers.items()}, seed),
        tokenizer=tokenizer,
        wordless=wordless,
        seed=seed,
    )
    longest = chosen.composer.longest()
    if longest > exported.max_length:
        raise InputError(f"{pattern.name}: {longest} tokens, {exported.name} takes {exported.max_length}: shorten it")
    return chosen


def _fillers(acts: ActSelection, part: range) -> dict[str, NDArray[np.int64]]:
    name, profession = np.divmod(acts.pairs[part.start : part.stop], len(acts.lexicon.professions))
    return {slot: acts.fillers[slot].index[name, profession] for slot in (NAME, *acts.pattern.slots)}


def choose_acts(acts: ActSelection, model: MaskedLM, part: range) -> pl.DataFrame:
    """The ACTs of a range of pairs.

    Returns:
        One row a pair and rank: pair, name, gender, pronoun, profession, rank, act, act1, act2 (texts), act_id,
        act1_id, act2_id (tokens), act_logprob (natural logarithm), act_is_verb (whether the lexicon has it as a verb).
    """
    depth = acts.ranks[-1] + COORDINATED
    ids, logprobs = np.empty((len(part), depth), np.int64), np.empty((len(part), depth), np.float64)
    for rows, logits in _logits(acts, model, part):
        ids[rows], logprobs[rows] = ranked(logits, depth, acts.wordless)
    name, profession = np.divmod(acts.pairs[part.start : part.stop], len(acts.lexicon.professions))
    lexicon, verbs = acts.lexicon, set(acts.lexicon.verbs)
    words = {
        column: [acts.fillers[slot].word(i, j) for i, j in zip(name, profession, strict=True)]
        for slot, column in ((NAME, "name"), (PRONOUN, "pronoun"), (PROFESSION, "profession"))
    }
    frames = []
    for rank in acts.ranks:
        tokens = [ids[:, rank - 1 + more] for more in range(1 + COORDINATED)]
        texts = [[acts.tokenizer.token_text(int(i)) for i in column] for column in tokens]
        frames.append(
            pl.DataFrame(
                {
                    "pair": acts.pairs[part.start : part.stop],
                    "name": words["name"],
                    "gender": [lexicon.genders[i] for i in name],
                    "pronoun": words["pronoun"],
                    "profession": words["profession"],
                    "rank": np.full(len(part), rank, np.int32),
                    **{f"act{more or ''}": texts[more] for more in range(1 + COORDINATED)},
                    **{f"act{more or ''}_id": tokens[more].astype(np.int32) for more in range(1 + COORDINATED)},
                    "act_logprob": logprobs[:, rank - 1],
                    "act_is_verb": [text in verbs for text in texts[0]],
                }
            )
        )
    return pl.concat(frames).sort("pair", "rank")


def _logits(
    acts: ActSelection, model: MaskedLM, part: range
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
    """Positions in the part and their logits at the mask, a batch at a time."""
    for sentences in acts.composer.compose(_fillers(acts, part)):
        size = model.batch_size(sentences.ids.shape[1])
        for start in range(0, len(sentences.rows), size):
            batch = slice(start, start + size)
            yield sentences.rows[batch], model.logits(sentences.ids[batch], sentences.mask_position[batch])


def ranked(
    logits: NDArray[np.float32], depth: int, left_out: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The most probable tokens, the smaller id first where two are equal.

    Args:
        logits: float32 [n, V].
        depth: how many tokens to return; at most V - len(left_out).
        left_out: int64, ids that have no rank.

    Returns:
        Token ids, int64 [n, depth], and the natural logarithms of their probabilities over the whole vocabulary,
        float64 [n, depth].
    """
    logprobs = log_softmax(logits)
    wanted = logits.copy()
    wanted[:, left_out] = -np.inf
    # Everything as large as the last one wanted, in order of ids; then a stable sort leaves equal ones in that order.
    last = np.partition(wanted, wanted.shape[1] - depth, axis=1)[:, -depth]
    ids = np.empty((len(logits), depth), np.int64)
    for row, threshold in enumerate(last):
        candidates = np.flatnonzero(wanted[row] >= threshold)
        ids[row] = candidates[np.argsort(-wanted[row, candidates], kind="stable")[:depth]]
    return ids, np.take_along_axis(logprobs, ids, axis=1)
