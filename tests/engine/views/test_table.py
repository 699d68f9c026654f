import polars as pl
import pytest
from negengine.engine.views import Column, Table

FRAME = pl.DataFrame({"drop": [1.25], "digits": [1], "paper": [2e6], "printed": ["2 M"]})


@pytest.mark.parametrize(
    "wrong",
    [
        {"columns": [Column("drop", "lost")]},
        {"columns": [Column("drop", "drop", spread="lost")]},
        {"columns": [Column("drop", "drop", approximate="lost")]},
        {"columns": [Column("drop", "drop", decimals="lost")]},
        {"columns": [], "section": "lost"},
        {"columns": [], "texts": {"drop": "lost"}},
        {"columns": [], "texts": {"lost": "printed"}},
    ],
)
def test_a_column_that_the_frame_does_not_have_is_refused(wrong):
    with pytest.raises(ValueError, match="no column 'lost'"):
        Table("Drops", FRAME, **wrong)


def test_what_only_says_how_others_are_shown_is_not_among_the_figures():
    columns = [Column("drop", "drop", decimals="digits"), Column("paper", "paper")]
    assert Table("Drops", FRAME, columns, texts={"paper": "printed"}).figures.columns == ["drop", "paper"]


def test_a_notebook_shows_html():
    assert "<td" in Table("Drops", FRAME, [Column("drop", "drop", decimals=1)])._repr_html_()


def test_a_table_prints_itself():
    assert "│  1.2 │" in str(Table("Drops", FRAME, [Column("drop", "drop", decimals=1)]))
