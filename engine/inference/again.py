"""What a run has decided, as it can be asked again: one item at a time, without batches, vectors or composed token ids.

A kind of requests says how (`Kind.again`), from the rows of items.parquet alone.

Of what the low-precision model decided alone, only what must be exact is compared.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ..basics.errors import InputError
from ..basics.printable import counted, some
from ..text.tokenizer import NOT_ONE_TOKEN, MaskTokenizer
from .exported import REFERENCE, ExportedModel
from .judge import log_softmax

NEAR_TIE = 1e-4  # logits: a decision this close can differ between two ways to compute the same model in fp32
ROUNDING = 1e-3  # logits and natural logarithms: fp32 on another kind of device differs by 1e-6 to 1e-4
_MOST_ANSWERS = 10_000  # so many first choices within rounding say nothing

Logits = NDArray[np.float32]


@dataclass(frozen=True)
class Reading:
    """How a text behind another one is read."""

    by_word: bool  # with a masked token, the later ones of its word are masked
    bos: bool  # the model's BOS token stands before both
    alone: bool  # the given text is not read, but the other text keeps the tokens that it has behind it
    ends: bool  # a causal model is also asked about a token behind the text


class Reference(Protocol):
    """A model that is asked in texts, one at a time, or one pair of them; `at_once` of them in threads."""

    name: str  # what decides, for tables
    at_once: int  # how many texts may be asked at the same time

    def masked(
        self, text: str, filled: Sequence[int] = (), masks: int = 1, query: int = 0, *, bos: bool = False
    ) -> Logits:
        """Of a text with the model's own mask token, float32 [V].

        The mask stands for the tokens `filled` and so many `masks`; the one number `query` of them all is asked for.
        """

    def words(self, text: str, words: Sequence[str], *, bos: bool = False) -> Iterable[tuple[int, ...]]:
        """The tokens of each word at the mask of a text; none for a word that is not tokens of its own there."""

    @property
    def openings(self) -> tuple[Sequence[int], Sequence[int]]:
        """The tokens that hold the space before their word, and all others; both with those that end a text."""

    def span(
        self, before: str | None, text: str, joiner: str | None, how: Reading
    ) -> Iterable[tuple[NDArray[np.float64], int, int]]:
        """Of each token of a user's text behind a text that is given: log-probabilities, itself, and where it begins.

        Log-probabilities are those of all tokens at its place, float64 [V]; NaN where nothing stands before it. Places
        are characters; a space before the text is -1.
        """

    def pair(self, first: str, second: str, max_length: int) -> Logits:
        """Float32 [labels]."""


class Verdict(StrEnum):
    """How a recorded item compares."""

    AGREES = "agrees"  # the decision is the same, and so are rank, first choice and log-probabilities
    NEAR_TIE = "near-tie"  # another decision, and the two logits that decide it are closer than rounding in fp32
    WRONG = "wrong"


@dataclass(frozen=True)
class Compared:
    """The comparison of one item: what differs (empty where nothing does), and whether it was decided in fp32."""

    name: str
    verdict: Verdict
    why: str = ""
    is_exact: bool = True


class Item(Protocol):
    """An item as a run recorded it."""

    def again(self, reference: Reference) -> Compared:
        """Ask the reference model about it."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Items of one kind, such as `items` or `unselected candidates`; or why none can be asked again."""

    kind: str
    items: Sequence[Item]
    why_not: str = "there are none"


