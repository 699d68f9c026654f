r"""Tables as LaTeX that compiles with `\usepackage{booktabs}` alone; what it cannot set is given as `U+4E2D`."""

import re
import unicodedata
from collections.abc import Sequence

from ..basics.apart import apart, numbered
from ..basics.printable import printable
from .formats import Format
from .table import Table, cells, is_text, section_ends, with_unit

_ASCII = {  # the character 0 is set by `latex`
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#",
    "_": r"\_", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "|": r"\textbar{}", '"': "''", "\0": "{}",
}  # fmt: skip
# Two of these in a row are one character for LaTeX: a dash, a quotation mark, an inverted question mark.
_LIGATURE = re.compile(r"([-'`])(?=\1)|[?!](?=`)")
_SYMBOLS = {
    "−": "$-$", "×": r"$\times$", "±": r"$\pm$", "·": r"$\cdot$", "≈": r"$\approx$", "≠": r"$\neq$",
    "≤": r"$\leq$", "≥": r"$\geq$", "→": r"$\rightarrow$", "←": r"$\leftarrow$", "✓": r"$\surd$",
    "°": r"$^{\circ}$", "²": "$^{2}$", "³": "$^{3}$", "µ": r"$\mu$", "§": r"\S{}", "–": "--", "—": "---",
    "…": r"\ldots{}", "‘": "`", "’": "'", "“": "``", "”": "''", "\u00a0": "~", "ß": r"\ss{}", "æ": r"\ae{}",
    "Æ": r"\AE{}", "œ": r"\oe{}", "Œ": r"\OE{}", "ø": r"\o{}", "Ø": r"\O{}", "ł": r"\l{}", "Ł": r"\L{}",
    "ı": r"\i{}", "\u2068": "", "\u2069": "",  # a direction is the document's
}  # fmt: skip
_ACCENTS = {  # combining marks
    "\u0300": r"\`", "\u0301": r"\'", "\u0302": r"\^", "\u0303": r"\~", "\u0304": r"\=", "\u0306": r"\u",
    "\u0307": r"\.", "\u0308": r'\"', "\u030a": r"\r", "\u030b": r"\H", "\u030c": r"\v", "\u0323": r"\d",
    "\u0327": r"\c",
}  # fmt: skip


def latex(text: str) -> str:
    """One line of text as LaTeX that shows it as it is."""
    separated = _LIGATURE.sub(lambda match: f"{match[0]}\0", unicodedata.normalize("NFC", printable(text)))
    shown = "".join(map(_character, separated))
    # At the start of a row a bracket would be an option of the row before, and a star would forbid a page break.
    return f"{{{shown[0]}}}{shown[1:]}" if shown.startswith(("[", "*")) else shown


def to_latex(tables: Sequence[Table], _: int = 0) -> str:
    """The tables as `table` environments one after the other, each with caption, units in the headings, and notes."""
    needs = "% Needs \\usepackage{booktabs} in the preamble."
    labels = apart((table.title for table in tables), lambda title: numbered(_label(title)))
    return "\n\n".join([needs, *map(_environment, tables, labels)]) + "\n" if tables else ""


def _label(title: str) -> str:
    """Such as `tab:drop-of-act-repetition-mini`."""
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    return f"tab:{'-'.join(re.findall('[a-z0-9]+', plain))}"


def _environment(table: Table, label: str) -> str:
    words = [is_text(column, table) for column in table.columns]
    rows = [[latex(with_unit(column)) for column in table.columns]]
    for row in cells(table):
        shown = []
        for text, word in zip(row, words, strict=True):
            if word:
                shown.append(latex(text))
            else:  # hyphens before digits are minus signs, and 1.4e-05 is a power of ten
                figures = latex(re.sub(r"(?<![\w.])-(?=[\d.])", "−", text))
                shown.append(re.sub(r"(?<=\d)e\+?(-?)0*(\d+)", r"$\\times 10^{\1\2}$", figures))
        rows.append(shown)
    pads = [
        f"{'<' if word else '>'}{max(map(len, column))}"
        for word, column in zip(words, zip(*rows, strict=True), strict=True)
    ]
    body = [f"\\begin{{tabular}}{{{''.join('l' if word else 'r' for word in words)}}}", r"\toprule"]
    for row, ends in zip(rows, [True, *section_ends(table)], strict=True):
        body += [f"{' & '.join(map(format, row, pads))} \\\\", *[r"\midrule"] * ends]
    body += [r"\bottomrule", r"\end{tabular}"]
    notes = [f"\n\\par\\smallskip\\footnotesize {latex(note)}" for note in table.sentences]
    caption = f"\\caption{{{latex(table.title)}}}\n\\label{{{label}}}"
    return "\n".join([r"\begin{table}", r"\centering", caption, *body, *notes, r"\end{table}"])


def _character(character: str) -> str:
    if character in _ASCII:
        return _ASCII[character]
    if character.isascii():
        return character
    if character in _SYMBOLS:
        return _SYMBOLS[character]
    base, *marks = list(unicodedata.normalize("NFD", character))
    if base.isascii() and base.isalpha() and len(marks) == 1 and marks[0] in _ACCENTS:
        dotless = {"i": r"\i", "j": r"\j"} if marks[0] not in {"\u0323", "\u0327"} else {}
        return f"{_ACCENTS[marks[0]]}{{{dotless.get(base, base)}}}"
    return f"U+{ord(character):04X}"


FORMAT = Format(to_latex)
