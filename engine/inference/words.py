"""The log-probability of words of several tokens at the mask, by the three methods of `docs/several-tokens.md`.

A method expands a word of k tokens, which stands where a sentence has one mask, into *queries*: token ids, one position
in them, and the token expected there. Each query is what a model decides for a word of one token, so nothing else is
needed of a model. All log-probabilities are natural logarithms.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from ..basics.choices import TargetMethod
from ..basics.errors import InputError
from ..text.token_ids import NOTHING, Bucket, EncodedSentences, TokenSequences
from ..text.word_marks import Mark, WordClass, WordMarks
from .batches import OUTPUTS, Advance, Steps, finished, gathered, ignored
from .causal import LOGITS, CausalLM
from .exported import PRECISIONS, REFERENCE
from .judge import Logits, judge, log_sum_exp
from .model import Decider, Decisions, Ids, LanguageModel
from .session import Device
from .trees import Numbers

LOGITS_AT_ONCE = 2**25  # of a task: 128 MB if all of them were in memory together, of which each core has one batch
SUMMED_AT_ONCE = 2**20  # logits that a core sums together: 8 MB in double precision, and some times that meanwhile


@dataclass(frozen=True, eq=False)
class WordScores:
    """The scores of n words of up to `widest` tokens."""

    words: TokenSequences
    # Where nothing was asked: NaN, a rank of 0, the choice `NOTHING`
    token_logprobs: NDArray[np.float32]  # [n, widest], natural logarithms
    end_logprob: NDArray[np.float32]  # [n], of the end of the word: in whole-word scores of causal models; else 0
    ranks: NDArray[np.int32]  # [n, widest], 1 for the first choice; with whole-word, among the tokens that can be there
    choices: NDArray[np.int32]  # [n, widest], the first choice at each position
    choice_logprobs: NDArray[np.float32]  # [n, widest], of the first choices
    margins: NDArray[np.float32]  # [n, widest], see `Decisions.margin`; NaN with whole-word, too
    precision: NDArray[np.int8]  # [n, widest], which graph gave the numbers: a position in `PRECISIONS`

    @classmethod
    def empty(cls, words: TokenSequences) -> "WordScores":
        shape = words.tokens.shape
        token_logprobs, choice_logprobs, margins = (np.full(shape, np.nan, np.float32) for _ in range(3))
        end, ranks = np.zeros(len(words), np.float32), np.zeros(shape, np.int32)
        choices = np.full(shape, NOTHING, np.int32)
        exact = np.full(shape, PRECISIONS.index(REFERENCE), np.int8)
        return cls(words, token_logprobs, end, ranks, choices, choice_logprobs, margins, exact)

    def take(self, rows: NDArray[np.int64]) -> "WordScores":
        words, *arrays = (getattr(self, field.name) for field in fields(self))
        return WordScores(words.take(rows), *(own[rows] for own in arrays))

    @classmethod
    def joined(cls, several: Sequence["WordScores"]) -> "WordScores":
        words = TokenSequences.joined([own.words for own in several])
        arrays = [[getattr(own, field.name) for own in several] for field in fields(cls)[1:]]
        return cls(words, *(np.concatenate(own) for own in arrays))

    @property
    def logprob(self) -> NDArray[np.float64]:
        """The log-probability of each word, float64 [n]: the sum over its tokens, and of its end where that counts."""
        return np.asarray(self._sum(self.token_logprobs) + self.end_logprob)

    @property
    def choice_logprob(self) -> NDArray[np.float64]:
        """The sum over the first choices at the word's positions, float64 [n]; not below that of the tokens."""
        return self._sum(self.choice_logprobs)

    def _sum(self, logprobs: NDArray[np.float32]) -> NDArray[np.float64]:
        # A NaN within the word stays one: only what lies beyond the word counts as 0.
        inside = np.where(self.words.tokens == NOTHING, 0.0, logprobs.astype(np.float64))
        return np.asarray(inside.sum(axis=1))

    @property
    def right(self) -> NDArray[np.bool_]:
        """Which tokens are the first choice at their position, bool [n, widest]; True beyond the word."""
        accepted = self.words.accepted
        right: NDArray[np.bool_] = np.equal(self.choices, self.words.tokens)
        return right if accepted is None else (self.choices == accepted).any(axis=1, keepdims=True)

    @property
    def top1(self) -> NDArray[np.bool_]:  # [n], whether every token of the word is the first choice
        return np.asarray(self.right.all(axis=1))

    @property
    def worst_rank(self) -> NDArray[np.int32]:  # [n], of a word's tokens; its rank among all words is not known
        return np.asarray(self.ranks.max(axis=1, initial=0))

    @property
    def queries(self) -> int:
        return int(np.count_nonzero(self.ranks))

    def near_ties(self, margin: float) -> int:
        """How many of the reference model's decisions have a margin below this, in logits."""
        exact = self.precision == PRECISIONS.index(REFERENCE)
        return int(np.count_nonzero((np.abs(self.margins) < margin) & exact))


