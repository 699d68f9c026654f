"""The order of a column is that of a plain sort, whatever its values have in common."""

import math

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as some
from negengine.engine.results.view import order
from negengine.engine.results.view.order import NUMBER, Order

TEXTS = some.text("ab\0é☃", max_size=18) | some.sampled_from(["a" * 7, "a" * 8, "a" * 61 + "b", "a" * 61 + "a"])
NUMBERS = some.sampled_from([0.5, -0.5, math.inf, -math.inf, 3.0])
KINDS = {
    pl.String: TEXTS,
    pl.Int64: some.integers(2**53, 2**53 + 3) | some.integers(-2, 2),
    pl.Float32: NUMBERS,
}


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("most", [3, 2**18])
@pytest.mark.parametrize("few", [0, 2**16])
@given(data=some.data(), descending=some.booleans())
def test_each_part_of_the_order_is_that_of_a_plain_sort(kind, most, few, data, descending):
    values = data.draw(some.lists(some.none() | KINDS[kind], min_size=1, max_size=40))
    rows = pl.DataFrame({"value": pl.Series(values, dtype=kind)}).with_row_index(NUMBER)
    wanted = rows[NUMBER].sample(fraction=0.8, seed=0).sort() if len(rows) > 1 else rows[NUMBER]
    known = [(number, value) for number, value in rows.rows() if number in set(wanted)]
    full = [own for own in known if own[1] is not None]
    full.sort(key=lambda own: own[1].encode() if isinstance(own[1], str) else own[1], reverse=descending)
    plain = [number for number, _ in full + [own for own in known if own[1] is None]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(order, "_MANY", most)
        patch.setattr(order, "_FEW", few)
        asked = rows.lazy().filter(pl.col(NUMBER).is_in(wanted.implode()))
        found = Order.of(asked, pl.col("value"), descending=descending)
        start = data.draw(some.integers(0, len(plain) - 1))
        count = data.draw(some.integers(1, len(plain) - start))
        assert found.part(start, count).to_list() == plain[start : start + count]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("descending", [True, False])
def test_equal_values_of_many_rows_keep_their_order(kind, descending):
    values = pl.Series([number * number % 7 for number in range(300_000)]).cast(kind)
    rows = pl.DataFrame({"value": values}).with_row_index(NUMBER)
    found = Order.of(rows.lazy(), pl.col("value"), descending=descending).part(0, len(rows))
    assert found.to_list() == sorted(range(len(rows)), key=values.to_list().__getitem__, reverse=descending)