@dataclass(frozen=True, eq=False)
class Question:
    """Words at the mask of a text, and what a run recorded of them; what is None is not compared.

    A word of k tokens is asked for at k masks: the mask of the text is repeated, and the word's tokens are filled in
    from left to right. It is the first choice if each token is, its rank is the largest one of its tokens, and its
    log-probability is the sum of theirs.
    """

    name: str  # what to call it in a message
    text: str  # the sentence, with one mask token of the model
    tokenizer: MaskTokenizer
    # for each mask, the expected tokens. Where there are several (k = 1), the best of them counts
    tokens: tuple[tuple[int, ...], ...] = ((),)
    # further tokens at a single mask that count as expected; rank and log-probability are not theirs
    accepted: tuple[int, ...] = ()
    is_first: bool | None = None  # whether the expected word was the first choice
    rank: int | None = None
    logprob: float | None = None  # natural logarithm of the probability of the expected word
    answer: str | None = None  # the text of the first choice
    answer_logprob: float | None = None  # natural logarithm of its probability
    unranked: tuple[NDArray[np.int64], ...] = ()  # for each mask, the tokens that do not compete; all do if it is empty
    among_ranked: bool = False  # log-probabilities are among those that compete, and not over the whole vocabulary
    fills: bool = True  # the tokens are filled in; else all masks are asked at once
    ends: NDArray[np.bool_] | None = None  # tokens that can follow the word: the probability of its end counts, too
    cut: bool = False  # the answer ends with the first token that is not expected
    bos: bool = False  # the model's BOS token stands before the text
    words: tuple[str, ...] = ()  # whose tokens the expected ones are; not compared where there are none
    fault: str = ""  # why the run cannot have recorded that
    is_exact: bool = True  # the reference model decided it

    def again(self, reference: Reference) -> Compared:
        if self.fault:
            return Compared(self.name, Verdict.WRONG, self.fault, self.is_exact)
        if said := self._other_tokens(reference):
            return Compared(self.name, Verdict.WRONG, said, self.is_exact)
        logits, end = self._ask(reference)
        return Compared(self.name, *self.compare(logits, end), self.is_exact)

    def compare(self, logits: Logits, end_logprob: float = 0.0) -> tuple[Verdict, str]:
        """What differs from the logits of each mask, float32 [k, V], or nothing."""
        ranked = logits.copy()
        for row, tokens in zip(ranked, self.unranked, strict=bool(self.unranked)):
            row[tokens] = -np.inf
        verdict, why = self._decision(ranked)
        if verdict is Verdict.AGREES:
            logprobs = log_softmax(ranked if self.among_ranked else logits)
            why = next(self._differences(ranked, logprobs, end_logprob), "")
            verdict = Verdict.WRONG if why else verdict
        return verdict, why

    def _ask(self, reference: Reference) -> tuple[Logits, float]:
        """The logits of each mask, and the log-probability of the end of the word where it counts."""
        k, word = len(self.tokens), [own[0] for own in self.tokens if own]

        def at(filled: int, query: int) -> Logits:
            return reference.masked(self.text, word[:filled], k - filled, query, bos=self.bos)

        logits = np.stack([at(query if self.fills else 0, query) for query in range(k)])
        if self.ends is None:
            return logits, 0.0
        return logits, float(np.logaddexp.reduce(log_softmax(at(k, k))[self.ends]))

    def _other_tokens(self, reference: Reference) -> str:
        """How a reference reads the expected words, where it reads other tokens."""
        if not self.words:
            return ""
        own = set(product(*self.tokens))
        read = {found for found in reference.words(self.text, self.words, bos=self.bos) if found}
        # Of several words, those of one token alone are expected.
        found = {tokens for tokens in read if len(tokens) == 1} if len(self.tokens) == 1 else read
        return "" if own == found else f"the tokens of {some(self.words)} were {sorted(own)}, but now {sorted(found)}"

    def _decision(self, ranked: Logits) -> tuple[Verdict, str]:
        if not all(self.tokens):
            if self.is_first or self.rank is not None:
                return Verdict.WRONG, "the expected word is not one token of the model"
            return Verdict.AGREES, ""
        if self.is_first is None:
            return Verdict.AGREES, ""
        margins = []
        for row, tokens in zip(ranked, self.tokens, strict=True):
            own = [*tokens, *self.accepted]
            margins.append(row[own].max() - np.delete(row, own).max())
        # Of tokens with the same logit the one with the smaller id is first: a margin of 0 can be either.
        if all(margin >= 0 for margin in margins) if self.is_first else not all(margin > 0 for margin in margins):
            return Verdict.AGREES, ""
        least = float(min(margins))  # of the one query that would have to come out in another way
        was, now = ("the expected word", "another word")[:: 1 if self.is_first else -1]
        said = f"{was} was first, but now {now} was first (margin {abs(least):.2g} logits)"
        return Verdict.NEAR_TIE if abs(least) < NEAR_TIE else Verdict.WRONG, said

    def _differences(self, ranked: Logits, logprobs: NDArray[np.float64], end_logprob: float) -> Iterator[str]:
        """What was recorded and is not possible, even if logits are rounded differently."""
        if self.rank is not None and all(self.tokens):
            own = np.array([[row[list(tokens)].max()] for row, tokens in zip(ranked, self.tokens, strict=True)])
            lowest = 1 + int((ranked > own + ROUNDING).sum(axis=1).max())
            highest = int((ranked > own - ROUNDING).sum(axis=1).max())
            if not lowest <= self.rank <= max(lowest, highest):
                yield f"rank {self.rank}, but now {lowest}"
        best = ranked.argmax(axis=1)
        possible = [np.flatnonzero(row >= row.max() - ROUNDING).tolist() for row in ranked]
        answers = product(*possible) if prod(map(len, possible)) <= _MOST_ANSWERS else ()
        if self.answer is not None and answers and self.answer not in map(self._said, answers):
            yield f"the first choice was {self.answer!r}, but now {self._said(best.tolist())!r}"
        numbers = []
        if self.logprob is not None and all(len(tokens) == 1 for tokens in self.tokens):
            now = sum(float(row[token]) for row, [token] in zip(logprobs, self.tokens, strict=True)) + end_logprob
            numbers.append(("log-probability", self.logprob, now))
        if self.answer_logprob is not None:
            now = float(logprobs[np.arange(len(best)), best].sum())
            numbers.append(("log-probability of the first choice", self.answer_logprob, now))
        for what, recorded, now in numbers:
            # Of a rare word the logarithm is large; a probability that was stored in fp32 has seven digits.
            if not abs(recorded - now) <= len(self.tokens) * ROUNDING * max(1.0, abs(now)):
                yield f"{what} {recorded:.4f}, but now {now:.4f}"

    def _said(self, choices: Sequence[int]) -> str:
        other = (place for place, choice in enumerate(choices) if choice not in self.tokens[place])
        return self.tokenizer.word_text(choices[: next(other, len(choices)) + 1] if self.cut else choices)


