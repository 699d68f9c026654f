"""One item as a run recorded it, against the logits of a model that was asked again.

    agrees    the decision is the same, and so are rank, first choice and log-probabilities
    near-tie  the decision is another one, and the two logits that decide it are closer than rounding in fp32
    wrong     anything else

Of what the low-precision model decided alone, only what must be exact is compared.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from ...experiments.negation.select import NEAR_TIE
from ...inference.free_text import log_softmax

ROUNDING = 1e-3
"""Logits, and natural logarithms of probabilities: fp32 on another kind of device differs by 1e-6 to 1e-4."""

Logits = NDArray[np.float32]


class Verdict(StrEnum):
    """How a recorded item compares."""

    AGREES = "agrees"
    NEAR_TIE = "near-tie"
    WRONG = "wrong"


@dataclass(frozen=True, eq=False)
class Recorded:
    """An item as a run recorded it; what is None is not compared.

    Attributes:
        name: What to call it in a message.
        text: The sentence, with the model's own mask token.
        tokens: The expected tokens; the best of them counts.
        accepted: Further tokens that count as a repetition; rank and log-probability are not theirs.
        is_first: Whether an expected token was the first choice.
        rank: The best rank of the expected tokens.
        logprob: The natural logarithm of the probability of the expected token.
        answer: The text of the first choice.
        answer_logprob: Natural logarithm of its probability.
        unranked: Tokens that have no rank, int64.
        among_ranked: Whether log-probabilities are among the ranked tokens, and not over the whole vocabulary.
        is_exact: Whether the reference model decided it.
    """

    name: str
    text: str
    tokens: tuple[int, ...] = ()
    accepted: tuple[int, ...] = ()
    is_first: bool | None = None
    rank: int | None = None
    logprob: float | None = None
    answer: str | None = None
    answer_logprob: float | None = None
    unranked: NDArray[np.int64] | None = None
    among_ranked: bool = False
    is_exact: bool = True


@dataclass(frozen=True)
class Compared:
    """The comparison of one item.

    Attributes:
        name: Of the item.
        verdict: The result.
        why: What differs; empty where nothing does.
        is_exact: Whether the run decided it with the reference model.
    """

    name: str
    verdict: Verdict
    why: str = ""
    is_exact: bool = True


def compare(item: Recorded, logits: Logits, token_text: Callable[[int], str]) -> Compared:
    """Compare an item with logits.

    Args:
        item: As recorded.
        logits: float32 [V], of a model that was asked again.
        token_text: From a token to its text as the run has it.
    """
    ranked = logits.copy()
    if item.unranked is not None:
        ranked[item.unranked] = -np.inf
    verdict, why = _decision(item, ranked)
    if verdict is Verdict.AGREES:
        logprobs = log_softmax(ranked if item.among_ranked else logits)
        found = (_rank(item, ranked), _logprob(item, logprobs), _answer(item, ranked, logprobs, token_text))
        why = next(filter(None, found), "")
        verdict = Verdict.WRONG if why else verdict
    return Compared(item.name, verdict, why, item.is_exact)


def _decision(item: Recorded, ranked: Logits) -> tuple[Verdict, str]:
    """Whether an expected token is the first choice."""
    if not item.tokens:
        if item.is_first or item.rank is not None:
            return Verdict.WRONG, "the expected word is not one token of the model"
        return Verdict.AGREES, ""
    margin = _margin(ranked, (*item.tokens, *item.accepted))
    # Of tokens with the same logit the one with the smaller id is first: the margin is 0, whichever it is.
    if item.is_first is None or (margin > 0) == item.is_first or margin == 0:
        return Verdict.AGREES, ""
    said = f"{_first(item.is_first)}, but now {_first(margin > 0)} (margin {abs(margin):.2g} logits)"
    return Verdict.NEAR_TIE if abs(margin) < NEAR_TIE else Verdict.WRONG, said


def _margin(ranked: Logits, tokens: Sequence[int]) -> float:
    """The best expected logit minus the best other logit."""
    others = ranked.copy()
    others[list(tokens)] = -np.inf
    return float(ranked[list(tokens)].max() - others.max())


def _first(is_first: bool) -> str:
    return "the expected word was first" if is_first else "another word was first"


def _rank(item: Recorded, ranked: Logits) -> str:
    """Whether the recorded rank is possible if logits are rounded differently."""
    if item.rank is None or not item.tokens:
        return ""
    own = ranked[list(item.tokens)].max()
    lowest = 1 + int((ranked > own + ROUNDING).sum())
    highest = 1 + int((ranked > own - ROUNDING).sum()) - (1 if np.isfinite(own) else 0)
    return "" if lowest <= item.rank <= max(lowest, highest) else f"rank {item.rank}, but now {lowest}"


def _logprob(item: Recorded, logprobs: NDArray[np.float64]) -> str:
    if item.logprob is None or len(item.tokens) != 1:
        return ""
    return _unlike("log-probability", item.logprob, float(logprobs[item.tokens[0]]))


def _answer(item: Recorded, ranked: Logits, logprobs: NDArray[np.float64], token_text: Callable[[int], str]) -> str:
    """Whether the recorded first choice is among the tokens that could be first if logits are rounded differently."""
    (first,) = np.nonzero(ranked >= ranked.max() - ROUNDING)
    if item.answer is not None and item.answer not in map(token_text, first.tolist()):
        return f"the first choice was {item.answer!r}, but now {token_text(int(ranked.argmax()))!r}"
    if item.answer_logprob is None:
        return ""
    return _unlike("log-probability of the first choice", item.answer_logprob, float(logprobs[ranked.argmax()]))


def _unlike(what: str, recorded: float, now: float) -> str:
    # Of a rare word the logarithm is large; a probability that was stored in fp32 has seven digits.
    return "" if abs(recorded - now) <= ROUNDING * max(1.0, abs(now)) else f"{what} {recorded:.4f}, but now {now:.4f}"
