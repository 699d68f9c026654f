"""Figures over all ranked tokens against SciPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from negengine.engine.statistics.rank_correlation import ascending, mean_ranks, spearman
from scipy import stats


@given(
    st.integers(2, 12).flatmap(
        lambda m: st.lists(
            st.tuples(*[st.lists(st.integers(-3, 3), min_size=m, max_size=m)] * 2), min_size=1, max_size=4
        )
    )
)
def test_rank_correlation_is_scipys(pairs):
    first, second = (np.array(side, np.float32) for side in zip(*pairs, strict=True))
    for one, other, found in zip(first, second, spearman(first, second), strict=True):
        if len(set(one.tolist())) == 1 or len(set(other.tolist())) == 1:
            assert np.isnan(found)
        else:
            assert found == pytest.approx(stats.spearmanr(one, other).statistic, abs=1e-9)


@given(st.lists(st.sampled_from([-1.5, -0.0, 0.0, 0.25, 3.0]), min_size=1, max_size=30))
def test_equal_values_have_the_mean_of_their_ranks(values):
    scores = np.array(values, np.float32)
    np.testing.assert_array_equal(mean_ranks(scores), stats.rankdata(scores))


@given(st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=50))
def test_values_are_sorted_as_numpy_sorts_them(values):
    scores = np.array(values, np.float32)
    np.testing.assert_array_equal(ascending(scores), np.argsort(scores, kind="stable"))
