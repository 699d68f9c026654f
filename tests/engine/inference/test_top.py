"""The highest tokens are those of a full stable sort."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from negengine.engine.inference.free_text import top_tokens


def reference(logits, k, excluded):
    """All tokens sorted by descending logit, then by ascending id."""
    return [[i for i in np.lexsort((range(len(row)), -row)) if i not in excluded][:k] for row in logits]


@given(
    arrays(np.float32, st.tuples(st.integers(1, 3), st.just(30)), elements=st.integers(0, 5)),
    st.integers(0, 28),
    st.sets(st.integers(0, 29), max_size=2),
)
def test_top_tokens_are_those_of_a_stable_sort(logits, k, excluded):
    """Few and many are found in two ways; the logits here have many ties."""
    before = logits.copy()
    assert top_tokens(logits, k, sorted(excluded)).tolist() == reference(logits, k, excluded)
    np.testing.assert_array_equal(logits, before)


def test_more_tokens_than_there_are_cannot_be_ranked():
    with pytest.raises(ValueError, match="29 tokens wanted, of 30 with 2 excluded"):
        top_tokens(np.zeros((1, 30), np.float32), 29, [3, 4])
