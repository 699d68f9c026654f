"""The plan of a selection: what it says is what the run does, and nothing is run."""

import numpy as np
import pytest
from negengine.engine.experiments.negation import selection_plan as planning
from negengine.engine.experiments.negation.negation import Select
from negengine.engine.experiments.negation.negation_runs import SelectionRun
from negengine.engine.library.model import open_model
from negengine.engine.statistics.power import clusters_needed


@pytest.fixture
def planned(mini, small_lexicon, tmp_path):
    def plan(**settings):
        return Select(lexicon=small_lexicon, **settings).plan(open_model(mini.folder), {"output": tmp_path / "run"})

    return plan


def test_a_plan_says_what_the_run_does(planned, selected_run):
    summary = SelectionRun.open(selected_run).summary
    work = planned().work
    assert work["verbs that are one token"] == summary["verbs"]
    assert work["pairs"] == summary["pairs"] == 12
    assert work["candidates"] == work["sentences"] == summary["tested"]
    assert work["sentences of the scoring, at most"] == 4 * work["selected triplets, at most"]


def test_the_pairs_are_those_that_a_width_needs_and_nothing_is_written(planned, tmp_path):
    plan = planned()
    verbs = plan.work["verbs that are one token"]
    assert plan.widths["pairs"].to_list() == [
        clusters_needed(width / 100, 0.5, min(20, verbs), planning.PAIR_CORRELATION) for width in plan.widths["width"]
    ]
    assert (plan.widths["pairs_large_correlation"] > plan.widths["pairs"]).all()
    assert list(tmp_path.iterdir()) == []
    assert str(tmp_path / "run") in str(plan)
    assert plan.document()["widths"] == plan.widths.to_dicts()
    work = planned(lazy=True, max_verbs=2, pairs=5).work
    assert (work["sentences, at least"], work["selected triplets, at most"]) == (10, 10)
    assert work["sentences, at most"] == 5 * work["verbs that are one token"]


def test_the_variance_is_that_of_simulated_pairs_and_verbs():
    """Effects of pairs and verbs with shares 0.1 and 0.3 of the variance; 600 samples tell it within 15 %."""
    random = np.random.default_rng(9)
    pairs, size, verbs = 30, 8, 50
    pair = np.repeat(np.arange(pairs), size)
    means = []
    for _ in range(600):
        verb = np.concatenate([random.choice(verbs, size, replace=False) for _ in range(pairs)])
        effects = 0.1**0.5 * random.normal(size=pairs)[pair] + 0.3**0.5 * random.normal(size=verbs)[verb]
        means.append(0.5 * (effects + 0.6**0.5 * random.normal(size=len(pair))).mean())  # variance 1/4, as of p = 1/2
    assert planning.two_way_variance(pairs, size, verbs, 0.1, 0.3) == pytest.approx(np.var(means), rel=0.15)
