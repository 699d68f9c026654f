import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from negengine.engine.basics.frames import no_negative_zero
from negengine.engine.basics.numerals import fixed, percent, significant
from negengine.engine.views import Column, Table
from negengine.engine.views.formats import render

LIMITS = (-100, 0, 0.05, 50, 100)


@given(st.floats(-200, 200), st.integers(0, 3))
def test_a_text_is_on_the_side_of_its_number_and_a_zero_has_no_sign(value, decimals):
    for text in (fixed(value, decimals, LIMITS), significant(value, decimals + 1, LIMITS)):
        read = float(text)
        assert not text.startswith("-0") or read
        for limit in LIMITS:
            if abs(value - limit) > 1e-5:
                assert (read < limit, read > limit) == (value < limit, value > limit)


@pytest.mark.parametrize(
    ("told", "right"),
    [
        (percent(0.9996), "99.96"), (percent(1), "100.0"), (percent(0.0004), "0.04"), (percent(0.93754), "93.8"),
        (significant(0.0498, 2), "0.0498"), (significant(0.05, 2), "0.05"), (significant(1.4e-5, 2), "1.4e-05"),
        (significant(100, 2), "100"), (significant(99.7, 2, (100,)), "99.7"), (significant(1234.5, 2), "1,200"),
        (fixed(63.749999999999993, 1), "63.8"), (fixed(-0.04, 1), "0.0"), (fixed(0.04, 1, (0,), "+"), "+0.04"),
        (fixed(12345.6, 1), "12,345.6"), (fixed(99.999998, 1, (0, 100)), "99.999"), (fixed(2e-7, 1, (0, 100)), "0.001"),
    ],
)  # fmt: skip
def test_numbers_as_a_person_reads_them(told, right):
    assert told == right


def test_no_format_has_a_negative_zero_or_a_rate_of_100_that_is_less():
    frame = no_negative_zero(pl.DataFrame({"rate": [0.9996, -0.0], "gap": [-0.0, -1e-12], "p": [0.0498, 0.05]}))
    columns = [
        Column("rate", "rate", decimals=1, scale=100, unit="%"),
        Column("gap", "gap", decimals=1, signed=True),
        Column("p", "p", significant=2),
    ]
    table = Table("t", frame, columns)
    for form in ("table", "markdown", "latex", "html", "csv", "json"):
        text = render([table], form).replace("−", "-").replace("$-$", "-")
        assert "-0.0\n" not in text
        assert "-0.0 " not in text
        assert "-0.0," not in text
        if form not in {"csv", "json"}:
            assert "99.96" in text
            assert "0.0498" in text
