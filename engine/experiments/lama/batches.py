"""Queries in batches: the largest that are possible, as sentences of several lengths do not fit into one.

A query and its negation belong together, since their logits are correlated and too many to keep. But a negation is
longer by one or two tokens. So a batch has queries of one length, sorted by the length of their negations. One core
runs the queries at once, and then the negations of each length.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...inference.model import LanguageModel
from .items import Ids


@dataclass(frozen=True, eq=False)
class Asked:
    """Facts that are asked alike, in any conditions: by one query each, or by a query and its negation.

    Attributes:
        conditions: For each fact, such as `original`.
        rows: Which facts.
        queries: A text for each; then, if they are asked by two, a negation for each.
        encoded: For each of `queries`, token ids and the position of the mask.
    """

    conditions: tuple[str, ...]
    rows: tuple[int, ...]
    queries: tuple[tuple[str, ...], ...]
    encoded: tuple[list[tuple[Ids, int]], ...]


@dataclass(frozen=True, eq=False)
class Batch:
    """What one core runs.

    Attributes:
        asked: Whose queries.
        group: The position of `asked` among those of its part.
        rows: int64 [n], which queries of it; they have the same number of tokens.
        alike: Slices of `rows` whose negations have the same number of tokens; one for all where there are none.
    """

    asked: Asked
    group: int
    rows: NDArray[np.int64]
    alike: tuple[slice, ...]

    @property
    def sentences(self) -> list[tuple[Ids, Ids]]:
        """Token ids and positions of the masks: of the queries, then of the negations of each slice."""
        first, *negations = self.asked.encoded
        parts = [self.rows[part] for part in self.alike]
        return [_stacked(first, self.rows), *(_stacked(side, rows) for side in negations for rows in parts)]


def batches(model: LanguageModel, asked: Sequence[Asked], most: int) -> list[Batch]:
    """All queries of a part in batches, the largest first: so the cores end together.

    Args:
        model: The model.
        asked: The queries.
        most: The largest number of queries in a batch.
    """
    groups = [(number, length, rows) for number, own in enumerate(asked) for length, rows in _by_length(own)]
    divided = model.divide_together([(len(rows), length) for _, length, rows in groups])
    found = [
        (length, Batch(asked[number], number, some, _alike(asked[number], some)))
        for (number, length, rows), parts in zip(groups, divided, strict=True)
        for part in parts
        for some in np.split(rows[part], range(most, len(rows[part]), most))
    ]
    found.sort(key=lambda own: -own[0] * len(own[1].rows) * len(own[1].asked.queries))
    return [batch for _, batch in found]


def _by_length(asked: Asked) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Number of tokens of a query → which queries have it, int64 [n], sorted by the length of their negations."""
    own, last = _lengths(asked.encoded[0]), _lengths(asked.encoded[-1])
    for length in np.unique(own).tolist():
        rows = np.flatnonzero(own == length)
        yield length, rows[np.argsort(last[rows], kind="stable")]


def _alike(asked: Asked, rows: NDArray[np.int64]) -> tuple[slice, ...]:
    """The slices of sorted rows whose negations have the same number of tokens."""
    bounds = np.flatnonzero(np.diff(_lengths(asked.encoded[-1])[rows])) + 1
    return tuple(slice(int(a), int(b)) for a, b in zip([0, *bounds], [*bounds, len(rows)], strict=True))


def _lengths(side: Sequence[tuple[Ids, int]]) -> NDArray[np.int64]:
    return np.array([len(ids) for ids, _ in side], np.int64)


def _stacked(side: Sequence[tuple[Ids, int]], rows: NDArray[np.int64]) -> tuple[Ids, Ids]:
    """Sentences of one length as a model takes them."""
    return np.stack([side[row][0] for row in rows]), np.array([side[row][1] for row in rows], np.int32)
