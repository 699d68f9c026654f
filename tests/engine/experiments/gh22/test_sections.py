"""What a report shows of GH22: curves by rank, drops."""

import polars as pl
import pytest
from negengine.engine.experiments.gh22.gh22_views import sections
from pages import drawn_figures


@pytest.fixture(scope="module")
def figures(finished):
    return drawn_figures(finished)


def test_every_variant_has_its_curves_and_its_drops(figures):
    kinds = ("original", "connective", "coordinated")
    assert set(figures) == {f"{what}-{kind}" for what in ("drops", "rates") for kind in kinds}


def test_curves_have_the_rates_of_the_summary(figures, finished):
    rates = finished.summary.filter((pl.col("condition") == "original") & (pl.col("metric") == "repetition_rate"))
    expected = {split: value * 100 for split, value in rates.select("split", "value").iter_rows()}
    shown = figures["rates-original"].plot.data.filter(pl.col("name").is_not_null())
    assert {
        f"{name}@{rank}": value for name, rank, value in shown.select("name", "rank", "value").iter_rows()
    } == expected


def test_drops_have_the_intervals_of_the_summary(figures, finished):
    drops = finished.summary.filter((pl.col("condition") == "original") & (pl.col("metric") == "drop"))
    shown = figures["drops-original"].plot.data
    assert shown.select("value", "low", "high").rows() == [
        tuple(100 * value for value in row) for row in drops.select("value", "low", "high").iter_rows()
    ]


def test_the_first_sentence_counts_the_comparisons(finished):
    n = len(finished.summary.filter(pl.col("metric") == "p_holm:repetition_rate"))
    assert f"of {n} comparisons" in sections(finished)[0].sentences[1]
