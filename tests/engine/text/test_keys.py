"""Keyed hashes: the same on every machine, and spread evenly."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from negengine.engine.basics.errors import InputError
from negengine.engine.text.keys import checked_seed, combine, string_keys


def test_a_key_is_the_same_on_every_machine_and_in_every_version():
    assert [hex(key) for key in string_keys(["smoke", "dance"], "seed 0")] == [
        "0x714173501914f1e",
        "0xe5c492543c3c294b",
    ]
    assert string_keys([], "k").shape == (0,)
    assert string_keys(["smoke"], "k" * 1000) != string_keys(["smoke"], "k" * 1001)  # longer than the hash allows


@given(st.lists(st.text(max_size=8), unique=True, min_size=1, max_size=20), st.randoms())
def test_every_string_has_one_key_of_its_own_whatever_stands_beside_it(strings, random):
    shuffled = random.sample(strings, len(strings))
    expected = dict(zip(strings, string_keys(strings, "k"), strict=True))
    assert dict(zip(shuffled, string_keys(shuffled, "k"), strict=True)) == expected
    assert len(set(expected.values())) == len(strings)
    assert not np.any(string_keys(strings, "k") == string_keys(strings, "l"))


def test_combining_a_zero_is_the_first_number_of_splitmix64(recwarn):
    assert combine(np.uint64(0)) == 0xE220A8397B1DCDAF  # the published test vector: splitmix64 seeded with 0
    assert combine(np.uint64(2**64 - 1), np.uint64(2**64 - 1)).shape == ()
    assert not recwarn.list


def test_a_seed_is_not_below_0():
    assert checked_seed(0) == 0
    with pytest.raises(InputError, match=r"^--seed -1: give a number from 0 to 9,223,372,036,854,775,807$"):
        checked_seed(-1)
