"""Colours of figures: Okabe and Ito's (2008, "Color Universal Design"), with the contrast of WCAG 2.2 on any page."""

INK = "#000000"  # texts and axes: black on paper, the colour of the text on a page
_HUES = {  # on paper, on a light page, on a dark page
    "blue": ("#0072b2", "#0072b2", "#56b4e9"),
    "vermillion": ("#d55e00", "#d55e00", "#f5843a"),
    "green": ("#009e73", "#008a64", "#22c39a"),
    "purple": ("#cc79a7", "#b2568a", "#dd93bb"),
    "orange": ("#e69f00", "#a87400", "#e69f00"),
}
SERIES = tuple(paper for paper, _, _ in _HUES.values())
SHAPES = ("circle", "diamond", "square", "triangle-up", "cross", "triangle-down")  # one more: thirty series differ
_NAMES = ("paper", "ink", "muted", "line", "link", "shadow")
_PAGE = {
    "light": dict(zip(_NAMES, ("#ffffff", "#1a1a1a", "#595959", "#c8c8c8", "#005a8c", "#00000040"), strict=True)),
    "dark": dict(zip(_NAMES, ("#16181c", "#eceff1", "#a9b0b6", "#474c52", "#7cc4f0", "#ffffff50"), strict=True)),
}


def variables(scheme: str) -> dict[str, str]:
    """CSS variable → colour, for `light` or `dark`."""
    return _PAGE[scheme] | {name: light if scheme == "light" else dark for name, (_, light, dark) in _HUES.items()}


def declarations(scheme: str) -> str:
    """The same as CSS, for a rule of a page."""
    return "".join(f"--{name}:{colour};" for name, colour in variables(scheme).items())


def on_page(colour: str) -> str:
    """A colour of a figure as a page has it: ink is the colour of the text, a hue is a variable."""
    if colour == INK:
        return "currentColor"
    return next((f"var(--{name})" for name, (paper, *_) in _HUES.items() if paper == colour), colour)
