"""Random samples of the rows of a run."""

import polars as pl
import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.library.sentences import drawn

ROWS = pl.LazyFrame({"item": range(1000)})
TWICE = pl.concat([ROWS.with_columns(condition=pl.lit(condition)) for condition in "ab"])


def test_a_sample_has_rows_of_the_table_in_their_order_by_the_seed():
    found = drawn(ROWS, 20, 3).collect()
    assert found["item"].is_sorted()
    assert found["item"].n_unique() == 20
    assert found.equals(drawn(ROWS, 20, 3).collect())
    assert not found.equals(drawn(ROWS, 20, 4).collect())
    assert {item for seed in range(200) for item in drawn(ROWS.head(20), 5, seed).collect()["item"]} == set(range(20))
    assert drawn(ROWS, 2000, 0).collect().equals(ROWS.collect())


def test_items_of_several_conditions_are_drawn_one_by_one():
    found = drawn(TWICE, 300, 3).collect()
    assert len(found) == 300
    assert not found.is_duplicated().any()
    assert found.join(TWICE.collect(), on=["item", "condition"], how="semi").equals(found)
    assert 100 < len(found.filter(condition="a")) < 200


@pytest.mark.parametrize(("n", "seed", "message"), [(0, 0, "a sample of 0"), (1, -1, "seed -1")])
def test_an_impossible_sample_is_refused(n, seed, message):
    with pytest.raises(InputError, match=message):
        drawn(ROWS, n, seed)
