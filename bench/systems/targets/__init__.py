"""Systems that give the log-probabilities of targets at the mask: a table → float64 [n, targets]."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl


@dataclass(frozen=True, eq=False)
class Stimuli:
    """Sentences with a mask and some targets."""

    table: pl.DataFrame  # columns `sentence` and those of the targets
    targets: Sequence[str]  # the columns of the targets

    def __len__(self) -> int:
        return len(self.table)

    def head(self, n: int) -> "Stimuli":
        return Stimuli(self.table.head(n), self.targets)
