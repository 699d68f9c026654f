import csv
import io
import json
import re
from dataclasses import replace

import negengine as ng
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from negengine.engine.basics.choices import output_formats
from negengine.engine.views import Column, Table
from negengine.engine.views.formats import render
from negengine.engine.views.table import INTERVAL, NO_INTERVAL, cells, with_unit
from negengine.engine.views.to_csv import flat, without_lists
from negengine.engine.views.to_latex import latex, to_latex

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


def test_people_see_title_columns_sections_and_notes():
    assert (
        str(DROPS) + "\n"
        == render([DROPS], "table")
        == (
            "Drops: mini\n"
            "┏━━━━━━━━━┳━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━┳━━━━━━━━━━┓\n"
            "┃         ┃        drop ┃               ┃          ┃\n"
            "┃         ┃ (percentage ┃               ┃          ┃\n"
            "┃ pattern ┃     points) ┃ 95 % interval ┃ triplets ┃\n"
            "┡━━━━━━━━━╇━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━╇━━━━━━━━━━┩\n"
            "│ CpTn    │ 83.2 (44.7) │  80.9 to 85.4 │    1,200 │\n"
            "│ CnTp    │        97.8 │  96.7 to 98.6 │    1,200 │\n"
            "├─────────┼─────────────┼───────────────┼──────────┤\n"
            "│ CnTn    │       (9.7) │               │        0 │\n"
            "└─────────┴─────────────┴───────────────┴──────────┘\n"
            "in brackets: the paper\n"
        )
    )
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
    assert DROPS._repr_html_().count("<tbody>") == 2
    assert '<td style="text-align: right">83.2 (44.7)</td>' in DROPS._repr_html_()


@pytest.mark.parametrize(
    ("form", "text", "shown"),
    [
        ("table", "[/b] [red]x[/red] [unused1] :smile:\x1b", r"[/b] [red]x[/red] [unused1] :smile:\x1b"),
        ("markdown", "[/b] a|b\x1b\x9b\x07", r"\[/b\] a\|b\\x1b\\x9b\\x07"),
        ("latex", "a&b\x1b\x9b\x07", r"a\&b\textbackslash{}x1b\textbackslash{}x9b\textbackslash{}x07"),
        ("html", '<script>&"−\x1b\x9b\x07', r"&lt;script&gt;&amp;&quot;&#8722;\x1b\x9b\x07"),  # a page in ASCII
    ],
)
def test_titles_headings_cells_and_notes_are_shown_as_they_are_and_never_obeyed(form, text, shown):
    table = Table(text, pl.DataFrame({"word": [text]}), [Column(text, "word")], notes=[text])
    found = render([table], form)
    assert found.count(shown) == 4
    assert not {"\x1b", "\x9b", "\x07"} & set(found)


def test_a_table_that_is_too_wide_is_drawn_in_pieces_that_begin_with_the_names_of_its_rows():
    frame = pl.DataFrame({"system": ["ours", "theirs"], "drop": [18.3, 2], "low": [12, 1], "high": [24.9, 3], "p": 0.2})
    cell = {"value": "drop", "low": "low", "high": "high", "p": "p", "decimals": 1}
    table = Table("Systems", frame, [Column("system", "system"), Column("A", **cell), Column("B", **cell)])
    for width, pieces in ((80, 1), (60, 2)):
        lines = render([table], "table", width=width).splitlines()
        (ours,) = {line.strip("│ ") for line in lines if "ours" in line}
        assert [own.strip() for own in ours.split("│")] == ["ours", *["18.3 [12.0, 24.9] p = 0.200"] * (3 - pieces)]
        assert sum("ours" in line for line in lines) == pieces


def test_no_table_is_wider_than_the_terminal_and_no_figure_or_heading_is_cut():
    """Texts are broken before figures are; a column of words beside others gets what they leave."""
    figures = {f"figure {i}": [1234567.25 * 10**i, 2.0] for i in range(5)}
    texts = ["several words that a narrow terminal breaks", "others"]
    frame = pl.DataFrame({"name": ["a name that is not broken"] * 2, "text": texts, **figures})
    columns = [
        Column("name", "name", wrap=False),
        Column("text", "text"),
        *(Column(f"repetition rate {i}", name, decimals=2, wrap=i % 2 > 0) for i, name in enumerate(figures)),
    ]
    tables = [Table("Wide", frame.with_row_index("number"), columns), Table("Small", frame[["name"]], columns[:1])]
    for width in range(40, 120, 7):
        shown = render(tables, "table", width=width)
        assert len({len(line) for line in shown.splitlines() if "┓" in line}) <= 2  # the pieces of one, and all others
        assert max(map(len, shown.splitlines())) <= width
        assert all(f"{value:,.2f}" in shown for values in figures.values() for value in values)
        assert shown.count("repetition") == shown.count("rate") == 5


