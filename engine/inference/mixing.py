"""Exact decisions at low precision: what holds for every kind of decision.

A low-precision model decides. The reference model decides again where the low-precision model is not certain enough,
and it decides a random sample of the other decisions: the audit. `precision` says this of sentences with a mask,
`label_precision` of pairs of texts. Both say there what a decision is, and how certain it is.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..text.keys import combine, string_keys
from .audit import Audit
from .batches import Advance, ignored
from .calibration import Calibration

_BEYOND_DISAGREEMENT = 1.5


class Answers(Protocol):
    """What a model answers, row by row."""

    def put(self, rows: NDArray[np.int64], other: Any) -> None:
        """Overwrite some rows."""


Asked = TypeVar("Asked")
Found = TypeVar("Found", bound=Answers)


class Mixed(ABC, Generic[Asked, Found]):
    """Decides with a low-precision model; close calls and an audit with the reference model.

    A decision depends only on what is asked, the calibration and the two models.

    Attributes:
        calibration: The bias, the bound and the other measured values.
        needed: The bound that the audits so far require, in logits; 0 without a disagreement.
    """

    def __init__(self, calibration: Calibration) -> None:
        self.calibration = calibration
        self.needed = 0.0
        self._audit = Audit()

    def take_audit(self) -> tuple[Audit, float]:
        """The counts and the needed bound since the last call."""
        taken = self._audit, self.needed
        self._audit, self.needed = Audit(), 0.0
        return taken

    def mix(self, asked: Asked, advance: Advance = ignored) -> Found:
        """Decide about everything that is asked.

        Args:
            asked: In the form that the models take.
            advance: Called after each batch of the low-precision model.
        """
        found = self.answers(asked, advance)
        certainty = self.certainty(found, asked)
        # NaN compares false: only a finite certainty beyond the bound is trusted.
        close = ~(np.isfinite(certainty) & (certainty > self.calibration.bound))
        audited = ~close & (self.even(asked) < self.calibration.audit_share)
        before = self.decided(found, asked)
        chosen = np.flatnonzero(close | audited)
        if len(chosen):
            found.put(chosen, self.exact_answers(asked, chosen))
        wrong = audited & (before != self.decided(found, asked))
        if wrong.any():
            widest = max(float(certainty[wrong].max()), self.calibration.bound)
            self.needed = max(self.needed, _BEYOND_DISAGREEMENT * widest)
        self._audit.decided += len(certainty)
        self._audit.close += int(close.sum())
        self._audit.audited += int(audited.sum())
        self._audit.disagreements += int(wrong.sum())
        return found

    @abstractmethod
    def answers(self, asked: Asked, advance: Advance) -> Found:
        """What the low-precision model answers."""

    @abstractmethod
    def exact_answers(self, asked: Asked, rows: NDArray[np.int64]) -> Found:
        """What the reference model answers in some rows."""

    @abstractmethod
    def certainty(self, found: Found, asked: Asked) -> NDArray[np.float32]:
        """How far each decision is from the opposite one, in logits, [n]; 0 where it is not trusted at all."""

    @abstractmethod
    def decided(self, found: Found, asked: Asked) -> NDArray[Any]:
        """The decision of each row, [n], which must be exact."""

    @abstractmethod
    def even(self, asked: Asked) -> NDArray[np.float64]:
        """A number in [0, 1) for each row, [n]: from `even_numbers`."""


def even_numbers(ids: NDArray[np.int32], seed: int) -> NDArray[np.float64]:
    """A number in [0, 1) for each row of token ids, each value as likely: a hash of the row decides.

    Args:
        ids: int32 [n, L].
        seed: Of the hash.
    """
    weights = string_keys([str(column) for column in range(ids.shape[1])], f"audit, seed {seed}")
    with np.errstate(over="ignore"):  # arithmetic modulo 2^64 is meant
        sums = ids.astype(np.uint64) @ (weights | np.uint64(1))
    return (combine(sums) >> np.uint64(11)).astype(np.float64) / 2**53


@dataclass(frozen=True)
class Audited:
    """The audit of a part, for its record.

    Attributes:
        counts: The audit's counts, to be summed over parts.
        bounds: Pattern → the bound that decided the part, in logits; mixed precision only.
        needed: Pattern → the bound that the part's audit asks for, in logits.
    """

    counts: Mapping[str, int]
    bounds: Mapping[str, float]
    needed: Mapping[str, float]


def take_audits(deciders: Mapping[str, object]) -> Audited:
    """The audits since the last call.

    Args:
        deciders: Pattern → its decider.
    """
    counts: dict[str, int] = {}
    bounds, needed = {}, {}
    for pattern, decider in deciders.items():
        if isinstance(decider, Mixed):
            audit, bound = decider.take_audit()
            bounds[pattern], needed[pattern] = decider.calibration.bound, bound
            for name, value in asdict(audit).items():
                counts[name] = counts.get(name, 0) + value
    return Audited(counts, bounds, needed)