@dataclass(frozen=True, eq=False)
class Expanded:
    """Words whose queries have the same number of tokens, with a mask for each token of the word."""

    rows: NDArray[np.int64]  # [m], the words' positions in all words
    words: TokenSequences
    # [m, length]. A causal model's have as many masks as the widest word has tokens; a query is cut off after the mask
    # that it asks for.
    ids: NDArray[np.int32]
    first: NDArray[np.int32]  # [m], the position of the first mask; the same for all words of a causal model
    causal: bool  # the model reads only what stands before a mask

    def queries(self, token: int, chosen: NDArray[np.int64], *, filled: bool = True) -> tuple[Bucket, Ids]:
        """Queries about one token of some words, int64 [c], and what is expected: int32 [c] or [c, a]."""
        first = self.first[chosen]
        stop = int(first[0]) + token + 1 if self.causal else self.ids.shape[1]
        ids = self.ids[chosen, :stop]
        for before in range(token if filled else 0):
            ids[np.arange(len(chosen)), first + before] = self.words.tokens[chosen, before]
        expected = self.words.take(chosen).expected(token)
        return Bucket(self.rows[chosen], ids, (first + token).astype(np.int32)), expected


def expand(
    buckets: Sequence[Bucket], words: TokenSequences, *, causal: bool = False, at_once: int = Device.at_once
) -> Iterator[Expanded]:
    """Make room for every token of the words at the masks, and group them by the number of tokens of their queries.

    A group has at most `at_once` words, whose queries are one task.
    """
    if not buckets:
        return
    rows, mask = (np.concatenate([getattr(own, name) for own in buckets]) for name in ("rows", "mask_position"))
    widths = [own.ids.shape[1] for own in buckets]
    ids = np.concatenate([np.pad(own.ids, ((0, 0), (0, max(widths) - own.ids.shape[1]))) for own in buckets])
    lengths = mask if causal else np.repeat(widths, [len(own.rows) for own in buckets]) - 1 + words.counts[rows]
    for length in np.unique(lengths).tolist():
        group = np.flatnonzero(lengths == length)
        for some in np.split(group, range(at_once, len(group), at_once)):
            own = words.take(rows[some])
            width = length + own.widest if causal else length
            widened = _widened(ids[some], mask[some], own.counts, width, causal)
            yield Expanded(rows[some], own, widened, mask[some], causal)


def _widened(ids: Ids, mask: Ids, counts: NDArray[np.int64], width: int, causal: bool) -> Ids:
    """The ids with the mask repeated, int32 [n, width]: once for each token of the word, or up to the end."""
    if not causal and counts.max() == 1:
        return ids[:, :width]
    column = np.arange(width)
    beyond = np.maximum(column - mask[:, None], 0)
    repeated = beyond if causal else np.minimum(beyond, counts[:, None] - 1)
    widened: Ids = np.take_along_axis(ids, column - repeated, axis=1)
    return widened


def score_words(
    model: Decider,
    buckets: Sequence[Bucket],
    words: TokenSequences,
    method: TargetMethod,
    *,
    causal: bool = False,
    advance: Advance = ignored,
) -> Steps[WordScores]:
    """Score the words at the masks by `left-to-right` or `all-masks` (Kauf and Ivanova 2023), from decisions alone."""
    refuse_undefined(method, causal=causal)
    scores, filled = WordScores.empty(words), method is TargetMethod.LEFT_TO_RIGHT
    if words.widest > 1 and isinstance(model, CausalLM) and model.follows:

        def put(row: Numbers, token: Numbers, at: Numbers, ids: Ids, logits: Logits) -> None:
            found = Decisions(ids[at], logits[at], np.full(len(at), PRECISIONS.index(model.precision), np.int8))
            _put_decisions(scores, (row, token), found, words.tokens[row, token])

        yield from _following(model, buckets, words, OUTPUTS, put, advance)
        return scores
    yield from gathered(
        _deciding(model, group, token, np.flatnonzero(group.words.counts > token), scores, advance, filled=filled)
        for group in expand(buckets, words, causal=causal, at_once=model.at_once)
        for token in range(group.words.widest)
    )
    return scores


