"""The tables of negated LAMA: ours beside the paper's, without the single relations of a large corpus."""

import polars as pl
import pytest
from asked_stages import asked_run
from negengine.engine.experiments.lama.lama import LamaRun
from negengine.engine.experiments.summary import frame
from negengine.engine.views.formats import render


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
        **{f"top{i}": [word, "a"] for i, word in enumerate(("fly", "sing", None), 1)},
        **{f"top{i}_logprob": [value, -1.0] for i, value in enumerate((-0.5, -2.25, None), 1)},
        **{f"negated_top{i}": [word, None] for i, word in enumerate(("fly", "[dig]", None), 1)},
        **{f"negated_top{i}_logprob": [value, None] for i, value in enumerate((-0.75, -3.0, None), 1)},
    }
)


def shown(model):
    return render(made(model), "table", width=150)


def made(model):
    return asked_run(LamaRun, frame(ROWS), ITEMS, model).tables()


def test_our_figures_in_percent_with_means_over_relations_in_brackets():
    text = shown("mini")
    assert "98.1 (95.1)" in text
    assert "25.0" in text
    assert "paper" not in text


def test_the_papers_figures_stand_beside_those_of_its_models():
    negations = made("bert-base-cased")[0]
    (row,) = negations.frame.filter(split="place_of_birth").to_dicts()
    assert (row["published spearman"], row["published overlap"]) == (pytest.approx(0.893), pytest.approx(0.112))
    (line,) = [line for line in shown("bert-base-cased").splitlines() if "place_of_birth" in line]
    assert [cell.strip() for cell in line.split("│")][4:-1] == ["98.1", "25.0", "89.3", "11.2"]


@pytest.mark.parametrize(("split", "is_shown"), [("1-1", True), ("P25", False)])
def test_groups_of_a_corpus_with_many_relations_are_shown_and_the_relations_are_not(split, is_shown):
    assert (split in shown("mini")) == is_shown


def test_precision_of_every_condition_and_examples_of_what_has_a_negation():
    text = shown("mini")
    assert "misprimed-low" in text
    assert "10.0" in text
    assert "fly (-0.8), [dig] (-3.0)" in text
    assert "No negation" not in text


def test_examples_are_a_frame_of_words_and_figures():
    """A query and its negation, each with the words and the log-probabilities in columns of their own."""
    frame = made("mini")[2].figures
    assert frame["example"].to_list() == [1, 1]
    assert frame.select("query", "top2", "top2_logprob").rows() == [
        ("Birds can [MASK] .", "sing", -2.25),
        ("Birds cannot [MASK] .", "[dig]", -3.0),
    ]
