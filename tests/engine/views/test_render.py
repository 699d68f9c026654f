import csv
import io
import json

import polars as pl
import pytest
from negengine.engine.basics.choices import output_formats
from negengine.engine.views import Column, Table
from negengine.engine.views.formats import render
from negengine.engine.views.html import to_html
from negengine.engine.views.to_csv import flat

FRAME = pl.DataFrame(
    {
        "pattern": ["CpTn", "CnTp", "CnTn"],
        "drop": [0.832, 0.978, None],
        "low": [0.809, 0.967, None],
        "high": [0.854, 0.986, None],
        "published": [0.447, None, 0.097],
        "n": [1200, 1200, 0],
        "role": ["forbidden", "forbidden", "control"],
    }
)
COLUMNS = [
    Column("pattern", "pattern"),
    Column("drop", "drop", beside="published", decimals=1, scale=100, unit="percentage points"),
    Column("95 % interval", low="low", high="high", decimals=1, scale=100),
    Column("triplets", "n"),
]
DROPS = Table("Drops: mini", FRAME, COLUMNS, section="role", notes=["in brackets: the paper"])
WORDS = Table("Words", pl.DataFrame({"word": ["[/b] a|b, c"], "drop": ["none"]}), [Column("[word]", "word")])


# ---------------------------------------------------------------- for people


def test_a_terminal_shows_title_columns_sections_and_notes():
    assert render([DROPS], "table") == (
        "Drops: mini\n"
        "┏━━━━━━━━━┳━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━┳━━━━━━━━━━┓\n"
        "┃ pattern ┃        drop ┃ 95 % interval ┃ triplets ┃\n"
        "┡━━━━━━━━━╇━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━╇━━━━━━━━━━┩\n"
        "│ CpTn    │ 83.2 (44.7) │  80.9 to 85.4 │    1,200 │\n"
        "│ CnTp    │        97.8 │  96.7 to 98.6 │    1,200 │\n"
        "├─────────┼─────────────┼───────────────┼──────────┤\n"
        "│ CnTn    │       (9.7) │               │        0 │\n"
        "└─────────┴─────────────┴───────────────┴──────────┘\n"
        "in brackets: the paper\n"
    )


def test_a_terminal_shows_markup_and_emoji_codes_as_they_are():
    text = "[/b] [red]x[/red] [unused1] :smile:"
    table = Table(text, pl.DataFrame({"word": [text]}), [Column(text, "word")], notes=[text])
    assert render([table], "table").count(text) == 4


def test_no_format_for_people_holds_what_a_terminal_obeys():
    text = "\x1b[31m\x9b\x07"
    table = Table(text, pl.DataFrame({"word": [text]}), [Column(text, "word")], notes=[text])
    for form in ("table", "markdown", "latex"):
        assert not {"\x1b", "\x9b", "\x07"} & set(render([table], form))
    assert not {"\x1b", "\x9b", "\x07"} & set(to_html([table]))


def test_the_figures_of_a_cell_stand_below_each_other_where_the_table_is_too_wide():
    """They are never broken inside an interval, or between `p =` and its number."""
    frame = pl.DataFrame(
        {"n": ["1", "2"], "drop": [18.3, -2.0], "low": [12.0, -4.0], "high": [24.9, 0.1], "p": [0.2, 0]}
    )
    columns = [
        Column("n", "n"),
        *(Column(f"rank {i}", "drop", low="low", high="high", p="p", decimals=1) for i in (1, 2)),
    ]
    wide, narrow = (render([Table("t", frame, columns)], "table", width=width) for width in (80, 40))
    assert "│ 18.3 [12.0, 24.9] p = 0.200 │" in wide
    assert narrow.partition("\n")[2] == (
        "┏━━━┳━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━┓\n"
        "┃ n ┃       rank 1 ┃       rank 2 ┃\n"
        "┡━━━╇━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━┩\n"
        "│ 1 │         18.3 │         18.3 │\n"
        "│   │ [12.0, 24.9] │ [12.0, 24.9] │\n"
        "│   │    p = 0.200 │    p = 0.200 │\n"
        "├───┼──────────────┼──────────────┤\n"
        "│ 2 │         -2.0 │         -2.0 │\n"
        "│   │  [-4.0, 0.1] │  [-4.0, 0.1] │\n"
        "│   │    p < 0.001 │    p < 0.001 │\n"
        "└───┴──────────────┴──────────────┘\n"
    )


