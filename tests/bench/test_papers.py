"""Our commands, the papers' programs and the loops give the same results on the same items."""

import json
from pathlib import Path

import numpy as np
import pytest
from negengine.bench.comparison import Effort
from negengine.bench.made import made_pairs
from negengine.bench.papers import SUBJECTS
from negengine.bench.shapes import Measured, prepare_classifier
from negengine.bench.subject import bench_subject
from negengine.bench.systems.papers import ALONE, OURS, PAPER
from negengine.bench.systems.system import Place
from negengine.engine.basics.choices import Task
from negengine.engine.basics.errors import InputError
from negengine.engine.inference.device import CPU
from negengine.engine.inference.exported import load_exported
from served_here import here

pytestmark = [pytest.mark.long, pytest.mark.everything]

N = 9


@pytest.fixture(scope="module")
def classifier_place(cache, tiny_shapes):
    measured = prepare_classifier("bert-base-shape", cache, tiny_shapes)
    return Place(measured.checkpoint, measured.exported.folder, CPU, 1, cache)


@pytest.mark.parametrize("subject", SUBJECTS)
def test_all_systems_give_the_same_results(subject, tiny_place, classifier_place):
    wanted = SUBJECTS[subject]
    place = classifier_place if subject == "nli" else tiny_place
    task = Task.TEXT_CLASSIFICATION if subject == "nli" else Task.FILL_MASK
    measured = Measured(subject, place.checkpoint, load_exported(place.exported, task=task), is_random=True)
    (measurement,) = wanted.measurements(measured, None)
    items = measurement.make(N)
    assert len(items) == N
    answers = {}
    for system in measurement.systems:
        system.open(place)
        choice = system.choices(place)[0]
        assert system.about(choice)
        answers[system.name] = system.run(system.given(items, choice), choice)
        if system.name == PAPER:
            first = system.run(system.given(items.head(2), choice), choice)
    reference = answers[PAPER]
    assert len(reference) == N
    np.testing.assert_allclose(first, reference[:2], atol=1e-3)  # slow systems get the first items alone
    for name, own in answers.items():
        if name in ALONE and subject != "nli":
            np.testing.assert_array_equal(own, answers[ALONE[0]])  # the first choice at each mask
        elif name.startswith("ours, int8"):
            assert own.shape == reference.shape
        elif own.dtype == np.float64:
            np.testing.assert_allclose(own, reference, atol=1e-3, err_msg=name)
        else:
            assert np.mean(own == reference) > 0.95, name


def test_a_paper_is_measured_with_made_items_where_its_data_are_missing(cache, tiny_shapes, monkeypatch, tmp_path):
    monkeypatch.setenv("NEGENGINE_DATA", str(tmp_path))
    said = []
    effort = Effort(rounds=1, seconds=0, tried=4, fewest=8)
    lama = SUBJECTS["lama"]
    found = bench_subject(
        lama, ["bert-base-shape"], effort=effort, cache=cache, shapes=tiny_shapes, start=here, say=said.append
    )
    (result,) = json.loads(json.dumps(found))["models"]
    assert said[0] == "lama: made items of the same lengths"
    assert (result["sentences"], result["items"]) == (8, "facts")
    rows = {row["system"]: row for row in result["systems"]}
    assert rows[PAPER]["times paper"] == 1
    assert rows[OURS]["difference"] < 1e-3
    assert rows[OURS]["with opening/s"] < rows[OURS]["sentences/s"]
    assert "difference" not in rows["ours, model alone"]
    shown = lama.table(result)
    assert shown.frame["system"].to_list() == list(rows)
    assert "made items" in shown.title


def test_data_that_do_not_exist_or_are_not_read_are_refused(tmp_path):
    with pytest.raises(InputError, match="no such file or folder"):
        bench_subject(SUBJECTS["nli"], ["mini"], data=tmp_path / "none", start=here, say=[].append)
    with pytest.raises(InputError, match="`bench gh22` reads no data"):
        bench_subject(SUBJECTS["gh22"], ["mini"], data=tmp_path, start=here, say=[].append)


def test_the_papers_own_data_are_read(tiny_place, shared_data):
    model = Measured("tiny", tiny_place.checkpoint, load_exported(tiny_place.exported), is_random=True)
    for subject, folder in (("lama", "negated-lama"), ("diagnostics", "lm-diagnostics"), ("nli", "negation-nli")):
        (measurement,) = SUBJECTS[subject].measurements(model, shared_data / folder)
        assert len(measurement.make(5)) == 5


def test_made_pairs_have_the_lengths_of_the_papers():
    lengths = [len(pair.text.split()) for pair in made_pairs("RTE")]
    assert 19 < np.mean(lengths) < 23
    assert min(lengths) >= 3
    assert len({pair.id for pair in made_pairs("RTE")}) == 1_500


@pytest.fixture
def shared_data():
    folder = Path(__file__).parents[3] / "shared" / "data" / "datasets"
    if not folder.is_dir():
        pytest.skip("no copy of the papers' data beside the repository")
    return folder
