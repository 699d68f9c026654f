"""The benchmark of own sentences: every system gives the same log-probabilities."""

import pytest
from negengine.bench.comparison import Effort
from negengine.bench.probe import SUBJECT, stimuli
from negengine.bench.subject import bench_subject
from negengine.bench.systems import LOOP, OURS, ROW
from served_here import here


@pytest.fixture(scope="module")
def found(cache, tiny_shapes):
    effort = Effort(rounds=1, seconds=0, tried=8, fewest=8)
    return bench_subject(
        SUBJECT, ["bert-base-shape"], effort=effort, cache=cache, shapes=tiny_shapes, start=here, say=[].append
    )


def test_all_systems_compute_the_same(found):
    assert [result["targets"] for result in found["models"]] == [1, 2]
    for result in found["models"]:
        assert [system["system"] for system in result["systems"]] == [LOOP, ROW, OURS]
        assert all(system["difference"] < 1e-3 for system in result["systems"])
        assert all(system["sentences/s"] > 0 for system in result["systems"])


def test_the_figures_make_a_table_for_each_number_of_targets(found):
    for result in found["models"]:
        assert SUBJECT.table(result).frame["system"].to_list() == [LOOP, ROW, OURS]


def test_sentences_have_one_mask_and_four_lengths():
    texts = stimuli(40, ["dance", "smoke"])["sentence"]
    assert (texts.str.count_matches("[MASK]", literal=True) == 1).all()
    assert {len(text.split()) > 12 for text in texts} == {True, False}
    assert stimuli(40, ["dance"]).equals(stimuli(40, ["dance"]))
