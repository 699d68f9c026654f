"""Near-ties of ranks and first choices, from a device whose fp32 is not the reference's, are decided again."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from .audit import audit_share
from .judge import Logits, ranks
from .mixed import CALIBRATION_SENTENCES, Auditor, Calibration, even_numbers, of_margins, widest
from .model import Ids, LanguageModel


class NearTies(Auditor):
    """Computes sentences with near-ties again, by the reference model; while it `measures`, all of them."""

    def __init__(self, reference: LanguageModel) -> None:
        super().__init__(Calibration(bias=0.0, deviation=0.0, bound=0.0, never=(), close=0.0, sentences=0))
        self.reference, self.measures = reference, False
        self._errors: list[NDArray[np.float64]] = []
        self._certainties: list[Logits] = []

    def __call__(self, sentences: Sequence[tuple[Ids, Ids]], logits: Sequence[Logits], asked: Sequence[Ids]) -> None:
        """Put the reference model's logits in the place of those with near-ties: a `Correct` of `model.py`."""
        for (ids, mask_position), found, tokens in zip(sentences, logits, asked, strict=True):
            nearest = _nearest(found, tokens)
            distance = _distance(found, tokens, nearest)
            certainty = np.abs(distance).min(axis=1)
            close = ~(certainty > self.calibration.bound) | self.measures  # NaN compares false
            audited = ~close & (even_numbers(ids, self.calibration.seed) < self.calibration.audit_share)
            rows = np.flatnonzero(close | audited)
            before = ranks(found[rows], tokens[rows])
            if len(rows):
                found[rows] = self.reference.logits(ids[rows], mask_position[rows])
            wrong = np.zeros_like(close)
            wrong[rows] = (before != ranks(found[rows], tokens[rows])).any(axis=1)
            self._count(close, audited, wrong & audited, certainty)
            if self.measures:
                self._certainties.append(certainty)
                self._errors.append((distance - _distance(found, tokens, nearest)).astype(np.float64).ravel())

    @property
    def is_measured(self) -> bool:  # whether enough sentences were computed for a calibration
        return sum(map(len, self._certainties)) >= CALIBRATION_SENTENCES[0]

    def measured(self, total: int, precision: str) -> Calibration | None:
        """The calibration for so many sentences of the run, from those computed so far; None if there are none."""
        self.measures = False
        if not self._errors:
            return None
        error, certainty = np.concatenate(self._errors), np.concatenate(self._certainties)
        found = replace(of_margins(error), bias=0.0, bound=widest(error), sentences=len(certainty))
        close = float((certainty <= found.bound).mean())
        share = audit_share([(total, close)], CALIBRATION_SENTENCES[0])
        return replace(found, close=close, audit_share=share, low_precision=precision)


def _nearest(logits: Logits, tokens: Ids) -> NDArray[np.int64]:
    """The token whose logit is nearest to that of each token, int64 [n, k]."""
    rows, found = np.arange(len(logits)), np.empty(tokens.shape, np.int64)
    for column, own in enumerate(tokens.T):
        distance = np.abs(logits - logits[rows, own][:, None])
        distance[rows, own] = np.inf
        found[:, column] = distance.argmin(axis=1)
    return found


def _distance(logits: Logits, tokens: Ids, nearest: NDArray[np.int64]) -> Logits:
    distance: Logits = np.take_along_axis(logits, nearest, axis=1) - np.take_along_axis(logits, tokens, axis=1)
    return distance
