"""Systems that give the log-likelihood of each sentence: texts → float64 [n], sums of log-probabilities."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Texts:
    """Sentences.

    Attributes:
        texts: The sentences.
    """

    texts: Sequence[str]

    def __len__(self) -> int:
        return len(self.texts)

    def head(self, n: int) -> "Texts":
        """The first n of them."""
        return Texts(self.texts[:n])
