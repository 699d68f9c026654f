"""A figure as SVG, for a page or a file: elements that draw alone, so that no text is markup and nothing is loaded."""

import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any
from xml.etree import ElementTree as ET

import polars as pl
from rich.cells import cell_len

from ..basics.errors import InputError
from ..basics.printable import as_label, printable, printable_lines
from .charts import PAPER, Layout
from .figure import Figure
from .palette import INK, on_page

# Width of a paper's column, or of its page if the figure is wide; in the style of the ACL, on A4.
MILLIMETRES = {False: 77, True: 160}
_MILLIMETRES_PER_PIXEL = MILLIMETRES[False] / 320
_SVG = "http://www.w3.org/2000/svg"
_DRAWING = {"svg", "g", "path", "line", "rect", "text", "tspan", "defs", "clipPath", "circle"}
_NOISE = re.compile(r"aria-.*|role|class|pointer-events|version")
_COORDINATES = ("d", "transform", "x", "x2", "y", "y2", "width", "height")
_LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}(?:e-?\d+)?")
_RESOURCES = re.compile(rb"(?:\n +/[A-Za-z]+\d+ \d+ 0 R){2,}")  # entries of a PDF's dictionary, in a random order
_FONTS = "Liberation Sans, Arimo, Arial, Helvetica, sans-serif"  # of one width on all systems
_NOWHERE = chr(0x10FFFE)  # a character that no font has
_NARROWER = 2.5  # pixels by which its box is narrower than a letter, for each column of a terminal that this takes
_WIDER = 1.0  # the same of other letters: where none of the fonts is, a browser's own are wider
_CONFIG = {
    "aria": False,
    "background": None,
    "padding": 5,
    "font": _FONTS,
    "view": {"stroke": None},
    "axis": {
        **dict.fromkeys(("labelColor", "titleColor", "domainColor", "tickColor", "gridColor"), INK),
        **dict.fromkeys(("labelFontSize", "titleFontSize"), 10),
        **dict.fromkeys(("domainOpacity", "tickOpacity"), 0.5),
        "titleFontWeight": "normal",
        "gridOpacity": 0.14,
    },
    "axisX": {"labelSeparation": 6},  # a phone is too narrow for all of them
    "axisY": {"labelPadding": 3},
    "header": {"labelColor": INK, "labelFontSize": 11},
    # Nothing is bold: vl-convert writes the fonts of a PDF in a random order, and one font has none.
    "title": {"color": INK, "fontSize": 11, "fontWeight": "normal", "anchor": "start"},
    "legend": {"labelColor": INK, "labelFontSize": 10, "symbolOpacity": 1, "symbolSize": 46, "columnPadding": 24},
    "text": {"fontSize": 10},
}

ET.register_namespace("", _SVG)


def for_page(figure: Figure, identifier: str, layout: Layout = PAPER) -> str:
    """A part of a page, described for screen readers; `identifier` is unique on the page."""
    root = _drawn(figure, identifier, on_page, layout)
    # As wide as the page, but texts are never much larger than those around them.
    root.set("style", f"max-width:{float(root.get('width', '0')) * 1.5:.0f}px")
    root.set("role", "img")
    root.set("aria-labelledby", f"{identifier}-title {identifier}-desc")
    return ET.tostring(root, encoding="unicode")


