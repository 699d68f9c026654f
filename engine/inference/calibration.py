"""The calibration: how far the low-precision model's margins are from the reference model's, on one pattern.

    error = low-precision margin - reference margin        bias = mean error
    bound = max(4.5 standard deviations, 1.1 × the largest) of (error - bias)

Errors are nearly normal except for a few verbs: on the bundled model the errors of one verb in 763 are six times as
large as all others'. So the sample contains every verb. A verb with an error beyond 4.5 robust deviations (1.4826 ×
the median |error - median|, Hampel 1974) does not count for bias and bound. The reference model always decides it.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..text.token_ids import EncodedSentences
from .model import Decider, main_token

_DEVIATIONS, _BEYOND_LARGEST = 4.5, 1.1
_NORMAL = 1.4826  # standard deviation over median absolute deviation, of a normal distribution
_MOST_EXCLUDED = 0.05


@dataclass(frozen=True)
class Calibration:
    """The measured error of a low-precision model on one pattern; JSON values, so that a run can record them.

    Attributes:
        bias: Mean error of the margin, in logits; of a classifier, the mean error of each label's logit.
        deviation: Standard deviation of the margin's error, in logits.
        bound: The low-precision model decides alone beyond this corrected margin, in logits.
        never: The expected tokens that are always left to the reference model, ascending; main tokens where several are
            accepted.
        close: Share of the sentences that the reference model decides.
        sentences: How many sentences were measured.
        repeated: How many of these repeat the verb, in fp32.
        audit_share: Share of the decisions of the low-precision model that are audited.
        seed: Seed of the audit's hash.
        low_precision: The precision of the low-precision model: `int8` or `fp16`.
    """

    bias: float | tuple[float, ...]
    deviation: float
    bound: float
    never: tuple[int, ...]
    close: float
    sentences: int
    repeated: int = 0
    audit_share: float = 0.0
    seed: int = 0
    low_precision: str = "int8"

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values; floats come back from JSON with the same bits."""
        lists = {name: list(value) for name, value in asdict(self).items() if isinstance(value, tuple)}
        return {**asdict(self), **lists}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "Calibration":
        """The inverse of `to_json`; other keys are ignored.

        Raises:
            InputError: A field is missing, or has another type.
        """
        try:
            return msgspec.convert(content, cls)
        except msgspec.ValidationError as error:
            raise InputError(f"run.json holds a wrong calibration ({error}); choose another --output") from error


def calibrate(
    low_precision: Decider, reference: Decider, sample: EncodedSentences, *, audit_share: float = 0.0, seed: int = 0
) -> Calibration:
    """Measure the low-precision model's error on sentences of the run.

    Args:
        low_precision: The low-precision model.
        reference: The reference model.
        sample: Sentences of one pattern.
        audit_share: Share of the decisions of the low-precision model that the run will audit.
        seed: Seed of the audit's hash.

    Raises:
        NotFiniteError: A margin is not a finite number.
    """
    expected = np.concatenate([sample.expected[bucket.rows] for bucket in sample.buckets])
    low, exact = (
        np.concatenate(
            [
                decider.decide(s.ids, s.mask_position, sample.expected[s.rows]).margin(sample.expected[s.rows])
                for s in sample.buckets
            ]
        )
        for decider in (low_precision, reference)
    )
    error = low.astype(np.float64) - exact
    refuse_not_finite(error)
    centre = np.median(error)
    outlying = np.abs(error - centre) > _DEVIATIONS * _NORMAL * np.median(np.abs(error - centre))
    verbs = main_token(expected)
    never = np.unique(verbs[outlying])
    if np.isin(verbs, never).mean() > _MOST_EXCLUDED:  # not a few verbs, but the shape of the error
        never = never[:0]
    usual = ~np.isin(verbs, never)
    bias, deviation = float(error[usual].mean()), float(error[usual].std())
    bound = widest(error[usual] - bias)
    return Calibration(
        bias=bias,
        deviation=deviation,
        bound=bound,
        never=tuple(never.tolist()),
        close=float(((np.abs(low - bias) <= bound) | ~usual).mean()),
        sentences=len(error),
        repeated=int(np.count_nonzero(exact > 0)),
        audit_share=audit_share,
        seed=seed,
    )


class NotFiniteError(InputError):
    """A model gives numbers that are not finite, so a bound on its error says nothing."""


def refuse_not_finite(error: NDArray[np.float64]) -> None:
    """Refuse a calibration whose errors, [n] or [n, labels], are not all finite.

    Raises:
        NotFiniteError: Some are NaN or infinite.
    """
    wrong = int((~np.isfinite(error)).reshape(len(error), -1).any(axis=1).sum())
    if wrong:
        raise NotFiniteError(
            f"--precision mixed: {wrong:,} of {len(error):,} measured decisions have logits that are not finite "
            "numbers (NaN or infinite): give --precision fp32"
        )


def widest(error: NDArray[np.float64]) -> float:
    """The bound that errors of a margin without their bias ask for.

    Args:
        error: float64 [n], in logits.
    """
    return max(_DEVIATIONS * float(error.std()), _BEYOND_LARGEST * float(np.abs(error).max()))
