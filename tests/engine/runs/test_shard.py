"""Shards divide a run completely, and their names are read as they are written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from negengine.engine.errors import InputError
from negengine.engine.runs.shard import Shard


@given(st.integers(0, 60), st.integers(1, 9))
def test_every_part_belongs_to_one_shard(n, count):
    shards = [Shard(index, count) for index in range(1, count + 1)]
    assert sorted(part for shard in shards for part in shard.parts(n)) == list(range(n))


def test_a_shard_has_every_count_th_part():
    assert list(Shard(2, 3).parts(9)) == [1, 4, 7]
    assert list(Shard(3, 3).parts(2)) == []


def test_the_whole_run_is_one_shard_of_one():
    assert Shard() == Shard(1, 1)
    assert Shard().is_whole
    assert not Shard(1, 2).is_whole


def test_a_shard_names_its_folder_and_the_whole_run_does_not():
    assert Shard(2, 3).suffix == "-2-of-3"
    assert Shard().suffix == ""


@pytest.mark.parametrize("shard", [Shard(), Shard(1, 2), Shard(999_999_999, 999_999_999)])
def test_a_shard_is_read_as_it_is_written(shard):
    assert Shard.parse(str(shard)) == shard


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a/b",
        "-1/2",
        "0/2",
        "3/2",
        "0/0",
        "1/0",
        "1",
        "1/",
        "/2",
        "1/2/3",
        " 1/2",
        "1/2\n",
        "+1/2",
        "1/1000000000",
        "١/٢",
    ],
)
def test_what_is_not_a_shard_is_refused(text):
    with pytest.raises(InputError, match="must be I/N with I from 1 to N, such as 1/4"):
        Shard.parse(text)
