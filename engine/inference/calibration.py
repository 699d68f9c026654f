"""The calibration: how far a low-precision model's numbers are from the reference model's, on sentences of the run.

    error = low-precision number - reference number        bias = mean error
    bound = max(4.5 standard deviations, 1.1 × the largest) of (error - bias)

The number is a margin, or the logit of each label: there the bound holds for the difference of any two labels' errors.

Errors are nearly normal except for a few verbs: on the bundled model the errors of one verb in 763 are six times as
large as all others'. So the sample contains every verb. A verb with an error beyond 4.5 robust deviations (1.4826 ×
the median |error - median|, Hampel 1974) does not count for bias and bound. The reference model always decides it.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..basics.errors import InputError

_DEVIATIONS, _BEYOND_LARGEST = 4.5, 1.1
_NORMAL = 1.4826  # standard deviation over median absolute deviation, of a normal distribution
_MOST_EXCLUDED = 0.05

Errors = NDArray[np.float64]


class NotFiniteError(InputError):
    """A model gives numbers that are not finite, so a bound on its error says nothing."""


@dataclass(frozen=True)
class Calibration:
    """The measured error of a low-precision model on one pattern; JSON values, so that a run can record them."""

    # mean error of the margin, in logits; of a classifier, the mean error of each label's logit
    bias: float | tuple[float, ...]
    deviation: float  # standard deviation of the margin's error, in logits
    bound: float  # the low-precision model decides alone beyond this corrected margin, in logits
    # expected tokens that are always left to the reference model, ascending; main ones of several
    never: tuple[int, ...]
    close: float  # share of the sentences that the reference model decides
    sentences: int  # that were measured
    repeated: int = 0  # measured sentences that repeat the verb, in fp32
    audit_share: float = 0.0  # of the decisions of the low-precision model
    seed: int = 0  # of the audit's hash
    low_precision: str = "int8"

    def to_json(self) -> dict[str, Any]:
        """Floats come back from JSON with the same bits."""
        lists = {name: list(value) for name, value in asdict(self).items() if isinstance(value, tuple)}
        return {**asdict(self), **lists}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "Calibration":
        """Read a calibration; other keys are ignored.

        Raises:
            InputError: A field is missing, or has another type.
        """
        try:
            return msgspec.convert(content, cls)
        except msgspec.ValidationError as error:
            raise InputError(f"run.json holds a wrong calibration ({error}); choose another --output") from error


def of_margins(error: Errors, verbs: NDArray[np.int32] | None = None, *, lowest_bias: float = -np.inf) -> Calibration:
    """The calibration of errors in logits, float64 [n]; its `close` is not known yet.

    `verbs`, int32 [n], are the expected tokens; without them none is left to the reference model.

    Raises:
        NotFiniteError: An error is NaN or infinite.
    """
    _refuse_not_finite(error)
    never = _outlying(error, verbs) if verbs is not None else np.empty(0, np.int32)
    usual = error if verbs is None else error[~np.isin(verbs, never)]
    bias = float(usual.mean())
    return Calibration(
        bias=max(lowest_bias, bias),
        deviation=float(usual.std()),
        bound=widest(usual - bias),
        never=tuple(never.tolist()),
        close=1.0,
        sentences=len(error),
    )


def of_labels(error: Errors) -> Calibration:
    """The calibration of the logits of labels, float64 [n, labels]; its `close` is not known yet.

    Raises:
        NotFiniteError: An error is NaN or infinite.
    """
    _refuse_not_finite(error)
    bias = error.mean(axis=0)
    residual = error - bias
    differences = [residual[:, one] - residual[:, other] for one, other in combinations(range(error.shape[1]), 2)]
    return Calibration(
        bias=tuple((bias - bias.mean()).tolist()),  # an error that all labels share changes no decision
        deviation=max(float(difference.std()) for difference in differences),
        bound=max(widest(difference) for difference in differences),
        never=(),
        close=1.0,
        sentences=len(error),
    )


def widest(error: Errors) -> float:
    """The bound that errors without their bias ask for: float64 [n], in logits."""
    return max(_DEVIATIONS * float(error.std()), _BEYOND_LARGEST * float(np.abs(error).max()))


def _outlying(error: Errors, verbs: NDArray[np.int32]) -> NDArray[np.int32]:
    """The verbs with an outlying error, ascending."""
    deviation = np.abs(error - np.median(error))
    never = np.unique(verbs[deviation > _DEVIATIONS * _NORMAL * np.median(deviation)])
    if np.isin(verbs, never).mean() > _MOST_EXCLUDED:  # not a few verbs, but the shape of the error
        never = never[:0]
    return never


def _refuse_not_finite(error: Errors) -> None:
    wrong = int((~np.isfinite(error)).reshape(len(error), -1).any(axis=1).sum())
    if wrong:
        raise NotFiniteError(
            f"--precision mixed: {wrong:,} of {len(error):,} measured decisions have logits that are not finite "
            "numbers (NaN or infinite): give --precision fp32"
        )
