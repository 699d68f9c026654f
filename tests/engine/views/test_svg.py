import re
import unicodedata
from dataclasses import replace
from xml.etree.ElementTree import XML

import altair as alt
import polars as pl
import pytest
import vl_convert
from hypothesis import given, settings
from hypothesis import strategies as st
from negengine.engine.basics.errors import InputError
from negengine.engine.views import Column, Figure, Table
from negengine.engine.views.charts import PAGE, Bars, Curves, Lines, Plot, Points
from negengine.engine.views.svg import as_files, for_page

SVG = "{http://www.w3.org/2000/svg}"
WORDS = ["<script>alert(1)</script>", "a.b[c]:d", 'quote " & co', "datum"]
FRAME = pl.DataFrame(
    {"word: x.y": WORDS, "value": [1.0, -2.0, None, 3.0], "low": [0.5, None, None, 2.0], "high": [2.0, 1.0, None, 4.0]}
)
TABLE = Table("<b>Title</b>", FRAME, [Column("word", "word: x.y"), Column("value", "value", decimals=1)])
STEPS = FRAME.with_columns(step=pl.Series([1_000, 2_000, 100_000, 200_000]))


class Clipped(Plot):
    """A plot of another package, whose marks are cut at the edge."""

    def chart(self, layout):
        words = alt.Chart(FRAME).transform_calculate(word="datum['word: x.y']")
        return words.mark_point(clip=True).encode(alt.X("value:Q"), alt.Y("word:N"))


PLOTS = {
    "a plot of another package": Clipped(FRAME),
    "curves": Curves(STEPS, x="step", y="value", series="word: x.y", x_title="x", title="y", low="low", high="high"),
    "points": Points(FRAME, x="value", y="word: x.y", low="low", high="high", title="value"),
    "points with series": Points(FRAME, x="value", y="word: x.y", series="word: x.y", title="value"),
    "points in panels": Points(FRAME, x="value", y="word: x.y", panel="word: x.y", title="value", domain=(0, 4)),
    "lines": Lines(FRAME, x="word: x.y", y="value", series="word: x.y", x_title="x", title="y", low="low", high="high"),
    "bars": Bars(FRAME, x="value", y="word: x.y", panel="word: x.y", title="value", text="word: x.y"),
}


NAME = "negation with an adverb of frequency in the main clause"


def figure(plot):
    return Figure("words", plot, TABLE, "What is shown.", "How to read it.")


@pytest.mark.parametrize("name", PLOTS)
def test_a_text_is_never_an_element_and_the_same_figure_gives_the_same_bytes(name):
    text = [for_page(figure(PLOTS[name]), "f1") for _ in range(3)]
    files = [as_files(figure(PLOTS[name])) for _ in range(3)]
    root = XML(text[0])
    elements = {"svg", "g", "path", "line", "rect", "text", "title", "desc", "defs", "clipPath"}
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= elements
    assert any((element.text or "").startswith("<scr") for element in root.iter(f"{SVG}text"))
    assert (text[1:], files[1:]) == (text[:1] * 2, files[:1] * 2)
    assert files[0]["pdf"].count(b"/Subtype /Type0") == 1  # two would come in a random order
    svg = files[0]["svg"].decode()  # it has the colours of print
    assert "var(" not in svg
    assert "currentColor" not in svg


def test_a_figure_is_named_and_described_and_a_missing_value_is_not_drawn():
    root = XML(for_page(figure(PLOTS["points"]), "f1"))
    title, description = list(root)[:2]
    unsafe = replace(PLOTS["points"], data=FRAME.with_columns(pl.lit("\x1b[31mred\x07").alias("model")), series="model")
    told_apart = for_page(replace(figure(unsafe), alt="\x1b"), "f1")
    assert ("\x1b" in told_apart, told_apart.count(r"\x1b[31mred\x07") > 0) == (False, True)
    told = [own.text for own in root.iter(f"{SVG}title")]
    assert {"<script>alert(1)</script>: 1.00 [0.50 to 2.00]", "a.b[c]:d: −2.00"} <= set(told)
    assert PLOTS["points"].promise == "Lines are 95 % intervals; 2 of 4 values have one."
    assert PLOTS["points with series"].promise == ""
    wide = XML(for_page(figure(PLOTS["points"]), "f1", PAGE))
    assert float(wide.get("width")) > 300 + float(root.get("width"))
    assert (title.text, description.text) == ("<b>Title</b>", "What is shown.")
    assert root.get("aria-labelledby") == f"{title.get('id')} {description.get('id')}"
    assert len([own for own in root.iter(f"{SVG}path") if own.get("fill") == "var(--blue)"]) == 3
    for plot in (PLOTS["points"], PLOTS["lines"]):  # intervals are drawn
        with_them, without = (for_page(figure(own), "f1") for own in (plot, replace(plot, low=None)))
        assert len(re.findall("<path|<line", with_them)) > len(re.findall("<path|<line", without))


