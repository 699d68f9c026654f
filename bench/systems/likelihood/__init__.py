"""Systems that give the log-likelihood of each sentence: texts → float64 [n], sums of log-probabilities."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Texts:
    """Sentences."""

    texts: Sequence[str]

    def __len__(self) -> int:
        return len(self.texts)

    def head(self, n: int) -> "Texts":
        return Texts(self.texts[:n])