def test_a_table_that_is_too_wide_is_drawn_in_pieces_that_begin_with_the_names_of_its_rows():
    frame = pl.DataFrame({"system": ["ours", "theirs"], "speed": [1000, 20], "memory": [1.5, 2.5]})
    columns = [Column("system", "system"), Column("speed", "speed"), Column("memory", "memory", decimals=1)]
    assert render([Table("Systems", frame, columns)], "table", width=24) == (
        "Systems\n"
        "┏━━━━━━━━┳━━━━━━━┓\n"
        "┃ system ┃ speed ┃\n"
        "┡━━━━━━━━╇━━━━━━━┩\n"
        "│ ours   │ 1,000 │\n"
        "│ theirs │    20 │\n"
        "└────────┴───────┘\n"
        "┏━━━━━━━━┳━━━━━━━━┓\n"
        "┃ system ┃ memory ┃\n"
        "┡━━━━━━━━╇━━━━━━━━┩\n"
        "│ ours   │    1.5 │\n"
        "│ theirs │    2.5 │\n"
        "└────────┴────────┘\n"
    )


@pytest.mark.parametrize("width", range(40, 120, 7))
def test_no_table_is_wider_than_the_terminal_and_no_figure_is_cut(width):
    """Texts are broken before figures are; a column of words beside others gets what they leave."""
    frame = pl.DataFrame(
        {
            "name": ["a name that is not broken"] * 2,
            "text": ["several words that a narrow terminal breaks", "others"],
            **{f"figure {i}": [1234567.25 * 10**i, 2.0] for i in range(5)},
        }
    )
    columns = [
        Column("name", "name", wrap=False),
        Column("text", "text"),
        *(Column(f"figure {i}", f"figure {i}", decimals=2) for i in range(5)),
    ]
    shown = render([Table("Wide", frame.with_row_index("number"), columns)], "table", width=width)
    assert max(map(len, shown.splitlines())) <= width
    for value in frame.select(pl.selectors.numeric()).row(0):
        assert f"{value:,.2f}" in shown


def test_bars_stand_at_the_left():
    frame = pl.DataFrame({"share": [0.25, 1.0], "bar": ["#", "####"]})
    table = Table("Shares", frame, [Column("share", "share", left=True)], texts={"share": "bar"})
    assert "│ #     │\n│ ####  │" in render([table], "table")


def test_markdown_is_a_pipe_table():
    assert render([DROPS], "markdown") == (
        "**Drops: mini**\n"
        "\n"
        "| pattern   |   drop (percentage points) |   95 % interval |   triplets |\n"
        "|:----------|---------------------------:|----------------:|-----------:|\n"
        "| CpTn      |                83.2 (44.7) |    80.9 to 85.4 |      1,200 |\n"
        "| CnTp      |                       97.8 |    96.7 to 98.6 |      1,200 |\n"
        "| CnTn      |                      (9.7) |                 |          0 |\n"
        "\n"
        "in brackets: the paper\n"
    )


def test_markdown_escapes_what_would_be_read_as_markup():
    assert r"| \[/b\] a\|b, c |" in render([WORDS], "markdown")


def test_html_escapes_everything():
    text = '<script>&"'
    shown = to_html([Table(text, pl.DataFrame({"word": [text]}), [Column(text, "word")], notes=[text])])
    assert "<script>" not in shown
    assert shown.count("&lt;script&gt;&amp;&quot;") == 4


# ---------------------------------------------------------------- for machines


def test_json_has_the_figures_in_full_with_their_units():
    (table,) = json.loads(render([DROPS], "json"))
    assert table["title"] == "Drops: mini"
    assert table["units"] == {"drop": "fraction", "published": "fraction"}
    assert table["rows"] == FRAME.to_dicts()
    assert table["notes"] == ["in brackets: the paper"]


def test_json_has_null_for_what_is_not_finite():
    table = Table("t", pl.DataFrame({"x": [float("nan")], "list": [[float("inf"), 1.0]]}), [])
    assert json.loads(render([table], "json"))[0]["rows"] == [{"x": None, "list": [None, 1.0]}]


