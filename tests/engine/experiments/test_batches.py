"""Questions in batches: first texts of one length, as many as there can be, with their second texts."""

import numpy as np
from negengine.engine.experiments.ask import batches
from negengine.engine.inference.model import MaskedLM


def encoded(*sides):
    """Questions whose first, then second texts have so many tokens; each text holds its own number."""
    texts = [[(np.full(n, row, np.int32), n - 2) for row, n in enumerate(lengths)] for lengths in sides]
    return [list(own) for own in zip(*texts, strict=True)]


def test_first_texts_of_one_length_are_together_whatever_their_second_ones(mini):
    model = MaskedLM(mini, threads=1)
    asked = encoded([9] * 6, [10, 11, 10, 12, 10, 11])
    (batch,) = batches(model, asked, most=100)
    assert batch.rows.tolist() == [0, 2, 4, 1, 5, 3]
    assert batch.alike == (slice(0, 3), slice(3, 5), slice(5, 6))
    sentences = batch.sentences(asked)
    assert [ids.shape for ids, _ in sentences] == [(6, 9), (3, 10), (2, 11), (1, 12)]
    assert [ids[:, 0].tolist() for ids, _ in sentences[1:]] == [[0, 2, 4], [1, 5], [3]]
    assert [positions.tolist() for _, positions in sentences] == [[7] * 6, [8] * 3, [9] * 2, [10]]
    # The largest batches come first, and hold every question once.
    asked = [*encoded([5] * 40 + [9] * 40, [6] * 80), *encoded([9] * 100 + [7])]
    found = batches(model, asked, most=30)
    assert max(len(batch.rows) for batch in found) <= 30
    assert (found[0].sides, found[-1].rows.tolist()) == (2, [180])
    assert sorted(row for batch in found for row in batch.rows.tolist()) == list(range(181))
    assert [ids.shape[1] for ids, _ in found[-1].sentences(asked)] == [7]