def test_json_and_csv_have_the_figures_in_full_in_one_rectangle():
    assert json.loads(render([DROPS], "json")) == [
        {
            "title": "Drops: mini",
            "units": {"drop": "fraction", "published": "fraction"},
            "rows": FRAME.to_dicts(),
            "notes": ["in brackets: the paper"],
        }
    ]
    table = Table("t", pl.DataFrame({"x": [float("nan")], "list": [[float("inf"), 1.0]]}), [])
    assert json.loads(render([table], "json"))[0]["rows"] == [{"x": None, "list": [None, 1.0]}]
    assert pl.read_csv(io.StringIO(render([DROPS], "csv"))).equals(FRAME)

    first, *_, last = csv.DictReader(io.StringIO(render([DROPS, WORDS], "csv")))
    assert [first[name] for name in ("table", "drop", "published", "word")] == ["Drops: mini", "0.832", "0.447", ""]
    assert [last[name] for name in ("table", "drop", "published", "word")] == ["Words", "none", "", "[/b] a|b, c"]

    frame = pl.DataFrame({"n": [1], "top": [["a", 'b"']], "in": [{"x": {"y": 2, "z": [1.5]}}], "none": [None]})
    shown = flat(frame.with_columns(pl.col("none").cast(pl.List(pl.String))))
    assert shown.to_dicts() == [{"n": 1, "top": '["a", "b\\""]', "in.x.y": 2, "in.x.z": "[1.5]", "none": None}]


def test_an_empty_table_can_be_written_and_without_tables_there_is_no_text():
    for form in output_formats():
        assert render([Table("t", FRAME.clear(), COLUMNS)], form).endswith("\n")
        assert render([], form).strip() == ("[]" if form == "json" else "")


@pytest.mark.parametrize("form", [form for form in output_formats() if form != "csv"])
def test_a_value_without_an_interval_is_explained_below_its_table(form):
    """Not so where nothing stands in the cell, or where the interval is another column's. No interval is promised."""
    rate = Column("rate", "drop", low="low", high="high")
    assert Table("Rates", FRAME, [rate]).told == [INTERVAL]
    none, some = FRAME.with_columns(low=None, high=None), FRAME.with_columns(low=pl.col("low").replace(0.809, None))
    for frame, said in ((none, ["one", NO_INTERVAL]), (some, [INTERVAL, "one", NO_INTERVAL])):
        told = replace(Table("Rates", FRAME, [rate], notes=["one"]), frame=frame)
        assert told.told == said
        assert [line in render([told], form) for line in (INTERVAL[:20], NO_INTERVAL[:30])] == [INTERVAL in said, True]
        assert not Table("Rates", frame, COLUMNS).told


def test_a_terminal_says_below_the_table_what_is_the_same_in_all_rows():
    frame = pl.DataFrame({"corpus": ["SQuAD"] * 2, "split": ["a", "b"], "rate": [0.5, 0.5], "n": [12, 12]})
    shown = [Column(name, name) for name in frame.columns]

    def headings(frame, shown):
        return render([Table("Rates", frame, shown)], "table").splitlines()[2].replace("┃", " ").split()

    assert headings(frame, shown) == ["split", "rate"]
    assert render([Table("Rates", frame, shown)], "table").splitlines()[-1] == "corpus: SQuAD, n: 12"
    assert "corpus" in render([Table("Rates", frame, shown)], "markdown").splitlines()[2]
    assert headings(frame[:1], shown) == ["corpus", "split", "rate", "n"]  # of a single row
    assert headings(frame, shown[:1]) == ["corpus"]  # the only column


def test_a_column_that_the_frame_does_not_have_is_refused():
    digits = Column("drop", "drop", decimals="lost")
    for wrong in ({"columns": [digits]}, {"section": "lost"}, {"texts": {"drop": "lost"}}):
        with pytest.raises(ValueError, match="no column 'lost'"):
            Table("Drops", FRAME, **{"columns": [], **wrong})


ROW = {
    "rate": 0.83247, "other": 0.447, "low": 0.809, "high": 0.854, "sd": 0.012, "p": 0.0123, "tiny": 1.4e-5,
    "count": 12345, "negative": -1.5, "digits": 0, "yes": True, "no": False, "word": "smoke",
    "list": ["smoke", "dance"], "null": None, "nan": float("nan"), "rounded": 0.15 - 0.7875,  # -63.749999999999993 %
}  # fmt: skip
FIGURES = pl.DataFrame([ROW], schema_overrides={"null": pl.Float64})


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
        ({"value": "rounded", "decimals": 1, "scale": 100}, "-63.8"),
        ({"value": "negative", "decimals": 1, "signed": True}, "-1.5"),
        ({"value": "rate", "beside": "other", "decimals": 1, "scale": 100}, "83.2 (44.7)"),
        ({"value": "rate", "low": "low", "high": "high", "decimals": 1, "scale": 100}, "83.2 [80.9, 85.4]"),
        ({"low": "low", "high": "high", "decimals": 1, "scale": 100}, "80.9 to 85.4"),
        ({"value": "rate", "p": "p", "decimals": 1}, "0.8 p = 0.012"),
        ({"value": "rate", "p": "tiny", "decimals": 1}, "0.8 p < 0.001"),
        ({"value": "rate", "spread": "sd", "decimals": 1, "scale": 100}, "83.2 ± 1.2"),
        *(({"value": name, "decimals": 1}, "") for name in ("null", "nan")),
        *(({"value": "rate", "beside": name, "decimals": 1}, "0.8") for name in ("null", "nan")),
        *(({"value": "rate", "low": name, "high": "high", "decimals": 1}, "0.8") for name in ("null", "nan")),
    ],
)
def test_a_cell(fields, shown):
    assert cells(Table("t", FIGURES, [Column("c", **fields)])) == [[shown]]


