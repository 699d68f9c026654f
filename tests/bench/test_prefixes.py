"""Both orders of the sentences run, give the same logits, and only one of them in groups."""

from negengine.bench.prefixes import SENTENCES, _sentences, prefix_times, table
from negengine.engine.inference.prefixes import common_prefixes


def test_both_orders_of_all_models_are_measured(causal):
    models = {family: causal(family) for family in ("gpt2", "gpt_neox")}
    rows = prefix_times(models, groups=2, rounds=1)
    assert [row["model"] for row in rows] == list(models)
    assert all(row["in turns"] > 0 and row["in groups"] > 0 for row in rows)
    assert all(row["difference"] < 1e-4 for row in rows)
    assert len(table(rows).splitlines()) == 4


def test_the_sentences_are_grouped_in_one_of_the_orders_alone(causal):
    ids = _sentences(causal("gpt2"), groups=3)
    assert common_prefixes(ids[:, :-1]).bounds.tolist() == [0, SENTENCES, 2 * SENTENCES, 3 * SENTENCES]
    assert common_prefixes(ids[::SENTENCES, :-1]) is None
