import re
import shutil
import subprocess

import polars as pl
import pytest
from negengine.engine.views import Column, Table
from negengine.engine.views.to_latex import latex, to_latex

WORDS = [
    *"&%$#_{}~^\\<>|[]*-`'\"",
    *("--", "''", "``", "?`", "[CLS]", "*starred", "##wash", "[unused1]", "<s>", "doesn't", "\x1b[31m\n"),
    *("≈ − × ° ± ≤ ≥ ≠ → ← ✓ § – — … “x” ‘y’ µ ² ³ ·", "éèêñüåçőščžıłßæøœŒïĵạ", "Ġsmoke", "中文 עברית 😀 ðþ ﬁ"),
]


def table(words, title="Drops", **fields) -> Table:
    rows = [(word, -0.125 * i, 1.4 * 10.0**-i, i // 4) for i, word in enumerate(words)]
    kinds = {"word": pl.String, "drop": pl.Float64, "p": pl.Float64, "kind": pl.Int64}
    frame = pl.DataFrame(rows, schema=kinds, orient="row")
    columns = [
        Column("[word]", "word"),
        Column("drop", "drop", decimals=1, scale=100, unit="%"),
        Column("p", "p", significant=2),
    ]
    return Table(title, frame, columns, **fields)


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
    }.items():
        assert latex(text) == expected


def test_a_table_has_caption_units_rules_sections_powers_of_ten_and_notes():
    found = to_latex([table(list("abcde"), title="Drops, 5 %", section="kind", notes=["paper: 44.7 %"])])
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
        r"a & $-$0.0 & 1.4 \\",
        r"b & $-$12.5 & 0.14 \\",
        r"c & $-$25.0 & 0.014 \\",
        r"d & $-$37.5 & 0.0014 \\",
        r"\midrule",
        r"e & $-$50.0 & 0.00014 \\",
        r"\bottomrule",
        r"\end{tabular}",
        "",
        r"\par\smallskip\footnotesize paper: 44.7 \%",
        r"\end{table}",
    ]
    assert r"1.4$\times 10^{-5}$ \\" in to_latex([table(list("abcdef"))])
    labels = re.findall(r"\\label\{(.*)\}", to_latex([table([]), table([], "Größe"), table([])]))
    assert labels == ["tab:drops", "tab:groe", "tab:drops-2"]


def test_any_text_is_ascii_that_compiles_with_booktabs_alone(tmp_path):
    body = to_latex([table(WORDS, title="".join(WORDS), notes=WORDS, section="kind"), table([])])
    assert body.isascii()
    if shutil.which("pdflatex") is None:
        pytest.skip("no pdflatex here")
    head = "\\documentclass{article}\n\\usepackage{booktabs}\n\\begin{document}\n"
    (tmp_path / "tables.tex").write_text(f"{head}{body}\n\\end{{document}}\n", encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "tables.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace", check=False)
    assert done.returncode == 0, done.stdout[-2000:]