def test_csv_of_one_table_is_its_frame():
    assert pl.read_csv(io.StringIO(render([DROPS], "csv"))).equals(FRAME)


def test_csv_of_several_tables_is_one_rectangle_with_their_titles():
    rows = list(csv.DictReader(io.StringIO(render([DROPS, WORDS], "csv"))))
    assert [row["table"] for row in rows] == ["Drops: mini"] * 3 + ["Words"]
    assert (rows[0]["drop"], rows[0]["published"], rows[0]["word"]) == ("0.832", "0.447", "")
    assert (rows[3]["drop"], rows[3]["published"], rows[3]["word"]) == ("none", "", "[/b] a|b, c")


def test_nested_columns_are_written_as_csv():
    frame = pl.DataFrame({"n": [1], "top": [["a", 'b"']], "in": [{"x": {"y": 2, "z": [1.5]}}], "none": [None]})
    shown = flat(frame.with_columns(pl.col("none").cast(pl.List(pl.String))))
    assert shown.to_dicts() == [{"n": 1, "top": '["a", "b\\""]', "in.x.y": 2, "in.x.z": "[1.5]", "none": None}]
    assert shown.write_csv()


def test_what_only_says_how_others_are_shown_is_not_written():
    frame = pl.DataFrame({"x": [1900000.0], "digits": [0], "printed": ["1.9 M"]})
    table = Table("t", frame, [Column("x", "x", decimals="digits")], texts={"x": "printed"})
    assert render([table], "csv") == "x\n1900000.0\n"
    assert "1.9 M" in render([table], "table")


@pytest.mark.parametrize("form", ["table", "csv", "markdown", "latex"])
def test_without_tables_there_is_no_text(form):
    assert render([], form) == ""


@pytest.mark.parametrize("form", output_formats())
def test_an_empty_table_can_be_written(form):
    assert render([Table("t", FRAME.clear(), COLUMNS)], form).endswith("\n")


def test_a_terminal_says_below_the_table_what_is_the_same_in_all_rows():
    frame = pl.DataFrame({"corpus": ["SQuAD"] * 2, "split": ["a", "b"], "rate": [0.5, 0.5], "n": [12, 12]})
    shown = [Column("corpus", "corpus"), Column("split", "split"), Column("rate", "rate", decimals=1), Column("n", "n")]
    lines = render([Table("Rates", frame, shown)], "table").splitlines()
    assert lines[2].replace("┃", " ").split() == ["split", "rate"]
    assert lines[-1] == "corpus: SQuAD, n: 12"
    assert "corpus" in render([Table("Rates", frame, shown)], "markdown").splitlines()[2]


def test_words_of_headings_are_never_broken():
    frame = pl.DataFrame({"text": ["a long text of many words " * 9, "b"], "figure": [1.5, 2.5]})
    shown = [Column("text", "text"), Column("repetition rate", "figure", decimals=1)]
    assert "repetition" in render([Table("Narrow", frame, shown)], "table", width=30)


@pytest.mark.parametrize("rows", [1, 2])
def test_a_single_row_and_equal_rows_keep_a_column(rows):
    table = Table("One", pl.DataFrame({"split": ["a"] * rows}), [Column("split", "split")])
    assert render([table], "table").splitlines()[2].replace("┃", " ").split() == ["split"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"columns": [Column("drop", "drop", spread="lost")]},
        {"columns": [Column("drop", "drop", decimals="lost")]},
        {"columns": [], "section": "lost"},
        {"columns": [], "texts": {"drop": "lost"}},
        {"columns": [], "texts": {"lost": "drop"}},
    ],
)
def test_a_column_that_the_frame_does_not_have_is_refused(wrong):
    with pytest.raises(ValueError, match="no column 'lost'"):
        Table("Drops", FRAME, **wrong)


def test_a_table_prints_itself_and_a_notebook_shows_html():
    assert "│ 83.2 (44.7) │" in str(DROPS)
    assert DROPS._repr_html_().count("<tbody>") == 2
    assert '<td style="text-align: right">83.2 (44.7)</td>' in DROPS._repr_html_()
