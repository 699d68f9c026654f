"""What neighbouring sentences have in common at their beginning.

All verbs of one [NAME, PROF] pair follow each other in a run, and their sentences share the first half of their tokens.
A causal model's keys and values of these tokens are the same in all of them, so they are computed once for a group.
With gpt2's shape, 85 sentences of 15 tokens that share 9 take 0.39 of the time (one thread, 2.6 times as fast).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_WORTH_IT = 0.8  # share of the tokens that may be left to compute
_FEWEST_TOKENS = 64  # of the rest of a group's sentences, on average: less would make products inefficient


@dataclass(frozen=True, eq=False)
class Groups:
    """Neighbouring sentences that begin alike.

    Attributes:
        length: How many first tokens the sentences of a group share.
        bounds: int64 [groups + 1], the first sentence of each group, and the number of sentences.
    """

    length: int
    bounds: NDArray[np.int64]


def common_prefixes(ids: NDArray[np.int32]) -> Groups | None:
    """The groups with the fewest tokens to compute; None where that is not worth it.

    Args:
        ids: int32 [n, L], sentences of one length in the order of the run.
    """
    n, length = ids.shape
    if n < 2 or length < 2:
        return None
    differs = ids[1:] != ids[:-1]
    first = np.where(differs.any(axis=1), differs.argmax(axis=1), length)  # column where a sentence begins to differ
    shared = np.arange(1, length)
    groups = 1 + np.cumsum(np.bincount(first, minlength=length))[: length - 1]
    tokens = groups * shared + n * (length - shared)
    best = int(tokens.argmin())
    if tokens[best] > _WORTH_IT * n * length or n * (length - shared[best]) < _FEWEST_TOKENS * groups[best]:
        return None
    starts = np.flatnonzero(first < shared[best]) + 1
    return Groups(int(shared[best]), np.concatenate([[0], starts, [n]]))
