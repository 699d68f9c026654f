"""Batches on CUDA are filled up to a few sizes. Where their kernels run is in tests/export/test_placement.py."""

import pytest
from negengine.engine.inference.cuda import rounded_up


@pytest.mark.parametrize(
    ("n", "size"), [(1, 8), (5, 8), (6, 8), (7, 8), (8, 8), (9, 12), (12, 12), (13, 16), (17, 24), (25, 32), (900, 910)]
)
def test_sizes_are_powers_of_two_or_half_as_much_again_from_8_on(n, size):
    """1 to 6 sentences used to be filled up to 6."""
    assert rounded_up(n, 910) == size


def test_a_size_is_never_above_a_full_batch():
    assert rounded_up(3, 5) == 5


def test_there_are_15_sizes_up_to_1024_and_at_most_a_third_is_wasted():
    sizes = {n: rounded_up(n, 1024) for n in range(1, 1025)}
    assert len(set(sizes.values())) == 15
    assert all(size - n <= size / 3 for n, size in sizes.items() if n > 8)