@pytest.mark.parametrize(("name", "charts"), [("points", 1), ("points with series", 1), ("points in panels", 4)])
def test_a_guide_is_one_dashed_line_in_each_chart_within_the_axis(name, charts):
    plot = replace(PLOTS[name], guide=8.0, domain=None)
    root = XML(for_page(figure(plot), "f1"))
    dashed = [own for own in root.iter(f"{SVG}line") if own.get("stroke-dasharray")]
    assert len(dashed) == charts
    assert "8" in {own.text for own in root.iter(f"{SVG}text")}
    assert "stroke-dasharray" not in for_page(figure(replace(plot, guide=None)), "f1")


def test_a_long_name_has_lines_and_a_picture_room_for_another_font_with_white_behind_all_of_it():
    data = pl.DataFrame({"y": [NAME, "b"], "x": [0.0, 100.0], "n": [20, 30]})
    plot = Points(data, x="x", y="y", title="rate", n="n")
    root = XML(for_page(figure(plot), "f1"))
    lines = [[own.text for own in text] for text in root.iter(f"{SVG}text") if len(text)]
    assert [" ".join(own) for own in lines] == [f"{NAME} (n = 20)"]
    left, _, width, _ = map(float, root.get("viewBox").split())
    assert left <= -20 < 0 < width
    (behind,) = [own for own in XML(white_of(plot)).iter(f"{SVG}rect") if own.get("fill") == "#ffffff"]
    assert (behind.get("width"), float(behind.get("x"))) == ("100%", left)


def test_the_title_of_an_axis_has_lines_and_is_not_wider_than_the_plotting_area():
    data = pl.DataFrame({"y": ["a", "b"], "x": [0.0, 100.0], "n": [20, 20]})
    sides = "a model with a long name, seed 1 − another model of 10 million words, seed 2"
    for panel in (None, "y"):
        short, long = (Points(data, x="x", y="y", title=own, n="n", panel=panel) for own in ("rate", sides))
        drawn = [XML(as_files(figure(own))["svg"]) for own in (short, long)]
        assert len({root.get("viewBox").split()[2] for root in drawn}) == 1
        lines = [" ".join(own.text for own in text) for text in drawn[1].iter(f"{SVG}text") if len(text)]
        assert set(lines) == {f"{sides}; n = 20" if panel is None else sides}


def test_a_band_ends_where_a_value_has_no_interval_and_panels_have_their_whole_names():
    ends = {"low": [0.0, 0.0, None, 0.5], "high": [1.0, 1.0, None, 2.0]}
    steps = pl.DataFrame({"step": [0.0, 1.0, 2.0, 3.0], "value": [0.5, 0.5, 1.0, 1.0], "run": "a", **ends})
    both = pl.concat([steps.with_columns(panel=pl.lit(name)) for name in (NAME, f"{NAME} again")])
    plot = Curves(
        both, x="step", y="value", series="run", x_title="step", title="y", low="low", high="high", panel="panel"
    )
    root = XML(for_page(figure(plot), "f1"))
    bands = [own.get("d") for own in root.iter(f"{SVG}path") if own.get("opacity") == "0.2" and own.get("fill")]
    wide = [max(float(x) for x in re.findall(r"[ML](-?[\d.]+),", band.split("Z")[0])) for band in bands]
    assert wide == [pytest.approx(180 / 3, abs=0.1)] * 2  # of a small chart, whose axis ends at the third step
    assert {" ".join(own.text for own in text) for text in root.iter(f"{SVG}text") if len(text)} == {
        NAME,
        f"{NAME} again",
    }


