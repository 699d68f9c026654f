"""The tables of negated LAMA: ours beside the paper's, relations of a large corpus left out."""

import polars as pl
import pytest
from negengine.engine.probes.lama.tables import tables
from negengine.engine.probes.summary import SCHEMA
from rich.console import Console


def row(dataset, condition, split, metric, value, n=10):
    return dataset, condition, split, metric, value, None, None, n


ROWS = [
    *(row("GoogleRE", "original", s, "spearman", 0.981, 7) for s in ("all", "place_of_birth")),
    *(row("GoogleRE", "original", s, "overlap@1", 0.25, 7) for s in ("all", "place_of_birth")),
    row("GoogleRE", "original", "all", "spearman-by-relation", 0.951, 3),
    *(row("TREx", "original", s, "spearman", 0.5) for s in ("all", "1-1", *(f"P{i}" for i in range(20, 30)))),
    *(row("TREx", "original", s, "overlap@1", 0.5) for s in ("all", "1-1", *(f"P{i}" for i in range(20, 30)))),
    *(row("TREx", c, "all", f"precision@{k}", k / 100) for c in ("original", "misprimed-low") for k in (1, 5, 10)),
]
ITEMS = pl.DataFrame(
    {
        "query": ["Birds can [MASK] .", "No negation [MASK] ."],
        "negated_query": ["Birds cannot [MASK] .", None],
        "top": [["fly", "sing"], ["a", "b"]],
        "top_logprob": [[-0.5, -2.25], [-1.0, -2.0]],
        "negated_top": [["fly", "[dig]"], None],
        "negated_top_logprob": [[-0.75, -3.0], None],
    }
)


def shown(model):
    summary = pl.DataFrame(ROWS, schema=SCHEMA, orient="row")
    with (console := Console(width=150)).capture() as captured:
        console.print(*tables(summary, ITEMS, model))
    return captured.get()


def test_our_figures_in_percent_with_means_over_relations_in_brackets():
    text = shown("mini")
    assert "98.1 (95.1)" in text
    assert "25.0" in text
    assert "paper" not in text


def test_the_papers_figures_stand_beside_those_of_its_models():
    assert "89.3, 11.2" in shown("bert-base-cased")


@pytest.mark.parametrize(("split", "is_shown"), [("1-1", True), ("P25", False)])
def test_groups_of_a_corpus_with_many_relations_are_shown_and_the_relations_are_not(split, is_shown):
    assert (split in shown("mini")) == is_shown


def test_precision_of_every_condition_and_examples_of_what_has_a_negation():
    text = shown("mini")
    assert "misprimed-low" in text
    assert "10.0" in text
    assert "fly (-0.8), [dig] (-3.0)" in text
    assert "No negation" not in text
