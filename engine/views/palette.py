"""Colours of figures: safe for colour-blind readers, and visible on a light and on a dark page.

The hues are those of Okabe and Ito (2008, "Color Universal Design"). A figure never tells things apart by colour alone:
each series also has a shape. On a page every hue is a CSS variable with a lighter value on a dark page, so that marks
have a contrast of at least 3 : 1 and texts of at least 4.5 : 1 (WCAG 2.2, 1.4.3 and 1.4.11).
"""

from collections.abc import Mapping
from dataclasses import dataclass

INK = "#000000"  # texts and axes: black on paper, the colour of the text on a page


@dataclass(frozen=True)
class Hue:
    """One colour."""

    paper: str
    light: str
    dark: str


HUES: Mapping[str, Hue] = {
    "blue": Hue("#0072b2", "#0072b2", "#56b4e9"),
    "vermillion": Hue("#d55e00", "#d55e00", "#f5843a"),
    "green": Hue("#009e73", "#008a64", "#22c39a"),
    "purple": Hue("#cc79a7", "#b2568a", "#dd93bb"),
    "orange": Hue("#e69f00", "#a87400", "#e69f00"),
}
SERIES = tuple(hue.paper for hue in HUES.values())
SHAPES = ("circle", "diamond", "square", "triangle-up", "cross", "triangle-down")  # one more: thirty series differ
_NAMES = ("paper", "ink", "muted", "line", "link", "shadow")
PAGE = {
    "light": dict(zip(_NAMES, ("#ffffff", "#1a1a1a", "#595959", "#c8c8c8", "#005a8c", "#00000040"), strict=True)),
    "dark": dict(zip(_NAMES, ("#16181c", "#eceff1", "#a9b0b6", "#474c52", "#7cc4f0", "#ffffff50"), strict=True)),
}


def variables(scheme: str) -> dict[str, str]:
    """CSS variable → colour, for `light` or `dark`."""
    return PAGE[scheme] | {name: getattr(hue, scheme) for name, hue in HUES.items()}


def on_page(colour: str) -> str:
    """A colour of a figure as a page has it: ink is the colour of the text, a hue is a variable."""
    if colour == INK:
        return "currentColor"
    return next((f"var(--{name})" for name, hue in HUES.items() if hue.paper == colour), colour)