@dataclass(frozen=True, eq=False)
class Correlated:
    """A question, and Spearman's correlation over the ranked tokens with what is predicted in another text."""

    question: Question
    against: str
    correlation: float

    def again(self, reference: Reference) -> Compared:
        from scipy import stats  # noqa: PLC0415 - half a second

        asked = self.question
        if (found := asked.again(reference)).verdict is Verdict.WRONG:
            return found
        logits = [np.delete(reference.masked(text), asked.unranked[:1]) for text in (asked.text, self.against)]
        now = float(stats.spearmanr(*logits).statistic)
        if abs(now - self.correlation) <= NEAR_TIE:
            return found
        return Compared(found.name, Verdict.WRONG, f"correlation {self.correlation:.5f}, but now {now:.5f}")


@dataclass(frozen=True, eq=False)
class Draw:
    """How a run draws items: of the given model, so many of each kind, by a seed."""

    exported: ExportedModel
    size: int
    seed: int
    lexicon: Path | None = None  # the word lists that a user gives, where the run's were moved
    bos: bool = False  # whether the run put the model's BOS token before each text

    @cached_property
    def tokenizer(self) -> MaskTokenizer:
        return self.exported.tokenizer_with(bos=self.bos)

    def rows(self, frame: pl.LazyFrame) -> list[dict[str, Any]]:
        """Some rows of a frame with a column `item`, in their order."""
        return drawn(frame, self.size, self.seed).collect().to_dicts()

    def some(self, frame: pl.DataFrame) -> list[dict[str, Any]]:
        return frame.sample(min(self.size, len(frame)), seed=self.seed).to_dicts()

    def tokens(self, text: str, words: Sequence[str]) -> tuple[int, ...]:
        """The tokens of words at the mask of a text: of those that are one token."""
        before, _, after = text.partition(self.tokenizer.mask_token)
        found = self.tokenizer.word_tokens([(before, after)] * len(words), words)
        return tuple(int(token) for token in found if token != NOT_ONE_TOKEN)

    def question(self, row: Mapping[str, Any], k: int = 0) -> Question:
        """A row of `Run.sentence_rows` whose expected word has k tokens; its sentence has one mask, or k.

        Without k, the word is one token, or cannot be the answer.
        """
        mask, expected = self.tokenizer.mask_token, row["expected"]
        words = () if expected is None else (expected,)
        name, text, fault = row["item"], row["sentence"], ""
        if not k:
            tokens: tuple[tuple[int, ...], ...] = (self.tokens(text, words),)
        else:
            before, _, after = text.partition(mask)
            while after.startswith(mask):
                after = after.removeprefix(mask)
            name, text = f"{name} ({expected})", before + mask + after
            [found] = self.tokenizer.word_sequences([(before, after)], words)
            tokens = () if isinstance(found, str) else tuple((token,) for token in found)
            if len(tokens) != k:
                said = f"{expected} has {counted(len(tokens), 'token')}, in the run {k}"
                fault = found if isinstance(found, str) else said
        is_exact = row.get("precision", REFERENCE) == REFERENCE
        numbers = row if is_exact else {}  # only the reference model gives them exactly
        return Question(
            f"{name} in {row['condition']}",
            text,
            self.tokenizer,
            tokens,
            is_first=row["repeated"] if "repeated" in row else row["correct"],
            rank=numbers.get("rank"),
            logprob=numbers.get("logprob"),
            answer=numbers.get("answer"),
            answer_logprob=numbers.get("answer_logprob"),
            bos=self.bos,
            words=words,
            fault=fault,
            is_exact=is_exact,
        )


def drawn(frame: pl.LazyFrame, n: int, seed: int) -> pl.LazyFrame:
    """A random sample of rows in their order; all rows if there are not more."""
    if n < 1:
        raise InputError(f"a sample of {n} sentences: ask for 1 or more")
    if seed < 0:
        raise InputError(f"seed {seed}: must be 0 or more")
    key = "run_item" if "run_item" in frame.collect_schema() else "item"  # where a user has another `item`
    items = frame.select(key).collect().to_series()  # reads the columns of the filters only, and builds no text
    if n >= len(items):
        return frame
    chosen = np.sort(np.random.default_rng(seed).choice(len(items), n, replace=False))
    # Texts are built for the rows of the chosen items, of which the chosen rows are then taken.
    wanted = items.gather(chosen).unique().implode()
    kept = items.is_in(wanted).to_numpy()
    rows = pl.Series((np.cumsum(kept) - 1)[chosen], dtype=pl.UInt32)
    row = "row of the table"
    found = frame.filter(pl.col(key).is_in(wanted)).with_row_index(row)
    return found.filter(pl.col(row).is_in(rows.implode())).drop(row)


def named(request: Mapping[str, Any]) -> str:
    """What a message calls a row of items.parquet."""
    where = (request.get(name) for name in ("dataset", "condition", "pattern", "role"))
    return f"{request['item']} in {' '.join(filter(None, where))}"
