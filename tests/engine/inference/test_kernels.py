"""Kernels: measured for a large model in a long run alone, kept, and of no influence on the decisions."""

import itertools
import json
import shutil

import numpy as np
import pytest
from negengine.engine.errors import InputError
from negengine.engine.inference.exported import load_exported
from negengine.engine.inference.kernels import (
    Effort,
    Kernels,
    candidates,
    choose_kernels,
    default_kernels,
    fastest,
    is_worth_measuring,
    kept_kernels,
    kernels_of_run,
    recorded_kernels,
    relative_speeds,
)
from negengine.engine.inference.model import MaskedLM

ANY = Effort(flops=0, work=0, seconds=0, rounds=(1, 1))


@pytest.fixture
def copy(mini, tmp_path):
    return load_exported(shutil.copytree(mini.folder, tmp_path / "copy", ignore=shutil.ignore_patterns(".*")))


def sentences(n, length):
    ids = np.random.default_rng(n).integers(200, 2_000, (n, length)).astype(np.int32)
    return ids, np.full(n, length - 2, np.int32), ids[:, 1].copy()


def test_a_small_model_or_a_short_run_takes_the_usual_kernels_without_measuring(copy):
    found = kernels_of_run(copy, 10**12)
    assert recorded_kernels(copy, found) == default_kernels(copy)
    assert "speeds" not in found
    assert not (copy.folder / ".measured.json").exists()
    flops = float(copy.info["flops"]["hoisted"])
    limits = Effort(flops=flops, work=flops * 1_000)
    assert is_worth_measuring(copy, 1_000, limits)
    assert not is_worth_measuring(copy, 999, limits)


def test_an_export_of_an_earlier_version_has_one_choice(copy):
    for name in ("model.layer.onnx", "model.cpu.layer.onnx"):
        del copy.info["files"][name]
    assert not is_worth_measuring(copy, 10**12, ANY)
    assert candidates(copy, 300) == [default_kernels(copy, 300)]
    assert choose_kernels(copy, batch_tokens=300) == (default_kernels(copy, 300), {})


def test_what_was_measured_is_kept_beside_the_export_and_holds_for_any_number_of_threads(copy):
    assert kept_kernels(copy) is None
    said = []
    one = kernels_of_run(copy, 1, threads=1, say=said.append, effort=ANY)
    assert one["reason"] == "measured"
    assert len(one["speeds"]) == 5
    assert len(said) == 1
    (entry,) = json.loads((copy.folder / ".measured.json").read_text("utf-8"))["kept"]
    assert "threads" not in entry["conditions"]
    assert kernels_of_run(copy, 1, threads=3, effort=Effort(flops=0, work=0, rounds=(0, 0))) == one
    assert kept_kernels(copy) == recorded_kernels(copy, one)


def test_a_batch_size_of_the_user_is_not_replaced(copy):
    found = kernels_of_run(copy, 1, batch_tokens=96, effort=ANY)
    assert found["batch tokens"] == 96
    assert list(found["speeds"]) == [str(own) for own in candidates(copy, 96)[1:]]


def test_others_replace_the_usual_kernels_only_if_they_are_clearly_faster():
    usual, other, third = (Kernels("model.onnx", tokens) for tokens in (512, 256, 1024))
    assert fastest([usual, other, third], {other: 1.07, third: 1.02}) == usual
    assert fastest([usual, other, third], {other: 1.08, third: 1.09}) == third


def test_the_speed_is_the_median_of_rounds(mini):
    not_counted, rounds = [5] * 3, [(4, 2, 8), (4, 4, 1), (6, 2, 6)]  # seconds of the usual kernels, and of two others
    ends = itertools.accumulate([*not_counted, *itertools.chain.from_iterable(rounds)])
    begin, times = 0.0, []
    for end in ends:
        times += [begin, end]
        begin = end
    known, stopwatch = candidates(mini)[:3], iter(times)
    found = relative_speeds(mini, known, 1, Effort(rounds=(3, 3)), clock=lambda: next(stopwatch))
    assert found == {known[1]: 2.0, known[2]: 1.0}


@pytest.mark.parametrize("graph", ["model.onnx", "model.cpu.onnx"])
def test_all_kernels_decide_alike_and_can_be_changed_while_a_model_is_open(graph, mini):
    batch = sentences(70, 13)
    wanted = MaskedLM(mini, graph=mini.graph).decide(*batch)
    model = MaskedLM(mini, chosen=Kernels(graph, 512))
    for tokens in (512, 64):
        found = model.decide(*batch)
        assert (found.ids == wanted.ids).all()
        np.testing.assert_allclose(found.logits, wanted.logits, atol=1e-4)
        model.use(Kernels("model.onnx" if tokens == 512 else graph, 64))
        assert model.batch_tokens == 64
    assert model.graph == mini.folder / graph


def test_what_the_user_gave_stays_when_kernels_are_changed(mini):
    model = MaskedLM(mini, batch_tokens=96)
    model.use(Kernels("model.onnx", 1024))
    assert (model.graph.name, model.batch_tokens) == ("model.onnx", 96)


def test_a_run_of_an_earlier_version_has_the_usual_kernels(mini):
    assert recorded_kernels(mini, {}) == default_kernels(mini)


@pytest.mark.parametrize(
    "record",
    [
        {"graph": "../model.onnx", "batch tokens": 512},
        {"graph": "model.int8.onnx", "batch tokens": 512},
        {"graph": "model.onnx", "batch tokens": 0},
        {"graph": "model.onnx", "batch tokens": "many"},
        {"graph": ["model.onnx"], "batch tokens": 512},
    ],
)
def test_kernels_that_the_export_lacks_are_refused(record, mini):
    with pytest.raises(InputError, match="this run was started with the kernels"):
        recorded_kernels(mini, record)