def white_of(plot):
    """The SVG that becomes a PNG."""
    with pytest.MonkeyPatch.context() as patch:
        drawn = []
        patch.setattr(vl_convert, "svg_to_png", lambda svg, **_: drawn.append(svg) or b"")
        as_files(figure(plot))
    return drawn[-1]


@pytest.mark.parametrize(
    ("first", "last"), [(0, 5_000), (100, 5_000), (1, 143_000), (0, 143_000), (1_000, 1_234), (7, 7), (0.5, 2)]
)
def test_the_axis_of_a_training_has_its_last_step_and_few_others(first, last):
    steps = pl.DataFrame({"step": [float(first), float(last)], "value": [1.0, 2.0], "run": "a"})
    encoding = Curves(steps, x="step", y="value", series="run", x_title="step", title="y").chart().to_dict()["layer"][0]
    ticks = encoding["encoding"]["x"]["axis"]["values"]
    assert (ticks[-1], ticks) == (last, sorted(set(ticks)))
    assert min(ticks) >= first
    assert len(ticks) == 1 if first == last else 2 <= len(ticks) <= 7


def test_a_picture_that_could_load_a_file_is_refused(monkeypatch):
    svg = '<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"><image href="http://x"/></svg>'
    monkeypatch.setattr(vl_convert, "vegalite_to_svg", lambda *_, **__: svg)
    with pytest.raises(InputError, match="a figure has the element 'image'"):
        for_page(figure(PLOTS["points"]), "f1")


def unfolded(text):
    return unicodedata.normalize("NFC", text)


ALIKE = [f"a training run with the learning rate {rate} and as many steps as all others in this list" for rate in "123"]
MIDDLES = st.lists(st.text("aA_-:é模ا1", min_size=1, max_size=3), min_size=2, max_size=5, unique_by=unfolded)
DRAWN = {
    "points": lambda data: Points(data, x="value", y="name", title="value"),
    "series": lambda data: Points(data, x="value", y="whole", series="name", title="value"),
    "panels": lambda data: Points(data, x="value", y="whole", panel="name", title="value"),
    "steps": lambda data: Lines(data, x="name", y="value", series="whole", x_title="x", title="y"),
    "lines": lambda data: Lines(data, x="value", y="value", series="name", x_title="x", title="y"),
    "curves": lambda data: Curves(data, x="value", y="value", series="name", x_title="x", title="y"),
    "bars": lambda data: Bars(data, x="value", y="name", panel="whole", title="value", text="whole"),
    "bars in panels": lambda data: Bars(data, x="value", y="whole", panel="name", title="value", text="whole"),
}


@pytest.mark.parametrize("kind", DRAWN)
@settings(max_examples=10)
@given(middles=MIDDLES)
def test_long_names_that_differ_in_their_middle_alone_differ_in_each_picture_by_what_they_differ_in(kind, middles):
    names = [f"{'the same beginning of each ' * 2}{middle}{' the same end of each' * 3}" for middle in middles]
    data = pl.DataFrame({"name": names, "value": [float(i) for i in range(len(names))], "whole": "x"})
    drawn = DRAWN[kind](data).chart().to_dict(validate=False)
    rows = [row for own in drawn["datasets"].values() for row in own]
    titles = [layer["title"] for own in drawn.get("concat", []) for layer in own["layer"][:1] if "title" in layer]
    shown = titles if kind == "bars in panels" else [row["name"] for row in rows]
    assert len(set(shown)) == len(names)
    for middle, label in zip(middles, shown, strict=True):
        assert unfolded(middle)[:1] in unfolded(label).replace("\n", "")


def test_steps_whose_names_do_not_fit_beside_each_other_are_turned():
    for names, angle in ((["1", "2", "3"], 0), (ALIKE, -45)):
        data = pl.DataFrame({"name": names, "value": [1.0, 2.0, 3.0], "whole": "x"})
        spec = DRAWN["steps"](data).chart().to_dict(validate=False)
        assert {own["encoding"]["x"]["axis"]["labelAngle"] for own in spec["layer"]} == {angle}
