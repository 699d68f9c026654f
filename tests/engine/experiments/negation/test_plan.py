"""The plan of a selection: what it says is what the run does, and nothing is run."""

import numpy as np
import pytest
from fake_models import LEXICON
from negengine.engine.experiments.negation import select
from negengine.engine.experiments.negation import selection_plan as planning
from negengine.engine.experiments.negation.negation import Select
from negengine.engine.experiments.negation.negation_runs import SelectionRun
from negengine.engine.experiments.negation.select import Selection, Settings
from negengine.engine.library.model import open_model
from negengine.engine.statistics.power import clusters_needed
from negengine.engine.text.pattern_files import load_patterns


def test_a_plan_says_what_the_run_does_and_how_many_pairs_a_width_needs(mini, small_lexicon, selected_run, tmp_path):
    def plan(**settings):
        return Select(lexicon=small_lexicon, **settings).plan(open_model(mini.folder), {"output": tmp_path / "run"})

    summary, found = SelectionRun.open(selected_run).summary, plan()
    names = {"verbs": "verbs that are one token", "pairs": "pairs", "tested": "sentences"}
    assert {name: found.work[said] for name, said in names.items()} == {name: summary[name] for name in names}
    assert found.work["candidates"] == summary["tested"]
    assert found.work["sentences of the scoring, at most"] == 4 * found.work["selected triplets, at most"]
    verbs, widths = summary["verbs"], found.widths
    needed = [clusters_needed(width / 100, 0.5, verbs, planning.PAIR_CORRELATION) for width in widths["width"]]
    assert widths["pairs"].to_list() == needed
    assert (widths["pairs_large_correlation"] > widths["pairs"]).all()
    assert found.document()["widths"] == widths.to_dicts()
    assert str(tmp_path / "run") in str(found)
    assert list(tmp_path.iterdir()) == []
    lazy = plan(lazy=True, max_verbs=2, pairs=5).work
    assert (lazy["sentences, at least"], lazy["sentences, at most"]) == (5 * 2, 5 * verbs)
    assert lazy["selected triplets, at most"] == 5 * 2


def test_the_variance_is_that_of_simulated_pairs_and_verbs():
    """Effects of pairs and verbs with shares 0.1 and 0.3 of the variance; 600 samples tell it within 15 %."""
    random, (pairs, size, verbs) = np.random.default_rng(9), (30, 8, 50)
    pair, means = np.repeat(np.arange(pairs), size), []
    for _ in range(600):
        verb = np.concatenate([random.choice(verbs, size, replace=False) for _ in range(pairs)])
        effects = 0.1**0.5 * random.normal(size=pairs)[pair] + 0.3**0.5 * random.normal(size=verbs)[verb]
        means.append(0.5 * (effects + 0.6**0.5 * random.normal(size=len(pair))).mean())  # variance 1/4, as of p = 1/2
    assert planning.two_way_variance(pairs, size, verbs, 0.1, 0.3) == pytest.approx(np.var(means), rel=0.15)


def test_a_lazy_part_has_fewer_pairs_where_there_are_very_many_verbs(mini, monkeypatch):
    """Some arrays of a lazy part have a number for each pair and verb: with 100,000 verbs, 512 pairs took gigabytes."""

    def parts():
        plan = Selection.plan(mini, LEXICON, load_patterns(), Settings(lazy=True))
        return [len(part) for part in plan.verbs[0].parts]

    assert parts() == [12]
    monkeypatch.setattr(select, "LAZY_CANDIDATES_PER_PART", 5 * len(LEXICON.verbs))
    assert parts() == [5, 5, 2]
