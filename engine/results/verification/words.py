"""A word of several tokens at a mask, asked for again: one query after the other, one sentence a call.

Runs make the queries of many words with arrays (`negengine.engine.inference.words`). Here the masks of one text are
repeated, the word's tokens are filled in, and each query is a call of its own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...choices import TargetMethod
from ...experiments.negation.select import NEAR_TIE
from ...inference.free_text import log_softmax
from ...text.tokenizer import MaskTokenizer
from ...text.word_marks import Mark, WordClass, WordMarks
from .agreement import ROUNDING, Verdict
from .reference import Logits, Reference


@dataclass(frozen=True, eq=False)
class AskedWord:
    """The logits of a word's queries.

    Attributes:
        tokens: int64 [k].
        logits: float32 [k, V], of each query; -inf for tokens that do not compete.
        end_logprob: The log-probability of the end of the word, where it counts.
    """

    tokens: NDArray[np.int64]
    logits: Logits
    end_logprob: float = 0.0

    @property
    def own(self) -> NDArray[np.float32]:
        """The logits of the word's tokens, float32 [k]."""
        own: NDArray[np.float32] = self.logits[np.arange(len(self.tokens)), self.tokens]
        return own

    @property
    def margins(self) -> NDArray[np.float32]:
        """The logits of the word's tokens minus the best others, float32 [k]."""
        others = self.logits.copy()
        others[np.arange(len(self.tokens)), self.tokens] = -np.inf
        margins: NDArray[np.float32] = self.own - others.max(axis=1)
        return margins

    @property
    def choices(self) -> list[int]:
        """The first choice of each query."""
        return [int(choice) for choice in self.logits.argmax(axis=1)]

    def decision(self, is_first: bool, what: str) -> tuple[Verdict, str]:
        """Whether every token is the first choice.

        Args:
            is_first: What the run says.
            what: How to say that, such as `the verb was repeated`; a `{}` stands before the participle, for `not `.
        """
        # Of equal logits the smaller id is first: a margin of 0 can be either.
        certainly, possibly = bool((self.margins > 0).all()), bool((self.margins >= 0).all())
        if possibly if is_first else not certainly:
            return Verdict.AGREES, ""
        # The one query that would have to come out in another way.
        least = float(self.margins.min())
        said = f"{what.format('' if is_first else 'not ')}, but not so now (margin {abs(least):.2g} logits)"
        return Verdict.NEAR_TIE if abs(least) < NEAR_TIE else Verdict.WRONG, said

    def numbers(
        self,
        rank: int | None,
        logprob: float | None,
        answer: str | None,
        answer_logprob: float | None,
        text_of: Callable[[Sequence[int]], str],
    ) -> str:
        """What differs; empty if nothing does. What is None is not compared.

        Args:
            rank: The largest rank of the word's tokens.
            logprob: The log-probability of the word.
            answer: The text of the first choices.
            answer_logprob: The sum of their log-probabilities.
            text_of: From the first choices of the queries to the text that the run would have.
        """
        own, k = self.own[:, None], len(self.tokens)
        lowest = 1 + int((self.logits > own + ROUNDING).sum(axis=1).max())
        highest = int((self.logits > own - ROUNDING).sum(axis=1).max())
        if rank is not None and not lowest <= rank <= max(lowest, highest):
            return f"rank {rank}, but now {lowest}"
        logprobs = log_softmax(self.logits)
        sums = (
            ("logprob", logprob, float(logprobs[np.arange(k), self.tokens].sum()) + self.end_logprob),
            ("answer_logprob", answer_logprob, float(logprobs.max(axis=1).sum())),
        )
        for name, recorded, now in sums:
            if recorded is not None and abs(recorded - now) > k * ROUNDING * max(1.0, abs(now)):
                return f"{name} {recorded:.4f}, but now {now:.4f}"
        best = np.sort(self.logits, axis=1)[:, -2:]
        if answer is None or (best[:, 1] - best[:, 0] < ROUNDING).any():
            return ""
        now_said = text_of(self.choices)
        return "" if now_said == answer else f"the first choice was {answer!r}, but now {now_said!r}"

    def among(self, marks: WordMarks, *, causal: bool) -> "AskedWord":
        """The same where a token competes only with those that can stand there: the method `whole-word`.

        Args:
            marks: The classes of the tokens.
            causal: Whether the model is causal.
        """
        logits = self.logits.copy()
        for query, token in enumerate(self.tokens.tolist()):
            own_class = marks.classes[token]
            if not causal:
                competes = marks.classes == own_class
            elif query or marks.mark is Mark.END:
                continue
            else:
                competes = marks.unmarked if own_class == WordClass.CONTINUES else marks.breaks
            logits[query, ~competes] = -np.inf
        return replace(self, logits=logits)


def ask_word(
    contexts: tuple[str, str],
    tokens: Sequence[int],
    tokenizer: MaskTokenizer,
    reference: Reference,
    method: TargetMethod = TargetMethod.LEFT_TO_RIGHT,
    marks: WordMarks | None = None,
) -> AskedWord:
    """Ask for each token of a word.

    Args:
        contexts: What stands before the mask of a text, and what follows it.
        tokens: The word's, at least one.
        tokenizer: The model's.
        reference: What decides.
        method: With `all-masks`, no token is filled in.
        marks: The classes of the tokens; needed for `whole-word`.

    Raises:
        ValueError: The method is `whole-word`, and the marks are missing.
    """
    before, after = contexts
    [single] = tokenizer.encode_masked([before + tokenizer.mask_token + after])
    mask, k = int(np.flatnonzero(single == tokenizer.mask_id)[0]), len(tokens)

    def at(filled: int, query: int) -> Logits:
        masks = [tokenizer.mask_id] * (k - filled)
        ids = np.array([*single[:mask], *tokens[:filled], *masks, *single[mask + 1 :]], np.int32)
        return reference.at(ids, mask + query)

    found = np.stack([at(0 if method is TargetMethod.ALL_MASKS else query, query) for query in range(k)])
    asked = AskedWord(np.array(tokens), found)
    if method is not TargetMethod.WHOLE_WORD:
        return asked
    if marks is None:
        raise ValueError("whole-word needs the marks of the vocabulary")
    asked = asked.among(marks, causal=not tokenizer.reads_behind)
    if tokenizer.reads_behind or marks.mark is Mark.END:
        return asked
    ends = log_softmax(at(k, k))[marks.breaks]  # a word ends where the next token is not a part of it
    return replace(asked, end_logprob=float(np.logaddexp.reduce(ends)))
