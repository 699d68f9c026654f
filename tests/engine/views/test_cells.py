import polars as pl
import pytest
from negengine.engine.views import Column, Table
from negengine.engine.views.cells import cells, with_unit

ROW = {
    "rate": 0.83247, "other": 0.447, "low": 0.809, "high": 0.854, "sd": 0.012, "p": 0.0123, "tiny": 1.4e-5,
    "count": 12345, "negative": -1.5, "digits": 0, "yes": True, "no": False, "word": "smoke",
    "list": ["smoke", "dance"], "null": None, "nan": float("nan"),
}  # fmt: skip
FRAME = pl.DataFrame([ROW], schema_overrides={"null": pl.Float64})


def cell(**fields) -> str:
    return cells(Table("t", FRAME, [Column("c", **fields)]))[0][0]


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({"value": "word"}, "smoke"),
        ({"value": "list"}, "smoke, dance"),
        ({"value": "yes"}, "✓"),
        ({"value": "no"}, "-"),
        ({"value": "count"}, "12,345"),
        ({"value": "rate", "decimals": 1, "scale": 100}, "83.2"),
        ({"value": "rate", "decimals": "digits", "scale": 100}, "83"),
        ({"value": "tiny", "significant": 2}, "1.4e-05"),
        ({"value": "rate", "decimals": 3, "signed": True}, "+0.832"),
        ({"value": "negative", "decimals": 1, "signed": True}, "-1.5"),
        ({"value": "rate", "beside": "other", "decimals": 1, "scale": 100}, "83.2 (44.7)"),
        ({"value": "rate", "low": "low", "high": "high", "decimals": 1, "scale": 100}, "83.2 [80.9, 85.4]"),
        ({"low": "low", "high": "high", "decimals": 1, "scale": 100}, "80.9 to 85.4"),
        (
            {"value": "rate", "low": "low", "high": "high", "decimals": 2, "interval": "({low} to {high})"},
            "0.83 (0.81 to 0.85)",
        ),
        ({"value": "rate", "p": "p", "decimals": 1}, "0.8 p = 0.012"),
        ({"value": "rate", "p": "tiny", "decimals": 1}, "0.8 p < 0.001"),
        ({"value": "rate", "spread": "sd", "decimals": 1, "scale": 100}, "83.2 ± 1.2"),
        ({"value": "count", "approximate": "yes"}, "≈ 12,345"),
    ],
)
def test_a_cell(fields, shown):
    assert cell(**fields) == shown


def test_what_is_not_known_is_left_out():
    for name in ("null", "nan"):
        assert cell(value=name, decimals=1, approximate="yes", suffix="%") == ""
        assert cell(value="rate", beside=name, decimals=1) == "0.8"
        assert cell(value="rate", low=name, high="high", decimals=1) == "0.8"


def test_a_text_stands_in_place_of_a_figure_where_there_is_one():
    frame = pl.DataFrame({"value": [0.5, 0.25], "text": ["about a half", None]})
    table = Table("t", frame, [Column("c", "value", beside="value", decimals=2)], texts={"value": "text"})
    assert cells(table) == [["about a half (about a half)"], ["0.25 (0.25)"]]


def test_a_heading_has_its_unit_once():
    for heading, shown in {"drop": "drop (%)", "repetition %": "repetition %", "": "(%)"}.items():
        assert with_unit(Column(heading, unit="%")) == shown
        assert with_unit(Column(heading, unit="%", suffix="%")) == heading  # it stands behind each figure
