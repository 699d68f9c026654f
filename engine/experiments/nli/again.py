"""What the classifier has decided, as it can be asked again: the label of a pair, and its probability."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...inference.exported import REFERENCE
from ...inference.free_text import log_softmax
from ...library.again import NEAR_TIE, ROUNDING, Compared, Logits, Reference, Verdict


@dataclass(frozen=True, eq=False)
class Labelled:
    """A row of `sentence_rows`, the labels of the logits, and the largest number of tokens of a pair."""

    row: Mapping[str, Any]
    labels: Sequence[str]
    longest: int

    def again(self, reference: Reference) -> Compared:
        """See `Item`; a probability of low precision is not compared."""
        row = self.row
        name, is_exact = f"{row['item']} of {row['dataset']} {row['condition']}", row["precision"] == REFERENCE
        logits = reference.pair(row["premise"], row["hypothesis"], self.longest)
        return Compared(name, *self.compare(logits, row["probability"] if is_exact else None), is_exact)

    def compare(self, logits: Logits, probability: float | None) -> tuple[Verdict, str]:
        """The recorded label and its probability against the logits, float32 [labels]."""
        predicted = self.row["predicted"]
        own, best = self.labels.index(predicted), int(logits.argmax())
        if own != best:
            behind = float(logits[best] - logits[own])
            said = f"the label was {predicted}, but now {self.labels[best]} (margin {behind:.2g} logits)"
            return Verdict.NEAR_TIE if behind < NEAR_TIE else Verdict.WRONG, said
        now = float(np.exp(log_softmax(logits)[own]))
        if probability is not None and abs(now - probability) > ROUNDING:
            return Verdict.WRONG, f"probability {probability:.4f}, but now {now:.4f}"
        return Verdict.AGREES, ""
