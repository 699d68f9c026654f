"""What a causal model reads: texts that begin alike are one tree, so that their beginnings are computed once.

The rows of a tree, one for each different beginning of its texts, lie in one line, in which a token sees those that it
continues (`export/passes/share_prefix.py`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..text.token_ids import rows_by_length
from .batches import INPUTS, Feeds, sentences_in

Ids = NDArray[np.int32]
Numbers = NDArray[np.int64]
# Of each question: the number of a text, the place in it before the token that is asked for, and that token.
Questions = tuple[Numbers, Numbers, Ids]
POSITIONS, BIAS = "position_ids", "attention_bias"  # inputs of the graph, beside the token ids
LONGEST_TREE = 1024  # tokens of a text; the bias of longer ones would need much memory
_HIDES = np.float32(-1e30)


@dataclass(frozen=True, eq=False)
class Run:
    """Texts that a graph reads in one run."""

    texts: Numbers  # [n], their numbers, ascending
    ids: Ids  # [n, L]; of a tree [1, N]
    row: Numbers  # [n, widest], where each token stands; undefined beyond the end of a text
    depth: Ids | None = None  # [N], of each token of a tree how many tokens it continues
    end: Numbers | None = None  # [N], and the last one that continues it

    def feeds(self) -> Feeds:
        if self.end is None or self.depth is None:
            nothing = np.zeros(len(self.ids), np.int32)
            return dict(zip(INPUTS, (self.ids, nothing, nothing), strict=True))
        place = np.arange(len(self.end))
        sees = (place <= place[:, None]) & (place[:, None] <= self.end)
        bias = np.where(sees, np.float32(0), _HIDES)[None, None]
        return {INPUTS[0]: self.ids, POSITIONS: self.depth[None], BIAS: bias}


def by_length(texts: Sequence[Ids], size: int) -> Iterator[Run]:
    """Texts in batches of one length and about so many tokens."""
    for same in rows_by_length(texts):
        count = sentences_in(size, length := len(texts[same[0]]))
        for start in range(0, len(same), count):
            some = same[start : start + count]
            yield Run(some, np.stack([texts[row] for row in some]), np.arange(len(some) * length).reshape(-1, length))


def trees(texts: Sequence[Ids], most: int) -> Iterator[Run]:
    """Texts that are all different, in ascending order, as trees of at most so many tokens, or of one longer text."""
    lengths = np.array([len(text) for text in texts])
    ids = np.full((len(texts), lengths.max()), -1, np.int32)
    ids[np.arange(ids.shape[1]) < lengths[:, None]] = np.concatenate(texts)
    shared = np.concatenate([[0], np.cumprod(ids[1:] == ids[:-1], axis=1).sum(axis=1)])
    start = size = 0
    for text, (length, common) in enumerate(zip(lengths.tolist(), shared.tolist(), strict=True)):
        if size and size + length - common > most:
            yield _tree(start, ids[start:text], lengths[start:text], shared[start:text])
            start, size = text, 0
        size += length - (common if size else 0)
    yield _tree(start, ids[start:], lengths[start:], shared[start:])


def _tree(start: int, ids: Ids, lengths: Numbers, shared: Numbers) -> Run:
    """One tree of texts, each with the number of tokens that it shares with the one before it."""
    depth, shared = np.arange(ids.shape[1]), np.append(0, shared[1:])
    stop = np.cumsum(lengths - shared)
    own = (depth >= shared[:, None]) & (depth < lengths[:, None])
    row = np.where(own, stop[:, None] - lengths[:, None] + depth, -1)
    row = np.maximum.accumulate(row, axis=0)  # rows of later texts are further behind, so a shared one is the latest
    end = np.zeros(stop[-1], np.int64)
    np.maximum.at(end, row[depth < lengths[:, None]], np.repeat(stop - 1, lengths))
    return Run(start + np.arange(len(ids)), ids[own][None], row, own.nonzero()[1].astype(np.int32), end)
