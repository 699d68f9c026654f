"""Tables 5 and 6 as a reader sees them, and their figures as columns."""

from pathlib import Path

import polars as pl
from negengine.engine.experiments.negation.negation_tables import published, rates_table, selection_table
from negengine.engine.text.pattern_files import load_patterns
from negengine.engine.views.formats import render

PATTERNS = load_patterns()
SELECTION = {
    "model": "roberta-base",
    "pattern": "CpTp",
    "coreference": "pronoun",
    "verbs": 612,
    "pairs": 18200,
    "tested": 11138400,
    "repeating": 2445678,
    "ratio": 21.957,
    "selected": 363999,
}
LAZY = {"candidates": 11138400, "times_fewer_calls": 3.4, "ratio_low": 21.88, "ratio_high": 22.04}


def lines(table) -> list[list[str]]:
    """The table's cells as a reader sees them."""
    return [
        [cell.strip() for cell in line.strip("│┃").replace("┃", "│").split("│")]
        for line in render([table], "table", width=160).splitlines()
    ]


def cells(table, first: str) -> list[str]:
    """The cells to the right of the one that starts so."""
    return next(row[1:] for row in lines(table) if row[0].startswith(first))


def text(table) -> str:
    return " ".join(" ".join(" ".join(row) for row in lines(table)).split())


def rates(**drops: float | tuple[float, float, float]) -> pl.DataFrame:
    """A rates table with the drops given, or drop, low and high."""
    rows = []
    for pattern, given in drops.items():
        drop, low, high = given if isinstance(given, tuple) else (given, given - 0.05, given + 0.05)
        own = (pattern, 1000, round(10 * (100 - drop)), 100 - drop, drop, low, high)
        rows.append(
            (*own, 50, 400, *(None if low is None else figure for figure in (1.04, drop - 1, drop + 1, 2.6, 4.4)))
        )
    columns = ["pattern", "n", "repetitions", "repetition_rate", "drop", "drop_low", "drop_high", "pairs", "verbs"]
    columns += ["design_effect", "drop_low_two_way", "drop_high_two_way", "design_effect_two_way", "detectable"]
    return pl.DataFrame(rows, schema=columns, orient="row")


def paper_rates(model: str) -> pl.DataFrame:
    return rates(CpTp=0.0, **published(model, PATTERNS).coreference["pronoun"].drops)


def test_rows_of_table_5_with_the_paper_beside_in_the_digits_that_it_prints():
    paper = published("roberta-base", PATTERNS)
    ours = ["612", "18,200", "11,138,400", "2,445,678", "22.0", "363,999"]
    theirs = {
        "pronoun": ["106", "18,200", "1.9 M", "1.2 M", "61.9", "362,027"],
        "same-name": [*[""] * 5, "118,700"],
    }
    alone = selection_table(SELECTION, None)
    assert [cells(alone, f"{n}.") for n in range(1, 7)] == [[figure] for figure in ours]
    for coreference, printed in theirs.items():
        table = selection_table({**SELECTION, "coreference": coreference}, paper)
        assert [cells(table, f"{n}.") for n in range(1, 7)] == list(map(list, zip(ours, printed, strict=True)))
    assert "target about: same-name" in text(table)


def test_a_lazy_run_marks_its_estimates():
    table = selection_table({**SELECTION, "tested": 3276000, "lazy": LAZY}, None)
    assert cells(table, "3. Tested triplets (of 11,138,400)") == ["3,276,000"]
    assert cells(table, "4. leading to ACT repetition, estimated") == ["≈ 2,445,678"]
    assert cells(table, "5. Ratio (%), estimated") == ["≈ 22.0 (21.9 to 22.0)"]
    ratio = table.figures.row(by_predicate=pl.col("quantity") == "ratio", named=True)
    assert (ratio["value"], ratio["low"], ratio["high"], ratio["estimated"]) == (21.957, 21.88, 22.04, True)