def repeated_words(
    model: Decider,
    buckets: Sequence[Bucket],
    words: TokenSequences,
    *,
    causal: bool = False,
    advance: Callable[[int, int], None] = lambda _words, _queries: None,
) -> Steps[WordScores]:
    """Score words by `left-to-right` up to the first wrong token; `advance` gets numbers of begun words and queries."""
    scores = WordScores.empty(words)

    def repeating(group: Expanded) -> Steps[None]:
        chosen = np.arange(len(group.rows))
        for token in range(group.words.widest):

            def told(n: int, words: int = int(token == 0)) -> None:
                advance(words * n, n)

            is_right = yield from _deciding(model, group, token, chosen, scores, told)
            chosen = chosen[is_right & (group.words.counts[chosen] > token + 1)]
            if not len(chosen):
                return

    yield from gathered(repeating(group) for group in expand(buckets, words, causal=causal, at_once=model.at_once))
    return scores


def _deciding(
    model: Decider,
    group: Expanded,
    token: int,
    chosen: NDArray[np.int64],
    scores: WordScores,
    advance: Advance,
    *,
    filled: bool = True,
) -> Steps[NDArray[np.bool_]]:
    """Put the decisions about one token of some words into their scores: is it the first choice?, bool [m]."""
    bucket, expected = group.queries(token, chosen, filled=filled)
    found = yield from model.deciding(bucket.ids, bucket.mask_position, expected, advance)
    _put_decisions(scores, (bucket.rows, token), found, expected)
    return found.repeated(expected)


def _put_decisions(scores: WordScores, at: tuple[Numbers, int | Numbers], found: Decisions, expected: Ids) -> None:
    scores.token_logprobs[at] = found.expected_logprob
    scores.ranks[at] = found.expected_rank
    scores.choices[at] = found.top1
    scores.choice_logprobs[at] = found.top1_logprob
    scores.margins[at] = found.margin(expected)
    scores.precision[at] = found.precision


def _following(
    model: CausalLM,
    buckets: Sequence[Bucket],
    words: TokenSequences,
    outputs: Sequence[str],
    put: Callable[..., None],
    advance: Advance,
    *,
    ends: bool = False,
) -> Steps[None]:
    """Ask for all tokens of words in one run of each sentence; `put` gets rows, tokens, and what `following` gives."""
    rows, first = (np.concatenate([getattr(own, name) for own in buckets]) for name in ("rows", "mask_position"))
    counts = words.counts[rows] + ends
    every = zip((ids for own in buckets for ids in own.ids), first, words.tokens[rows], counts, strict=True)
    texts = [np.concatenate([ids[:start], word[: count - 1]]) for ids, start, word, count in every]
    owner = np.repeat(np.arange(len(rows)), counts)
    token = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    row = rows[owner]
    expected = np.zeros(len(row), np.int32) if LOGITS in outputs else words.tokens[row, token]
    asked = owner, first[owner] - 1 + token, expected
    yield from model.following(texts, asked, outputs, lambda own, *found: put(row[own], token[own], *found), advance)


def refuse_undefined(method: TargetMethod, *, causal: bool) -> None:
    """Refuse a method that is not defined for a kind of model: `all-masks`, for a causal one."""
    if causal and method is TargetMethod.ALL_MASKS:
        raise InputError(f"{method} needs a masked model: a causal model reads one token after the other")


