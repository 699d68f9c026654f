"""The tables: the paper's layout and figures, ours beside them."""

import pytest
from negengine.engine.experiments.gh22.gh22_patterns import Variant, load_variant
from negengine.engine.experiments.gh22.gh22_views import acts_sentence, drops_table, rates_table
from negengine.engine.views.cells import cells

from .test_summary import cell


@pytest.fixture(scope="module")
def rates(finished):
    def table(model):
        return rates_table(finished.summary, Variant.ORIGINAL, load_variant(Variant.ORIGINAL), model)

    return table


def test_the_table_has_the_papers_layout_and_its_rates_beside_ours(rates, finished):
    table = rates("FacebookAI/roberta-large")
    assert table.frame["number"].to_list() == ["1", "1", "2", "2", "3", "3", "4", "4"]
    rate, other = (
        cell(finished.summary, "original", "3N@50", metric)["value"] for metric in ("repetition_rate", "ungrammatical")
    )
    row = cells(table)[5]
    assert row[:4] == ["3", "N", "-", "✓"]
    assert row[5] == f"{100 * rate:.1f} ({100 * other:.1f})"
    assert row[-1] == "25.3"
    assert table.frame["published"][5] == 0.253


def test_no_column_for_a_model_that_the_paper_did_not_test(rates):
    assert "paper, rank 1" not in [column.heading for column in rates("mini").columns]


def test_drops_have_their_interval_and_p(finished):
    drop = cell(finished.summary, "connective", "2@100", "drop")
    p = cell(finished.summary, "connective", "2@100", "p_holm:repetition_rate")["value"]
    figures = [f"{100 * drop[key]:.1f}" for key in ("value", "low", "high")]
    row = cells(drops_table(finished.summary, Variant.CONNECTIVE))[1]
    assert row[0] == "2"
    assert row[3] == f"{figures[0]} [{figures[1]}, {figures[2]}] p = {p:.3f}"


def test_the_share_of_acts_that_are_not_verbs_is_said(finished):
    share = cell(finished.summary, "original", "ACT@50", "act_not_a_verb")["value"]
    assert f"{100 * share:.1f} % at rank 50" in acts_sentence(finished.summary)
