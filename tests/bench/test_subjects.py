"""Our commands and the loops give the same results on the same items."""

import json
import sys
from importlib import import_module

import numpy as np
import pytest
from measured_systems import here
from negengine.bench.likelihood import CACHED
from negengine.bench.rounds import Effort
from negengine.bench.shapes import prepare
from negengine.bench.subject import bench_subject
from negengine.bench.system import LOOP, OURS, ROW
from negengine.engine.inference.devices.cpu import CPU

N = 9
everything = pytest.mark.everything
SYSTEMS = [
    ("likelihood", "bert-base-shape", [LOOP, ROW, "minicons", OURS]),
    pytest.param("likelihood", "gpt2-shape", [LOOP, CACHED, "minicons", OURS], marks=everything),
    ("probe", "bert-base-shape", [LOOP, ROW, OURS]),
]


def subject_of(name):
    return import_module(f"negengine.bench.{name}").SUBJECT


@pytest.mark.parametrize(("name", "shape", "systems"), SYSTEMS)
def test_all_systems_give_the_same_results(name, shape, systems, cache, place_of):
    subject = subject_of(name)
    measured = prepare(shape, cache)
    place = place_of(measured)
    for measurement in subject.measurements(measured, CPU, subject.effort, [].append):
        assert [system.name for system in measurement.systems] == systems
        items = measurement.make(N)
        assert len(items) == N
        answers = {}
        for system in measurement.systems:
            if system.missing(place):
                continue
            system.open(place)
            choice = system.choices(place)[0]
            assert "{" not in system.about(choice)
            answers[system.name] = system.run(items, choice)
            if system.name == systems[0]:  # slow systems get the first items alone
                np.testing.assert_allclose(system.run(items.head(2), choice), answers[system.name][:2], atol=1e-3)
        reference = answers[systems[0]]
        assert len(reference) == N
        for name_of, own in answers.items():
            same = np.isclose(own, reference, atol=1e-3, equal_nan=True)
            assert same.all() or (own.dtype != np.float64 and same.mean() > 0.95), name_of


def test_what_is_measured_is_json_and_a_table_and_missing_systems_are_lines(cache, monkeypatch):
    monkeypatch.setitem(sys.modules, "minicons", None)  # as if it were not installed
    likelihood, effort = subject_of("likelihood"), Effort(rounds=1, seconds=0, tried=4, fewest=8)
    given = {"effort": effort, "cache": cache, "start": here, "say": [].append}
    (result,) = json.loads(json.dumps(bench_subject(likelihood, ["bert-base-shape"], **given)))["models"]
    assert (result["model"], result["sentences"], result["items"]) == ("bert-base-shape", 8, "sentences")
    rows = {row["system"]: row for row in result["systems"]}
    assert list(rows) == [LOOP, ROW, OURS]
    assert (rows[LOOP]["times loop"], rows[OURS]["times minicons"], rows[OURS]["difference"] < 1e-3) == (1, None, True)
    assert 0 < rows[OURS]["with opening/s"] < rows[OURS]["sentences/s"]
    shown = likelihood.table(result)
    assert shown.frame["system"].to_list() == list(rows)
    assert any("minicons is not measured" in note and "[bench]" in note for note in shown.notes)
