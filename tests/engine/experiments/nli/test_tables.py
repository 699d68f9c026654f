"""The tables: the paper's figures and layout, ours beside them."""

import tomllib

import polars as pl
from negengine.engine.experiments.nli.nli_pairs import THREE_WAY, TWO_WAY, Label
from negengine.engine.experiments.nli.nli_views import accuracy_table, comparison_table, label_table
from negengine.engine.experiments.published import published
from negengine.engine.views.cells import cells

from .conftest import cell

E, C, N, NOT = Label.ENTAILMENT, Label.CONTRADICTION, Label.NEUTRAL, Label.NOT_ENTAILMENT


def test_our_copy_of_the_tables_is_the_transcript(shared):
    transcript = tomllib.loads((shared / "data/published/nli-negation.toml").read_text("utf-8"))
    letters = {E: "E", NOT: "notE", C: "C", N: "N"}
    ours = published("nli")
    for source, labels in (("RTE", TWO_WAY), ("SNLI", THREE_WAY), ("MNLI", THREE_WAY)):
        for split, shares in transcript["table_5"][source.lower()].items():
            assert ours[source]["labels"][split] == [shares[letters[label]] for label in labels]
        for row in transcript["table_7"]["rows"]:
            condition, _, split = row["test_pairs"].removeprefix("original_").partition("_")
            ours_row = (
                ours[source]["accuracy"]["original"]["negation" if split else "all"]
                if condition == "dev"
                else ours[source]["accuracy"]["new"][split]
            )
            assert ours_row == row[source.lower()]
        assert ours["cues"][source] == transcript["table_1_from_text"]["benchmarks"][source.lower()]


def rows(table):
    """First cell → all cells of the row."""
    return {row[0]: row for row in cells(table)}


def test_accuracies_have_the_papers_beside_them(finished):
    table = accuracy_table(finished.summary, "tiny", "bert")
    found = rows(table)
    accuracy = cell(finished.summary, "RTE", "new", "T-Hneg", "accuracy")
    assert found["RTE T-Hneg"][3] == f"{100 * accuracy['value']:.1f}"
    assert found["RTE T-Hneg"][4] == f"{100 * accuracy['low']:.1f} to {100 * accuracy['high']:.1f}"
    assert found["RTE T-Hneg"][-1] == "39.2"  # BERT base, RTE, T-Hneg in Table 7
    assert table.frame.row(by_predicate=pl.col("pairs") == "RTE T-Hneg", named=True)["published"] == 0.392
    assert "RTE dev, cues" in found
    truncated = finished.items["truncated"].sum()
    (note,) = table.notes
    assert f"; {truncated} pairs were truncated; paper: BERT base" in note


def test_no_paper_column_for_a_family_that_it_did_not_test(finished):
    assert "paper" not in [column.heading for column in accuracy_table(finished.summary, "tiny", "electra").columns]


def test_label_shares_have_the_papers_in_brackets(finished):
    share = cell(finished.summary, "RTE", "new", "T-Hneg", "label_share:not_entailment")["value"]
    assert rows(label_table(finished.summary))["RTE not_entailment"][2] == f"{100 * share:.1f} (91.0)"


def test_types_of_pairs_are_compared(finished):
    difference = cell(finished.summary, "RTE", "new", "Tneg-H vs T-Hneg", "difference:accuracy")
    p = cell(finished.summary, "RTE", "new", "Tneg-H vs T-Hneg", "p:accuracy")["value"]
    first = cells(comparison_table(finished.summary))[0]
    value, low, high = (f"{100 * difference[name]:+.1f}" for name in ("value", "low", "high"))
    assert first[:4] == ["RTE", "Tneg-H vs T-Hneg", f"{value} [{low}, {high}]", f"{p:.2g}"]
    assert first[5] == str(difference["n"])
