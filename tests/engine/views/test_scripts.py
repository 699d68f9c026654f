"""Other scripts: names from right to left, and characters that no font of the machine has."""

import re
from dataclasses import replace

import polars as pl
import pytest
import vl_convert
from negengine.engine.basics.printable import as_label, isolated, isolated_lines, printable
from negengine.engine.views import Column, Figure, Table
from negengine.engine.views.charts import Points
from negengine.engine.views.formats import render
from negengine.engine.views.svg import as_files, for_page, without_font
from negengine.engine.views.to_html import table_html

FIRST, END, ARABIC, HEBREW, OLD = "\u2068", "\u2069", "نفي", "שלילה", "\U00012000"
FRAME = pl.DataFrame({"group": [ARABIC, HEBREW, "no"], "sides": [f"{isolated(ARABIC)} − {isolated(HEBREW)}", "a", "b"]})
TABLE = Table(
    f"Of {ARABIC} and {HEBREW}", FRAME.with_columns(n=pl.lit(3.5)), [Column(n, n) for n in ("group", "sides", "n")]
)


def test_a_name_from_right_to_left_changes_the_order_of_nothing_around_it():
    lines = render([TABLE]).splitlines()
    assert lines[0] == f"Of {FIRST}{ARABIC}{END} and {FIRST}{HEBREW}{END}"
    (row,) = [line for line in lines if ARABIC in line and "│" in line]
    assert re.search(f"│ {FIRST}{ARABIC}{END} +│ {FIRST}{ARABIC}{END} − {FIRST}{HEBREW}{END} +│", row)
    page = table_html(TABLE)
    assert re.search(f"<t[dh][^>]*><bdi>{ARABIC}</bdi></t", page)
    assert f"Of <bdi>{ARABIC}</bdi> and <bdi>{HEBREW}</bdi>" in page
    assert isolated_lines("plain\n│ a │") == "plain\n│ a │"
    assert isolated_lines(f"{ARABIC}: next, `show {ARABIC}`") == f"{FIRST}{ARABIC}{END}: next, `show {ARABIC}`"
    # A name cannot open an isolate that it does not close, nor reverse what follows.
    assert printable(f"{FIRST}a{END}") == f"{FIRST}a{END}"
    assert printable(f"{FIRST}a") == r"\u2068a"
    assert printable(f"a{END}") == r"a\u2069"
    assert printable(f"{FIRST}\u202ea{END}") == r"\u2068\u202ea\u2069"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("no", "no"), ("12", "12"), (ARABIC, ARABIC), (f"{ARABIC} {HEBREW}", f"{ARABIC} {HEBREW}"),
        (f"{ARABIC} (1)", f"{FIRST}{ARABIC} (1){END}"), (f"(1) {ARABIC}", f"{FIRST}(1) {ARABIC}{END}"),
        (f"group: {ARABIC}", f"group: {FIRST}{ARABIC}{END}"), (f"BERT-{HEBREW} 2", f"BERT-{FIRST}{HEBREW}{END} 2"),
        (f"{isolated(ARABIC)} − {HEBREW}", f"{isolated(ARABIC)} − {HEBREW}"),
    ],
)  # fmt: skip
def test_a_label_of_a_picture_is_read_from_its_first_letter(name, shown):
    assert as_label(name) == shown


def test_what_a_pdf_shows_can_be_copied(figure):
    if without_font(as_files(figure)["svg"]).get("ARABIC"):
        pytest.skip("this machine has no font for Arabic")
    data = pl.DataFrame({"x": [1.0, 2.0], "y": ["aé", ARABIC]})
    pdf = as_files(replace(figure, plot=replace(figure.plot, data=data)))["pdf"]
    maps = re.findall(rb"beginbfchar(.*?)endbfchar", pdf, re.DOTALL)  # of each font: its glyphs → letters
    letters = {
        bytes.fromhex(own.decode()).decode("utf-16-be") for text in maps for own in re.findall(rb"> <(\w+)>", text)
    }
    assert {*"x01aé", *ARABIC} <= letters
    assert not {FIRST, END} & letters


@pytest.fixture
def figure():
    plot = Points(pl.DataFrame({"x": [1.0, 2.0], "y": [f"a{OLD}", ARABIC]}), x="x", y="y", title="x")
    return Figure("words", plot, TABLE, "What is shown.", "How to read it.")


def test_a_character_without_a_font_is_named_and_has_its_number_where_it_cannot_be_drawn(figure, monkeypatch):
    if not without_font(as_files(figure)["svg"]).get("CUNEIFORM"):
        pytest.skip("this machine has a font for cuneiform")
    drawn = []
    draw = vl_convert.svg_to_pdf
    monkeypatch.setattr(vl_convert, "svg_to_pdf", lambda svg: drawn.append(svg) or draw(svg))
    svg = as_files(figure)["svg"].decode()
    assert without_font(svg.encode())["CUNEIFORM"] == OLD
    assert ("aU+12000" in drawn[0], OLD in drawn[0], OLD in svg) == (True, False, True)
    # Its number is longer than it is: the label is cut, its lines are short. In the SVG there is room for it.
    long = replace(figure, plot=replace(figure.plot, data=figure.plot.data.with_columns(y=pl.lit(40 * OLD))))
    left = [float(re.search('viewBox="([^ ]*)', as_files(own)["svg"].decode())[1]) for own in (long, figure)]
    assert left[0] < left[1] < 0
    lines = re.findall(">([U+120…]{7,})<", drawn[1])
    assert ("…" in "".join(lines), max(map(len, lines))) == (True, 25)
    assert f">{ARABIC}</text>" in svg
    assert OLD in for_page(figure, "f1")
    plain = replace(figure, plot=replace(figure.plot, data=figure.plot.data.with_columns(y=pl.lit("é − б"))))
    assert without_font(as_files(plain)["svg"]) == {}
