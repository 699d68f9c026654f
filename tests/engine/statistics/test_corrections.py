"""Corrections against hand-derived cases."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from negengine.engine.statistics import holm


def test_holm_of_hand_made_values():
    # Ascending 0.01, 0.03, 0.04 times 3, 2, 1: 0.03, 0.06, 0.04, and the last may not be below the one before.
    assert holm(np.array([0.04, 0.01, 0.03])) == pytest.approx([0.06, 0.03, 0.06])


@given(arrays(float, st.integers(1, 12), elements=st.floats(0, 1)))
def test_holm_keeps_the_order_and_raises_every_value(p):
    adjusted = holm(p)
    assert (adjusted >= p).all()
    assert (adjusted <= 1).all()
    assert (np.diff(adjusted[np.argsort(p, kind="stable")]) >= 0).all()