def test_a_text_stands_in_place_of_a_figure_and_a_heading_has_its_unit_once():
    frame = pl.DataFrame({"value": [0.5, 0.25], "text": ["about a half", None]})
    table = Table("t", frame, [Column("c", "value", beside="value", decimals=2)], texts={"value": "text"})
    assert cells(table) == [["about a half (about a half)"], ["0.25 (0.25)"]]

    for heading, shown in {"drop": "drop (%)", "repetition %": "repetition %", "": "(%)"}.items():
        assert with_unit(Column(heading, "rate", unit="%")) == shown


def test_a_text_is_shown_as_it_is():
    for text, expected in {
        r"a & b % c $ d # e _ f": r"a \& b \% c \$ d \# e \_ f",
        "{x}": r"\{x\}",
        "a~b^c\\d": r"a\textasciitilde{}b\textasciicircum{}c\textbackslash{}d",
        "<s>|": r"\textless{}s\textgreater{}\textbar{}",
        "≈ − × °": r"$\approx$ $-$ $\times$ $^{\circ}$",
        "éĠı中": r"\'{e}\.{G}\i{}U+4E2D",
        "-- '' not-so": "-{}- '{}' not-so",
        "[CLS] [SEP]": "{[}CLS] [SEP]",
        "*x*": "{*}x*",
        "\x1b[0m": r"\textbackslash{}x1b[0m",
        "“x” – ﬁ ß ạ ?`": r"``x'' -- U+FB01 \ss{} \d{a} ?{}`",
    }.items():
        assert latex(text) == expected


def test_a_table_has_caption_units_rules_sections_powers_of_ten_and_notes():
    rows = [(word, -0.125 * i, 1.4 * 10.0**-i, i // 4) for i, word in enumerate("abcdef")]
    frame = pl.DataFrame(rows, schema=["word", "drop", "p", "kind"], orient="row")
    drop = Column("drop", "drop", decimals=1, scale=100, unit="%")
    columns = [Column("[word]", "word"), drop, Column("p", "p", significant=2)]
    table = Table("Drops, 5 %", frame, columns, section="kind", notes=["paper: 44.7 %"])
    found = to_latex([table])
    assert [" ".join(line.split()) for line in found.splitlines()] == [
        r"% Needs \usepackage{booktabs} in the preamble.",
        "",
        r"\begin{table}",
        r"\centering",
        r"\caption{Drops, 5 \%}",
        r"\label{tab:drops-5}",
        r"\begin{tabular}{lrr}",
        r"\toprule",
        r"{[}word] & drop (\%) & p \\",
        r"\midrule",
        r"a & 0.0 & 1.4 \\",
        r"b & $-$12.5 & 0.14 \\",
        r"c & $-$25.0 & 0.014 \\",
        r"d & $-$37.5 & 0.0014 \\",
        r"\midrule",
        r"e & $-$50.0 & 0.00014 \\",
        r"f & $-$62.5 & 1.4$\times 10^{-5}$ \\",
        r"\bottomrule",
        r"\end{tabular}",
        "",
        r"\par\smallskip\footnotesize paper: 44.7 \%",
        r"\end{table}",
    ]
    several = to_latex([replace(table, title=own) for own in ("Drops", "Größe", "Drops")])
    labels = re.findall(r"\\label\{(.*)\}", several)
    assert labels == ["tab:drops", "tab:groe", "tab:drops-2"]


@pytest.mark.parametrize("form", output_formats())
def test_what_the_results_mean_stands_in_every_format(form, scored_run):
    """The verdict of `score`; terminals have it below the tables, CSV in a column. Letters alone are compared."""
    scores = ng.open(scored_run)
    letters = lambda text: "".join(re.findall("[A-Za-z]", text))  # noqa: E731
    assert len(scores.reading) > 50
    assert letters(scores.reading) in letters(re.sub(r"<[^>]*>|\\text\w+", "", scores.render(form)))


@given(
    st.lists(st.lists(st.text("a|\\$1", min_size=1, max_size=3), min_size=1, max_size=3), unique_by=tuple, max_size=9)
)
def test_other_lists_of_words_are_other_texts_in_a_file_without_lists(lists):
    frame = pl.DataFrame({"words": lists}, schema={"words": pl.List(pl.String)})
    texts = without_lists(frame.lazy()).collect()["words"].to_list()
    assert len({*texts}) == len(lists)
    assert [re.findall(r"(?:[^|\\]|\\.)+", text) for text in texts] == [
        [re.sub(r"([|\\])", r"\\\1", word) for word in words] for words in lists
    ]