def score_whole_words(
    model: LanguageModel,
    buckets: Sequence[Bucket],
    words: TokenSequences,
    marks: WordMarks,
    *,
    advance: Advance = ignored,
) -> WordScores:
    """Score words by `whole-word`, in fp32: from all logits, some batches at a time; arguments as for `score_words`.

    A token competes only with those that can stand there (Pimentel and Meister 2024, theorem 2, with punctuation as
    words of its own). Of a causal model the end of the word counts, too (Oh and Schuler 2024).
    """
    scores, vocabulary, causal = WordScores.empty(words), len(marks.classes), isinstance(model, CausalLM)
    ends = causal and marks.mark is not Mark.END
    summed = max(1, SUMMED_AT_ONCE // vocabulary)

    def put(row: Numbers, token: Numbers, at: Numbers, logits: Logits) -> None:
        for number in np.unique(token).tolist():
            of_token = np.flatnonzero(token == number)
            for some in np.split(of_token, range(summed, len(of_token), summed)):
                own, rows = logits[at[some]], row[some]
                over = words.counts[rows] == number
                if over.any():
                    ended = log_sum_exp(own[over][:, marks.breaks]) - log_sum_exp(own[over])
                    scores.end_logprob[rows[over]] = ended
                if not over.all():
                    expected = words.take(rows[~over]).expected(number)
                    _put(scores, rows[~over], number, own[~over], expected, marks, causal)

    if isinstance(model, CausalLM):
        finished(_following(model, buckets, words, [LOGITS], put, advance, ends=ends))
        return scores

    def scoring(group: Expanded, token: int, chosen: NDArray[np.int64]) -> Steps[None]:
        bucket, _ = group.queries(token, chosen)
        length = bucket.ids.shape[1]
        size = max(1, min(model.batch_size(length), LOGITS_AT_ONCE // vocabulary))
        parts = [
            slice(start + part.start, start + part.stop)
            for start in range(0, len(chosen), size)
            for part in model.divide(min(size, len(chosen) - start), length)
        ]

        def summed_up(number: int, logits: list[Logits]) -> None:
            rows = bucket.rows[parts[number]]
            put(rows, np.full(len(rows), token), np.arange(len(rows)), logits[0])
            advance(len(rows))

        asked = [[(bucket.ids[part], bucket.mask_position[part])] for part in parts]
        yield from model.reduce_logits(asked, summed_up)

    def each() -> Iterator[Steps[None]]:
        for group in expand(buckets, words, at_once=model.at_once):
            for token in range(group.words.widest):
                yield scoring(group, token, np.flatnonzero(group.words.counts > token))

    finished(gathered(each()))
    return scores


def _put(
    scores: WordScores,
    rows: NDArray[np.int64],
    token: int,
    logits: NDArray[np.float32],
    expected: Ids,
    marks: WordMarks,
    causal: bool,
) -> None:
    classes = marks.classes[expected]
    for word_class in np.unique(classes).tolist():
        of_class = classes == word_class
        allowed = _allowed(marks, word_class, token, causal)
        place = np.arange(np.count_nonzero(of_class))
        found = judge(logits[of_class], 1, place, expected[of_class], np.flatnonzero(allowed), among_ranked=True)
        at = rows[of_class], token
        scores.token_logprobs[at], scores.ranks[at] = found.logprob, found.rank
        scores.choices[at], scores.choice_logprobs[at] = found.top[:, 0], found.top_logprob[:, 0]


def _allowed(marks: WordMarks, word_class: int, token: int, causal: bool) -> NDArray[np.bool_]:
    """The tokens that a token of this class competes with at its position in the word, bool [V]."""
    if not causal:
        same: NDArray[np.bool_] = marks.classes == word_class
        return same
    if token or marks.mark is Mark.END:  # the end of the word competes with the tokens that continue it
        return np.ones(len(marks.classes), np.bool_)
    return marks.unmarked if word_class == WordClass.CONTINUES else marks.breaks


def sampled_queries(
    buckets: Sequence[Bucket], words: TokenSequences, token: NDArray[np.int64], *, causal: bool = False
) -> EncodedSentences:
    """One left-to-right query for each word, as sentences; `token`, int64 [n], is which one is asked for, from 0."""
    expected = np.zeros_like(words.expected(0))
    found = []
    for group in expand(buckets, words, causal=causal):
        for number in np.unique(token[group.rows]).tolist():
            bucket, own = group.queries(number, np.flatnonzero(token[group.rows] == number))
            expected[bucket.rows] = own
            found.append(bucket)
    return EncodedSentences(found, expected)