def test_rows_of_table_6_and_what_the_notes_say_of_them():
    drops = rates(CpTp=(0.0, None, None), CpTn=(27.73, 27.1, 28.34), **{"[b]": 1.0})
    table = rates_table(drops, PATTERNS, {**SELECTION, "model": "[red]model"}, None)
    assert cells(table, "CpTp") == ["100.0", "0.0", "", "", "selecting"]
    assert cells(table, "CpTn") == ["72.3", "27.7", "27.1 to 28.3", "26.7 to 28.7", "forbidden"]
    assert cells(table, "[b]")[1] == "1.0"  # brackets are shown
    assert "[red]model" in text(table)
    assert table.notes == [
        "rate: repetition rate of 1,000 triplets (50 pairs, 400 verbs)",
        "95 % interval: pairs are clusters (design effect 1.0); and by verb: verbs too (2.6)",
        "a true difference between two patterns is found with a power of 80 % from 4.4 points on",
    ]


def test_the_papers_drops_stand_beside():
    paper = published("roberta-base", PATTERNS)
    table = rates_table(paper_rates("roberta-base"), PATTERNS, SELECTION, paper)
    drops = {"CpTp": "", "CpTn": "27.7", "CnTp": "66.9", "CnTn": "12.1", "CpTv": "23.3"}
    assert {pattern: cells(table, pattern)[4] for pattern in drops} == drops
    assert table.figures["published"].to_list() == [None, 27.7, 66.9, 12.1, 23.3]
    assert table.figures["role"].to_list() == ["selecting", "forbidden", "forbidden", "control", "control"]
    assert table.figures.columns == [*paper_rates("roberta-base").columns, "published", "role"]
    other = rates_table(paper_rates("roberta-base"), PATTERNS, {**SELECTION, "coreference": "same-gender"}, paper)
    assert cells(other, "CpTn")[4] == "7.5"
    assert "Table 8" in text(other)  # and what is uncertain about it
    assert cells(rates_table(rates(Mine=5.0), PATTERNS, SELECTION, paper), "Mine")[4:] == ["", ""]


def test_tables_fit_in_80_columns():
    paper = published("roberta-base", PATTERNS)
    tables = [selection_table(SELECTION, paper), rates_table(paper_rates("roberta-base"), PATTERNS, SELECTION, paper)]
    rows = [line for line in render(tables, "table", width=80).splitlines() if line.startswith("│")]
    assert len(rows) == 6 + 5  # none goes on in a second line


def test_the_layout_of_the_bundled_model_is_that_of_the_documents():
    # The selection and the rates of `make demo`, as the page about the test and the README show them.
    root = Path(__file__).parents[4]
    pages = [(root / page).read_text("utf-8") for page in ("docs/negation-test.md", "README.md")]
    counts = {"verbs": 763, "pairs": 60, "tested": 45780, "repeating": 29927, "ratio": 65.37, "selected": 1200}
    selection = {"model": "mini", "pattern": "CpTp", "coreference": "pronoun", **counts}
    drops = {
        "CpTp": (0.0, *[None] * 7),
        "CpTn": (83.2, 80.9, 85.4, 1.0, 79.2, 86.8, 2.9, 6.1),
        "CnTp": (97.8, 96.7, 98.6, 1.1, 95.4, 99.1, 3.1, 6.1),
        "CnTn": (24.9, 22.5, 27.5, 1.0, 20.7, 29.5, 3.0, 6.9),
        "CpTv": (20.4, 18.2, 22.8, 0.9, 16.5, 24.7, 2.9, 6.9),
    }
    names = ["drop", "drop_low", "drop_high", "design_effect", "drop_low_two_way", "drop_high_two_way"]
    figures = rates(**dict.fromkeys(drops, 0.0)).with_columns(
        *(
            pl.Series(name, [row[i] for row in drops.values()], dtype=pl.Float64)
            for i, name in enumerate([*names, "design_effect_two_way", "detectable"])
        ),
        *(pl.lit(count).alias(name) for name, count in {"n": 1200, "pairs": 60, "verbs": 482}.items()),
        repetition_rate=pl.Series([100 - row[0] for row in drops.values()]),
    )
    tables = [selection_table(selection, None), rates_table(figures, PATTERNS, selection, None)]
    for table, page in zip(tables, pages, strict=True):
        assert "\n".join(line.rstrip() for line in render([table], "table").splitlines()) in page