def as_files(figure: Figure) -> dict[str, bytes]:
    """`svg` and `pdf` (transparent) and `png` (white, 300 pixels an inch), at most as wide as a column or a page.

    In `pdf` and `png`, a character without a font has its number, such as `U+4E2D`: boxes would all be alike.
    """
    import vl_convert

    root = _drawn(figure, figure.name, str, PAPER)
    pixels, scale = _size(root, figure)
    svg = f'<?xml version="1.0" encoding="UTF-8"?>\n{_sized(root, pixels, scale, "mm")}\n'
    if missing := "".join(without_font(svg.encode()).values()):
        instead = {ord(own): f"U+{ord(own):04X}" for own in missing}
        numbers = pl.col(pl.String).map_elements(lambda own: own.translate(instead), pl.String)
        data = figure.plot.data.with_columns(numbers)  # before names are cut: a number is six times as long
        root = _drawn(replace(figure, plot=replace(figure.plot, data=data)), figure.name, str, PAPER, instead)
        pixels, scale = _size(root, figure)
    in_points = scale * 72 / 25.4  # vl-convert takes a pixel for a point
    points = _sized(root, pixels, in_points, "")
    left, top, *_ = root.get("viewBox", "0 0").split()
    ET.SubElement(root, "rect", {"x": left, "y": top, "width": "100%", "height": "100%", "fill": "#ffffff"})
    root[:] = [root[-1], *root[:-1]]
    white = _sized(root, pixels, in_points, "")
    pdf = vl_convert.svg_to_pdf(points)
    return {
        "svg": svg.encode(),
        # The same lines in a fixed order, and so as many bytes: a PDF counts them.
        "pdf": _RESOURCES.sub(lambda lines: b"\n".join(sorted(lines[0].split(b"\n"))), pdf),
        "png": vl_convert.svg_to_png(white, ppi=300),
    }


def without_font(svg: bytes) -> dict[str, str]:
    """The characters of a picture that no font of this machine has, by script."""
    return _without_font(ET.fromstring(svg))  # noqa: S314 - ours


def _without_font(root: ET.Element) -> dict[str, str]:
    texts = "".join("".join(text.itertext()) for text in root.iter(f"{{{_SVG}}}text"))
    missing: dict[str, str] = {}
    for character in dict.fromkeys(texts):
        if unicodedata.category(character)[0] not in "ZC" and _glyph(character) == _glyph(_NOWHERE):
            is_letter = unicodedata.category(character)[0] in "LMN"
            script = unicodedata.name(character).partition(" ")[0] if is_letter else "signs"
            missing[script] = missing.get(script, "") + character
    return missing


@cache
def _glyph(character: str) -> bytes:
    """How a character is drawn; the same for all that no font has."""
    import vl_convert

    text = ET.Element(f"{{{_SVG}}}svg", {"width": "40", "height": "40"})
    ET.SubElement(text, f"{{{_SVG}}}text", {"x": "9", "y": "24", "font-family": _FONTS}).text = character
    return vl_convert.svg_to_png(ET.tostring(text, encoding="unicode"))


def _size(root: ET.Element, figure: Figure) -> tuple[tuple[float, float], float]:
    """Width and height of a picture in pixels, and millimetres per pixel in a file."""
    pixels = float(root.get("width", "1")), float(root.get("height", "1"))
    return pixels, min(MILLIMETRES[figure.wide], pixels[0] * _MILLIMETRES_PER_PIXEL) / pixels[0]


def _sized(root: ET.Element, pixels: tuple[float, float], scale: float, unit: str) -> str:
    for name, length in zip(("width", "height"), pixels, strict=True):
        root.set(name, f"{length * scale:.3f}{unit}")
    return ET.tostring(root, encoding="unicode")


