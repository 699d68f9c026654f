"""The selection among verbs of several tokens, beside that among mono-token verbs and apart from it.

A verb of k tokens is *repeated* if each of its k tokens is the model's first choice at its mask: the sentence has k
masks, and the verb's tokens before it are filled in (left-to-right, see `negengine.engine.inference.words`). That is
the case if and only if filling the masks one by one with the first choices gives the verb. So a verb whose first token
is not the first choice needs no further query. The number of masks tells the model how long the word is. A rate of
verbs of several tokens is therefore not the rate that the paper has, and never mixed with it: of each pair, at most
`--max-verbs` mono-token verbs are kept, the same as without verbs of several tokens, and as many of several tokens.
Where a lexicon has several forms of a verb for the mask, its main form counts.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...errors import InputError
from ...inference.exported import refuse_too_long
from ...inference.model import Decider
from ...inference.words import Repeats, repeated_words, sampled_queries
from ...library.again import NEAR_TIE
from ...printable import counted
from ...runs.stage import Advance
from ...text.composition import Composer
from ...text.sequences import TokenSequences
from ...text.slots import VERB, column
from ...text.spans import EncodedSentences
from ...text.verbs import mask_words
from .grid import Grid
from .select import CANDIDATES_PER_PART, PartRepeats, Selection

TOKENS = "tokens"
"""The column with the number of tokens of a verb."""

SEVERAL = "verbs of several tokens"
PREFIX = f"{SEVERAL}: "
"""Begins the names of the counts of these verbs in run.json."""

TESTED, REPEATING = "{} tokens: tested", "{} tokens: repeating"


def decided_as(pattern: str) -> str:
    """The name under which the precision of these decisions is chosen and measured, for a pattern."""
    return f"{pattern}, {SEVERAL}"


@dataclass(frozen=True, eq=False)
class SeveralSelection(Selection):
    """The candidates whose verb is of several tokens.

    Attributes:
        single: The selection among mono-token verbs of the same run; it composes the sentences.
        words: The tokens of each of the grid's verbs.
        unreachable: Why verbs cannot be predicted at all, one reason for each.
    """

    single: Selection
    words: TokenSequences
    unreachable: tuple[str, ...]

    @classmethod
    def beside(cls, single: Selection, *, candidates_per_part: int = CANDIDATES_PER_PART) -> "SeveralSelection":
        """The selection among all verbs that another one does not have.

        Args:
            single: The selection among mono-token verbs.
            candidates_per_part: Size of a part of an exhaustive run, in candidates.

        Raises:
            InputError: No verb is of several tokens.
        """
        pattern, lexicon = single.patterns.selecting, single.lexicon
        base = {slot: lexicon.verbs[0] if slot == VERB else single.fillers[slot].words[0] for slot in pattern.slots}
        forms = [lexicon.accepted(verb)[0] for verb in lexicon.verbs]
        found = mask_words(single.tokenizer, pattern, forms, base)
        verb = [i for i, own in enumerate(found) if isinstance(own, tuple) and len(own) > 1]
        if not verb:
            raise InputError("--verbs whole-words: no verb is of several tokens; use --verbs in-context")
        words = TokenSequences.of([own for own in found if isinstance(own, tuple) and len(own) > 1])
        each = single.pairs_per_part if single.settings.lazy else max(1, candidates_per_part // len(verb))
        return cls(
            exported=single.exported,
            tokenizer=single.tokenizer,
            lexicon=lexicon,
            patterns=single.patterns,
            settings=single.settings,
            grid=Grid(single.grid.names, single.grid.professions, len(verb), single.grid.pairs),
            verb=np.array(verb, np.int64),
            token=words.tokens[:, 0],
            fillers=single.fillers,
            pairs_per_part=each,
            single=single,
            words=words,
            unreachable=tuple(own for own in found if isinstance(own, str)),
        )

    @property
    def decided_as(self) -> str:
        """See `Selection`."""
        return decided_as(self.patterns.selecting.name)

    @property
    def metadata(self) -> dict[str, Any]:
        """What publication needs."""
        numbers, verbs = np.unique(self.words.counts, return_counts=True)
        return {SEVERAL: {str(number): n for number, n in zip(numbers.tolist(), verbs.tolist(), strict=True)}}

    @property
    def composer(self) -> Composer:
        """The same as for mono-token verbs: sentences with one mask, to which the others are added."""
        return self.single.composer

    def check(self, say: Callable[[str], None]) -> None:
        """See `Selection`."""
        say(f"{self.grid.verbs:,} of {len(self.lexicon.verbs):,} verbs are several tokens at the mask")
        for reason in self.unreachable[:1]:
            say(f"{len(self.unreachable):,} verbs cannot be predicted at all, such as: {reason}")
        say(
            f"{counted(len(self.grid.pairs), 'pair')}, {counted(self.grid.size, 'candidate')}, "
            f"{counted(len(self.parts), 'part')}"
        )
        for number in np.unique(self.words.counts).tolist():
            own = self.verb[self.words.counts == number]
            longest = self.composer.longest({VERB: own}) + number - 1
            refuse_too_long(self.exported, longest, f"{self.patterns.selecting.name}, verbs of {number} tokens")

    def sample(self, n: int) -> EncodedSentences:
        """Random queries of the run, to calibrate on: of random candidates, each of whose tokens is as likely."""
        sentences = self._sentences(*self.grid.locate(self.sample_indices(n)))
        words = self.words.take(sentences.expected.astype(np.int64))
        token = np.random.default_rng([self.settings.seed, 1]).integers(0, words.counts)
        return sampled_queries(sentences.buckets, words, token, causal=self.exported.is_causal)

    def repeats(self, decider: Decider, sentences: EncodedSentences, advance: Advance) -> Repeats:
        """See `Selection`."""
        words = self.words.take(sentences.expected.astype(np.int64))
        return repeated_words(
            decider, sentences.buckets, words, near_tie=NEAR_TIE, causal=self.exported.is_causal, advance=advance
        )

    def counts(self, found: PartRepeats) -> dict[str, float]:
        """See `Selection`; also the queries, and what was tested and repeated by number of tokens."""
        counts = {f"{PREFIX}{name}": value for name, value in {**found.counts, "queries": found.queries}.items()}
        return counts | by_tokens(found, self.words.counts)

    def keep_verbs(self, part: range, found: PartRepeats) -> pl.DataFrame:
        """See `Selection`; with a column `tokens`, the number of tokens of the verb."""
        kept = super().keep_verbs(part, found)
        verbs = pl.Series([self.lexicon.verbs[i] for i in self.verb.tolist()], dtype=pl.String)
        numbers = pl.Series(self.words.counts, dtype=pl.Int32)
        return kept.with_columns(
            pl.col(column(VERB)).replace_strict(verbs, numbers, return_dtype=pl.Int32).alias(TOKENS)
        )

    def _sentences(
        self, name: NDArray[np.int64], profession: NDArray[np.int64], verb: NDArray[np.int64]
    ) -> EncodedSentences:
        """See `Selection`; `expected` holds the verbs' positions in `words`, as no single token is expected."""
        return EncodedSentences(super()._sentences(name, profession, verb).buckets, verb.astype(np.int32))


def by_tokens(found: PartRepeats, tokens: NDArray[np.int64]) -> dict[str, float]:
    """What was tested and repeated of a part, by number of tokens.

    Args:
        found: The part.
        tokens: int64 [verbs], how many tokens each of the grid's verbs has.
    """
    counts: dict[str, float] = {}
    for number in np.unique(tokens).tolist():
        own = tokens == number
        counts[PREFIX + TESTED.format(number)] = int(found.tested[:, own].sum())
        counts[PREFIX + REPEATING.format(number)] = int(found.repeated[:, own].sum())
    return counts
