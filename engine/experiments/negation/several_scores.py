"""The scoring of triplets whose verb is of several tokens, apart from that of mono-token verbs.

Each token of the verb is a query, filled from left to right (see `several` and `negengine.engine.inference.words`).
Scores need all queries, unlike the selection. A row has the columns of a mono-token verb, with these meanings:

    top1              what the model says: the verb's tokens up to the first that is not the first choice, and there
                      the first choice. It is the verb if the verb is repeated, and may be a part of a word if not
    expected_rank     the largest rank of the verb's tokens: 1 if and only if the verb is repeated
    expected_logprob  the sum over the verb's tokens: the verb's log-probability, given its number of tokens
    top1_logprob      the sum over the first choices at the same positions: at least as large
    precision         of the graph with the lowest precision that gave one of the numbers
    tokens            how many tokens the verb has
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...choices import TargetMethod
from ...errors import InputError
from ...inference.exported import PRECISIONS, ExportedModel
from ...inference.model import Decider
from ...inference.words import WordScores, sampled_queries, score_words
from ...runs.masked_stages import PatternDeciders
from ...runs.stage import Advance, Files, FinishedParts, PartResult
from ...text.composition import Composer
from ...text.patterns import Pattern
from ...text.sequences import TokenSequences
from ...text.slots import VERB
from ...text.spans import Bucket, EncodedSentences
from ...text.tokenizer import MaskTokenizer
from ...text.verbs import mask_words
from .both_kinds import BothKinds, of_several, of_single
from .rates import rates
from .score import (
    SCORES_FILE,
    TRIPLETS_PER_PART,
    ScoredPattern,
    Scoring,
    Selected,
    accepted_forms,
    read_coded,
    read_selected,
)
from .several import SEVERAL, TOKENS, decided_as
from .whole_words import SEVERAL_TRIPLETS_FILE

SEVERAL_SCORES_FILE, TOKEN_RATES_FILE = "scores_several_tokens.parquet", "rates_by_tokens.parquet"
ALL_SEVERAL = "several"
"""In rates_by_tokens.parquet, the number of tokens of all verbs of several tokens together."""


def read_several(selected: Selected) -> Selected | None:
    """The selection with the triplets of the verbs of several tokens; None if there are none.

    Args:
        selected: From `read_selected`.

    Raises:
        InputError: Their file is missing or damaged.
    """
    files = selected.record.files
    if SEVERAL_TRIPLETS_FILE not in files:
        return None
    triplets = read_coded(selected.folder, selected.record, SEVERAL_TRIPLETS_FILE)
    return replace(selected, coded=triplets, sha256=files[SEVERAL_TRIPLETS_FILE])


@dataclass(frozen=True, eq=False)
class ScoredWords(ScoredPattern):
    """One pattern over all triplets of verbs of several tokens; `expected` holds their first tokens.

    Attributes:
        words: The tokens of each distinct verb at this pattern's mask.
        causal: Whether the model reads only what stands before the mask.
    """

    words: TokenSequences
    causal: bool

    @property
    def decided_as(self) -> str:
        """See `ScoredPattern`."""
        return decided_as(self.pattern.name)

    @property
    def further_masks(self) -> int:
        """See `ScoredPattern`."""
        return self.words.widest - 1

    def expected_words(self, rows: NDArray[np.int64] | slice) -> TokenSequences:
        """The verbs of some triplets."""
        return self.words.take(self.fillers[VERB][rows].astype(np.int64))

    def sample(self, n: int, *, seed: int) -> EncodedSentences:
        """Random queries of the run, for the calibration: each token of a verb is as likely."""
        rows = self.sample_rows(n, seed)
        words = self.expected_words(rows)
        token = np.random.default_rng([seed, 1]).integers(0, words.counts)
        return sampled_queries(self.compose(rows), words, token, causal=self.causal)


@dataclass(frozen=True, eq=False)
class SeveralScoring(Scoring):
    """The scoring of the triplets of verbs of several tokens."""

    @staticmethod
    def answers_of(selected: Selected) -> None:
        """See `Scoring`: the selection asks only until a token is not the first choice, so it has no answers."""

    @property
    def sizes(self) -> Sequence[int]:
        """See `Stage`: queries, as many as the verbs have tokens in the selecting pattern."""
        tokens = np.concatenate([[0], self.selected.coded[TOKENS].to_numpy().cumsum()])
        return [int(tokens[part.stop] - tokens[part.start]) * len(self.selected.patterns.all) for part in self.parts]

    @property
    def metadata(self) -> dict[str, Any]:
        """What publication needs."""
        return {SEVERAL: sorted(self.selected.coded[TOKENS].unique().to_list())}

    def expecting(
        self,
        pattern: Pattern,
        made: Composer,
        fillers: dict[str, NDArray[np.int32]],
        verbs: pl.Series,
        base: Mapping[str, str],
    ) -> ScoredPattern:
        """See `Scoring`.

        Raises:
            InputError: A verb cannot be predicted at the mask.
        """
        forms = [forms[0] for forms in accepted_forms(self.selected.coded, verbs)]
        found = mask_words(self.tokenizer, pattern, forms, base)
        for own in found:
            if isinstance(own, str):
                raise InputError(f"{pattern.name}: {own}")
        words = TokenSequences.of([own for own in found if isinstance(own, tuple)])
        expected = words.tokens[fillers[VERB], 0]
        return ScoredWords(pattern, made, fillers, expected, words, self.exported.is_causal)

    def decide(
        self, model: PatternDeciders, number: int, prepared: list[list[Bucket] | None] | None, advance: Advance
    ) -> PartResult:
        """See `Scoring`; with a column `tokens`."""
        found, part = super().decide(model, number, prepared, advance), self.parts[number]
        tokens = self.selected.coded[TOKENS][part.start : part.stop]
        repeated = pl.concat([tokens] * len(self.patterns))
        return replace(found, rows=found.rows.with_columns(repeated.cast(pl.Int32).alias(TOKENS)))

    def answers(
        self, decider: Decider, pattern: ScoredPattern, part: range, buckets: Sequence[Bucket], advance: Advance
    ) -> tuple[dict[str, pl.Series], None]:
        """See `Scoring`; the meaning of the columns is that of this module."""
        if not isinstance(pattern, ScoredWords):
            raise TypeError(f"{type(pattern).__name__} is for verbs of one token")
        scores = score_words(
            decider,
            buckets,
            pattern.expected_words(slice(part.start, part.stop)),
            TargetMethod.LEFT_TO_RIGHT,
            causal=pattern.causal,
            advance=lambda n: advance(n, n),
        )
        precision = pl.Series(PRECISIONS, dtype=pl.String).gather(scores.precision.max(axis=1))
        return {
            "top1": said(scores, self.tokenizer),
            "repeated": pl.Series(scores.top1),
            "expected_rank": pl.Series(scores.worst_rank),
            "expected_logprob": pl.Series(scores.logprob.astype(np.float32)),
            "top1_logprob": pl.Series(scores.choice_logprob.astype(np.float32)),
            "precision": precision,
        }, None


def said(scores: WordScores, tokenizer: MaskTokenizer) -> pl.Series:
    """What the model says instead of each word: its tokens up to the first wrong one, and there the first choice."""
    width = scores.choices.shape[1]
    wrong = np.where(scores.top1, scores.words.counts - 1, (~scores.right).argmax(axis=1))
    tokens = np.where(np.arange(width) <= wrong[:, None], scores.choices, -1)
    distinct, where = np.unique(tokens, axis=0, return_inverse=True)
    texts = [tokenizer.word_text([token for token in own if token >= 0]) for own in distinct.tolist()]
    return pl.Series(texts, dtype=pl.String).gather(where.ravel())


@dataclass(frozen=True, eq=False)
class WholeWordScoring(BothKinds):
    """The scoring of both kinds of triplets."""

    name: ClassVar[str] = Scoring.name
    rows_file: ClassVar[str | None] = SCORES_FILE
    further_rows_files: ClassVar[tuple[str, ...]] = (SEVERAL_SCORES_FILE,)

    single: Scoring
    several: SeveralScoring

    @classmethod
    def plan(
        cls,
        selected: Selected,
        several: Selected,
        exported: ExportedModel,
        *,
        triplets_per_part: int = TRIPLETS_PER_PART,
    ) -> "WholeWordScoring":
        """Plan both scorings; see `Scoring.plan`.

        Args:
            selected: The selection, with the triplets of mono-token verbs.
            several: The selection, with the others.
            exported: The model that selected.
            triplets_per_part: Size of a part.
        """
        single = Scoring.plan(selected, exported, triplets_per_part=triplets_per_part)
        return cls(exported, single, SeveralScoring.plan(several, exported, triplets_per_part=triplets_per_part))

    @property
    def identity(self) -> dict[str, Any]:
        """What the scores depend on."""
        return {**self.single.identity, f"triplets sha256, {SEVERAL}": self.several.selected.sha256}

    @staticmethod
    def publish(parts: FinishedParts) -> Files:
        """The files of `Scoring.publish`, with the scores of the verbs of several tokens and rates by tokens beside."""
        if SEVERAL not in parts.metadata:
            return Scoring.publish(parts)
        files, own = Scoring.publish(of_single(parts)), of_several(parts)
        several = read_several(read_selected(parts.folder))
        if several is None:
            raise InputError(f"{parts.folder}: the selection has no file {SEVERAL_TRIPLETS_FILE}: select again")
        own_rates = token_rates(own.rows, several.coded.lazy(), parts.metadata)
        return {**files, SEVERAL_SCORES_FILE: own.rows, TOKEN_RATES_FILE: own_rates}


def token_rates(scores: pl.LazyFrame, triplets: pl.LazyFrame, metadata: Mapping[str, Any]) -> pl.DataFrame:
    """Rates of the verbs of several tokens: of all of them, and by their number of tokens.

    Args:
        scores: The content of scores_several_tokens.parquet.
        triplets: The content of triplets_several_tokens.parquet.
        metadata: Of the scoring.

    Returns:
        tokens (`several` for all of them, or a number as text), and the columns of `rates.rates`.
    """
    patterns = metadata["patterns"]
    every = pl.lit(value=True)
    groups = {ALL_SEVERAL: every, **{str(number): pl.col(TOKENS) == number for number in metadata[SEVERAL]}}
    frames = [
        rates(scores.filter(own), triplets.filter(own), patterns, selecting=patterns[0]).select(
            pl.lit(name).alias(TOKENS), pl.all()
        )
        for name, own in groups.items()
    ]
    return pl.concat(frames)
