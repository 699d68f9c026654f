"""Parts as ranges."""

from hypothesis import given
from hypothesis import strategies as st
from negengine.engine.runs.stage import part_ranges


@given(st.integers(0, 100), st.integers(1, 20))
def test_ranges_hold_every_number_once_and_only_the_last_is_short(n, size):
    parts = part_ranges(n, size)
    assert [number for part in parts for number in part] == list(range(n))
    assert all(len(part) == size for part in parts[:-1])
    assert all(0 < len(part) <= size for part in parts)