def _drawn(
    figure: Figure,
    identifier: str,
    colour: Callable[[str], str],
    layout: Layout,
    instead: Mapping[int, str] | None = None,
) -> ET.Element:
    """The picture as a tree, with the figure's caption and description as its title and description."""
    import vl_convert

    chart = figure.plot.chart(layout).to_dict(validate=False)  # Vega-Lite itself refuses what is wrong
    specification = _shown(chart, instead or {})
    version = specification["$schema"].rpartition("/v")[2].removesuffix(".json")
    specification["config"] = _CONFIG
    drawn = vl_convert.vegalite_to_svg(specification, vl_version=".".join(version.split(".")[:2]))
    root = ET.fromstring(drawn)  # noqa: S314 - written by Vega a moment ago, not read from a file
    _clean(root, colour)
    for label in _lines(root):
        label.text = as_label(label.text or "")
    _make_room(root)
    names: dict[str, str] = {}  # of clip paths, after the figure: Vega counts them over the whole process
    for element in root.iter():
        if (old := element.get("id")) is not None:
            names[f"url(#{old})"] = f"{identifier}-{len(names) + 1}"
            element.set("id", names[f"url(#{old})"])
    for element in root.iter():
        if (clip := element.get("clip-path")) in names:
            element.set("clip-path", f"url(#{names[clip]})")
    for position, (kind, text) in enumerate((("title", figure.table.title), ("desc", figure.alt))):
        said = ET.Element(f"{{{_SVG}}}{kind}", {"id": f"{identifier}-{kind}"})
        said.text = printable(text)
        root.insert(position, said)
    return root


def _lines(root: ET.Element) -> list[ET.Element]:
    """What holds the texts of a picture, a line each; several lines of a label stand around its place."""
    for text in root.iter(f"{{{_SVG}}}text"):
        for first in text[:1] if text.get("text-anchor") == "end" else ():
            first.set("dy", f"{-6 * (len(text) - 1)}")
    return [own for text in root.iter(f"{{{_SVG}}}text") for own in (list(text) or [text])]


def _make_room(root: ET.Element) -> None:
    """At the left, for labels: where there is another font for their letters, they are wider than was measured."""
    missing = {*"".join(_without_font(root).values())}
    at_left = (own for own in root.iter(f"{{{_SVG}}}text") if own.get("text-anchor") == "end")
    labels = (line.text or "" for own in at_left for line in (list(own) or [own]))
    left, top, width, height = (float(own) for own in root.get("viewBox", "0 0 1 1").split())
    wider = (sum(cell_len(one) * (_NARROWER if one in missing else _WIDER) for one in own) for own in labels)
    if more := max(wider, default=0):
        root.set("viewBox", f"{left - more:g} {top:g} {width + more:g} {height:g}")
        root.set("width", f"{width + more:g}")


def _shown(value: Any, instead: Mapping[int, str]) -> Any:
    """A specification whose texts XML can hold: a control character, as in a model's name, would end the process."""
    if isinstance(value, Mapping):
        return {_shown(name, instead): _shown(inner, instead) for name, inner in value.items()}
    if isinstance(value, list):
        return [_shown(inner, instead) for inner in value]
    return printable_lines(value).translate(instead) if isinstance(value, str) else value


def _clean(element: ET.Element, colour: Callable[[str], str]) -> None:
    is_guide = element.get("aria-roledescription") in {"axis", "legend", "title"}
    said = element.get("aria-label") if element.get("role") == "graphics-symbol" and not is_guide else None
    for name in [name for name in element.attrib if _NOISE.fullmatch(name)]:
        del element.attrib[name]
    for name in ("fill", "stroke"):
        if (value := element.get(name)) is not None:
            hexadecimal = value.lower() if value.startswith("#") else value
            element.set(name, colour(INK if value in {"#000", "black"} else hexadecimal))
    for name in _COORDINATES:
        if value := element.get(name):  # two decimals: more cannot be seen
            element.set(name, _LONG_NUMBER.sub(lambda own: f"{float(own[0]):.2f}".rstrip("0").rstrip("."), value))
    for child in list(element):
        kind = child.tag.removeprefix(f"{{{_SVG}}}")
        if kind not in _DRAWING:
            raise InputError(f"a figure has the element {kind[:40]!r}, which a report does not show")
        _clean(child, colour)
        empty = kind == "g" and len(child) == 0
        unseen = kind == "path" and not {"fill", "stroke"} & set(child.attrib)
        if empty or unseen or child.get("display") == "none":
            element.remove(child)
    if said:
        shown = ET.Element(f"{{{_SVG}}}title")  # on hover
        shown.text = printable(said)
        element.insert(0, shown)
