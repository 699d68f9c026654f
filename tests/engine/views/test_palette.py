"""Colours are visible on light and dark pages (Web Content Accessibility Guidelines 2.2)."""

import pytest
from negengine.engine.views.palette import HUES, variables


def channels(colour):
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]


def luminance(colour):
    parts = [channel / 255 for channel in channels(colour)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_have_a_contrast_of_four_and_a_half_and_marks_of_three(scheme):
    """The text of a matrix too, on its strongest colour: the hue at two fifths over the paper."""
    colours = variables(scheme)
    for text in ("ink", "muted", "link"):
        assert contrast(colours[text], colours["paper"]) >= 4.5, text
    for hue in HUES:
        assert contrast(colours[hue], colours["paper"]) >= 3, hue
    for hue in ("blue", "vermillion"):
        sides = zip(channels(colours[hue]), channels(colours["paper"]), strict=True)
        mixed = "#" + "".join(f"{round(0.4 * own + 0.6 * paper):02x}" for own, paper in sides)
        assert contrast(colours["ink"], mixed) >= 4.5, hue
