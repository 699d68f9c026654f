import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from negengine.engine.basics.errors import InputError
from negengine.engine.text.keys import checked_seed, combine, string_keys

texts = st.lists(st.text(max_size=8), unique=True, min_size=1, max_size=20)


def test_a_key_is_the_same_on_every_machine_and_in_every_version():
    assert [hex(key) for key in string_keys(["smoke", "dance"], "seed 0")] == [
        "0x714173501914f1e",
        "0xe5c492543c3c294b",
    ]


@given(texts, st.randoms())
def test_a_string_has_its_key_whatever_stands_beside_it(strings, random):
    shuffled = random.sample(strings, len(strings))
    expected = dict(zip(strings, string_keys(strings, "k"), strict=True))
    assert dict(zip(shuffled, string_keys(shuffled, "k"), strict=True)) == expected


@given(texts)
def test_different_strings_have_different_keys(strings):
    assert len(np.unique(string_keys(strings, "k"))) == len(strings)


def test_another_key_gives_other_hashes():
    strings = [str(i) for i in range(1000)]
    assert not np.any(string_keys(strings, "seed 0") == string_keys(strings, "seed 1"))


def test_a_key_may_be_longer_than_the_hash_allows():
    assert string_keys(["smoke"], "k" * 1000) != string_keys(["smoke"], "k" * 1001)


def test_no_strings_give_no_keys():
    assert string_keys([], "k").shape == (0,)


def test_combine_broadcasts():
    names, verbs = string_keys(["Anna", "John"], "k"), string_keys(["smoke", "dance", "drink"], "k")
    table = combine(names[:, None], verbs)
    assert table.shape == (2, 3)
    assert table[1, 2] == combine(names[1:], verbs[2:])[0]


def test_combining_a_zero_is_the_first_number_of_splitmix64():
    # The published test vector: splitmix64 seeded with 0.
    assert combine(np.uint64(0)) == 0xE220A8397B1DCDAF


def test_combine_depends_on_the_order():
    a, b = string_keys(["a"], "k"), string_keys(["b"], "k")
    assert combine(a, b) != combine(b, a)


def test_combine_is_not_associative():
    a, b, c = (string_keys([letter], "k") for letter in "abc")
    assert combine(combine(a, b), c) != combine(a, b, c)


def test_combine_takes_single_values_without_a_warning(recwarn):
    assert combine(np.uint64(2**64 - 1), np.uint64(2**64 - 1)).shape == ()
    assert not recwarn.list


def test_combined_keys_are_spread_evenly():
    # 64 cells, 1000 expected in each; six standard deviations are 190.
    numbers = np.arange(64_000, dtype=np.uint64)
    counts = np.bincount(combine(numbers, np.uint64(7)) >> np.uint64(58), minlength=64)
    assert np.all(np.abs(counts - 1000) < 190)


def test_a_seed_is_not_below_0():
    assert checked_seed(0) == 0
    with pytest.raises(InputError, match=r"^--seed -1: give a number from 0 to 9,223,372,036,854,775,807$"):
        checked_seed(-1)
