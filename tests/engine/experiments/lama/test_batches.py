"""Queries in batches: of one length, as large as they can be, with their negations."""

import numpy as np
import pytest
from negengine.engine.experiments.lama.batches import Asked, batches
from negengine.engine.inference.model import MaskedLM


@pytest.fixture(scope="module")
def model(mini):
    return MaskedLM(mini, threads=1)


def asked(*sides):
    """Facts whose queries, then their negations, have so many tokens; each sentence holds its own number."""
    encoded = tuple(
        [(np.full(length, row, np.int32), length - 2) for row, length in enumerate(lengths)] for lengths in sides
    )
    n = len(sides[0])
    texts = tuple(tuple(f"{side} {row}" for row in range(n)) for side in range(len(sides)))
    return Asked(("original",) * n, tuple(range(n)), texts, encoded)


def test_queries_of_one_length_are_together_whatever_their_negations(model):
    (batch,) = batches(model, [asked([9] * 6, [10, 11, 10, 12, 10, 11])], most=100)
    assert batch.rows.tolist() == [0, 2, 4, 1, 5, 3]
    assert batch.alike == (slice(0, 3), slice(3, 5), slice(5, 6))
    shapes = [ids.shape for ids, _ in batch.sentences]
    assert shapes == [(6, 9), (3, 10), (2, 11), (1, 12)]
    assert [ids[:, 0].tolist() for ids, _ in batch.sentences[1:]] == [[0, 2, 4], [1, 5], [3]]
    assert [positions.tolist() for _, positions in batch.sentences] == [[7] * 6, [8] * 3, [9] * 2, [10]]


def test_queries_without_negations_are_one_slice(model):
    (batch,) = batches(model, [asked([9, 9, 9])], most=100)
    assert batch.alike == (slice(0, 3),)
    assert [ids.shape for ids, _ in batch.sentences] == [(3, 9)]


def test_the_largest_batches_come_first_and_hold_every_query_once(model):
    groups = [asked([5] * 40 + [9] * 40, [6] * 80), asked([9] * 100 + [7])]
    found = batches(model, groups, most=30)
    sizes = [sum(ids.size for ids, _ in batch.sentences) for batch in found]
    assert max(len(batch.rows) for batch in found) <= 30
    assert found[0].group == 0
    assert sizes[-1] == 7
    for number, own in enumerate(groups):
        rows = np.concatenate([batch.rows for batch in found if batch.group == number])
        assert sorted(rows.tolist()) == list(range(len(own.rows)))
