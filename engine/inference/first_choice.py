"""Exact first choices at low precision: `precision` where the top-1 token itself is the result.

The decision is the token with the highest logit, whichever token is expected. The low-precision model decides alone
where the gap between its two best tokens is beyond a bound. Its choice is wrong where the reference model has a higher
logit for another token:

    margin = reference logit of the choice - best other reference logit
    error  = low-precision gap - margin
    bias   = mean error, if it is positive
    bound  = max(4.5 standard deviations, 1.1 × the largest) of the error without its mean

A gap larger than bias + bound leaves a positive margin. A negative mean error is not used as a bias: with it, a gap of
0 could be beyond the bound.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..text.token_ids import EncodedSentences
from .batches import Advance, ignored
from .calibration import Calibration, refuse_not_finite, widest
from .causal import open_language_model
from .choosing import Method
from .mixing import Mixed, even_numbers
from .model import Asked, Decisions, LanguageModel


class ManyDecider(Protocol):
    """Anything that decides about sentences of several lengths."""

    def decide_each(self, groups: Sequence[Asked], advance: Advance = ignored) -> list[Decisions]:
        """See `LanguageModel`."""


class MixedFirstChoice(Mixed[Sequence[Asked], Decisions]):
    """Decides with a low-precision model; close calls and an audit with the reference model.

    The top-1 tokens are exact. The other numbers are of the model that `Decisions.precision` names.
    """

    def __init__(self, low_precision: ManyDecider, reference: ManyDecider, calibration: Calibration) -> None:
        super().__init__(calibration)
        self._low_precision, self._reference = low_precision, reference

    def decide_each(self, groups: Sequence[Asked], advance: Advance = ignored) -> list[Decisions]:
        """See `ManyDecider`."""
        found = self.mix(groups, advance)
        return [found.take(np.arange(span.start, span.stop)) for span in _spans(groups)]

    def answers(self, asked: Sequence[Asked], advance: Advance) -> Decisions:
        """See `Mixed`."""
        return Decisions.joined(self._low_precision.decide_each(asked, advance))

    def exact_answers(self, asked: Sequence[Asked], rows: NDArray[np.int64]) -> Decisions:
        """See `Mixed`."""
        chosen = []
        for span, group in zip(_spans(asked), asked, strict=True):
            own = rows[(rows >= span.start) & (rows < span.stop)] - span.start
            if len(own):
                ids, mask_position, expected = (array[own] for array in group)
                chosen.append((ids, mask_position, expected))
        return Decisions.joined(self._reference.decide_each(chosen))

    def certainty(self, found: Decisions, asked: Sequence[Asked]) -> NDArray[np.float32]:  # noqa: ARG002
        """How far the gap between the two best tokens is above the bias."""
        return certainty(found, self.calibration.bias)

    def decided(self, found: Decisions, asked: Sequence[Asked]) -> NDArray[np.int32]:  # noqa: ARG002
        """See `Mixed`."""
        return found.top1.copy()  # it is a part of an array that is overwritten

    def even(self, asked: Sequence[Asked]) -> NDArray[np.float64]:
        """See `Mixed`."""
        return np.concatenate([even_numbers(ids, self.calibration.seed) for ids, _, _ in asked])


def certainty(found: Decisions, bias: float | tuple[float, ...]) -> NDArray[np.float32]:
    """How far the gap between the two best tokens is above the bias, in logits, float32 [n]; 0 where it is not."""
    gap = found.logits[:, 0] - found.logits[:, 1] - np.asarray(bias, np.float32)
    above: NDArray[np.float32] = np.maximum(gap, 0)
    return above


def calibrate_first_choice(
    low_precision: ManyDecider, reference: ManyDecider, sample: EncodedSentences, seed: int
) -> Calibration:
    """Measure how far the low-precision model's gaps are from the reference model's margins.

    Args:
        low_precision: The low-precision model.
        reference: The reference model.
        sample: Sentences of the run.
        seed: Seed of the audit's hash.
    """
    asked = [(bucket.ids, bucket.mask_position, sample.expected[bucket.rows]) for bucket in sample.buckets]
    low = low_precision.decide_each(asked)
    chosen = [(ids, position, answers.top1) for (ids, position, _), answers in zip(asked, low, strict=True)]
    exact = reference.decide_each(chosen)
    found = Decisions.joined(low)
    margin = Decisions.joined(exact).margin(found.top1)
    error = (found.logits[:, 0] - found.logits[:, 1]).astype(np.float64) - margin
    refuse_not_finite(error)
    bias, bound = max(0.0, float(error.mean())), widest(error - error.mean())
    return Calibration(
        bias=bias,
        deviation=float(error.std()),
        bound=bound,
        never=(),
        close=float((certainty(found, bias) <= bound).mean()),
        sentences=len(error),
        seed=seed,
    )


def _spans(groups: Sequence[Asked]) -> list[range]:
    """The rows of each group among those of all groups."""
    ends = np.cumsum([len(ids) for ids, _, _ in groups]).tolist()
    return [range(end - len(ids), end) for end, (ids, _, _) in zip(ends, groups, strict=True)]


FIRST_CHOICES: Method[LanguageModel, ManyDecider, EncodedSentences] = Method(
    opening=open_language_model, calibrate=calibrate_first_choice, mixed=MixedFirstChoice
)
"""Sentences with a mask whose top-1 token is the result."""
