"""Exact labels at low precision: `precision` for classifiers.

The decision is the label with the highest logit. The low-precision model decides alone where the margin between its two
best labels is beyond a bound. Its error is measured on pairs of the run itself, before the run starts:

    error    = low-precision logits - reference logits       bias = mean error of each label's logit
    bound    = max(4.5 standard deviations, 1.1 × the largest) of the difference of two labels' errors without the bias,
               for the two labels that need the widest bound

If no difference of two errors is larger than the bound, the label with the highest corrected logit is the reference
model's wherever the margin is beyond the bound: no other label can be above it. Where the bias changes the label, the
reference model decides.
"""

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from .batches import Advance, ignored
from .calibration import Calibration, refuse_not_finite, widest
from .choosing import Method
from .classifier import Classifier, EncodedPairs, Labels, PairClassifier
from .mixing import Mixed, even_numbers


class MixedClassifier(Mixed[EncodedPairs, Labels]):
    """Classifies with a low-precision model, close calls and an audit with the reference model.

    The labels are exact. The logits are of the model that `Labels.precision` names.
    """

    def __init__(self, low_precision: Classifier, reference: Classifier, calibration: Calibration) -> None:
        super().__init__(calibration)
        self._low_precision, self._reference = low_precision, reference

    def classify(self, pairs: EncodedPairs, advance: Advance = ignored) -> Labels:
        """See `Classifier`."""
        return self.mix(pairs, advance)

    def answers(self, asked: EncodedPairs, advance: Advance) -> Labels:
        """See `Mixed`."""
        return self._low_precision.classify(asked, advance)

    def exact_answers(self, asked: EncodedPairs, rows: NDArray[np.int64]) -> Labels:
        """See `Mixed`."""
        return self._reference.classify(asked.chosen(rows))

    def certainty(self, found: Labels, asked: EncodedPairs) -> NDArray[np.float32]:  # noqa: ARG002
        """The margin between the two best labels after the correction; 0 where it changes the label."""
        return certainty(found, self.calibration.bias)

    def decided(self, found: Labels, asked: EncodedPairs) -> NDArray[np.int64]:  # noqa: ARG002
        """See `Mixed`."""
        return found.label

    def even(self, asked: EncodedPairs) -> NDArray[np.float64]:
        """See `Mixed`."""
        even = np.empty(len(asked), np.float64)
        for bucket in asked.buckets:
            even[bucket.rows] = even_numbers(bucket.ids, self.calibration.seed)
        return even


def certainty(found: Labels, bias: float | tuple[float, ...]) -> NDArray[np.float32]:
    """The margin between the two best labels after the correction, float32 [n]; 0 where it changes the label.

    Args:
        found: From the low-precision model.
        bias: Of each label's logit.
    """
    corrected = found.logits - np.asarray(bias, np.float32)
    best = np.partition(corrected, -2, axis=1)
    margin: NDArray[np.float32] = best[:, -1] - best[:, -2]
    same = corrected.argmax(axis=1) == found.label
    return np.where(same, margin, np.float32(0))


def calibrate_labels(low_precision: Classifier, reference: Classifier, sample: EncodedPairs, seed: int) -> Calibration:
    """Measure the low-precision model's error on pairs of the run.

    Args:
        low_precision: The low-precision model.
        reference: The reference model.
        sample: Pairs.
        seed: Seed of the audit's hash.
    """
    low, exact = low_precision.classify(sample), reference.classify(sample)
    error = low.logits.astype(np.float64) - exact.logits
    refuse_not_finite(error)
    bias = error.mean(axis=0)
    bias = tuple((bias - bias.mean()).tolist())
    residual = error - error.mean(axis=0)
    differences = [residual[:, one] - residual[:, other] for one, other in combinations(range(error.shape[1]), 2)]
    bound = max(widest(difference) for difference in differences)
    return Calibration(
        bias=bias,
        deviation=max(float(difference.std()) for difference in differences),
        bound=bound,
        never=(),
        close=float((certainty(low, bias) <= bound).mean()),
        sentences=len(error),
        seed=seed,
    )


# A calibration of sentences has every verb, as some verbs have large errors. Pairs have no such groups: a bias for each
# label and one deviation are measured, so more pairs would only cost time.
_MEASURED = (300, 300)
LABELS: Method[PairClassifier, Classifier, EncodedPairs] = Method(
    opening=PairClassifier,
    calibrate=calibrate_labels,
    mixed=MixedClassifier,
    measured=_MEASURED,
)
"""Pairs of texts with a label."""
