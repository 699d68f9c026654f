"""What a report shows of pairs with negation: accuracies beside the majority baseline, label shares."""

import polars as pl
import pytest
from negengine.engine.experiments.nli.nli_views import sections
from pages import drawn_figures


@pytest.fixture(scope="module")
def figures(finished):
    return drawn_figures(finished)


def test_accuracies_are_those_of_the_summary(figures, finished):
    shown = figures["accuracy"].plot.data.filter(pl.col("source") == finished.model_name)
    expected = finished.summary.filter(pl.col("metric") == "accuracy")
    assert sorted(shown["value"].to_list()) == pytest.approx(sorted((100 * expected["value"]).to_list()))


def test_the_majority_baseline_stands_beside_every_accuracy(figures, finished):
    counts = figures["accuracy"].plot.data.group_by("source").len()
    by_source = dict(counts.iter_rows())
    assert by_source["majority baseline"] == by_source[finished.model_name]


def test_label_shares_of_a_kind_of_pair_are_one_whole(figures):
    shown = figures["labels"].plot.data.filter(pl.col("source") == "these pairs")
    for (_,), own in shown.group_by("panel"):
        assert own["value"].sum() == pytest.approx(100)


def test_the_answer_compares_with_the_majority_baseline(finished):
    assert all("the majority baseline of" in sentence for sentence in sections(finished)[0].sentences)
