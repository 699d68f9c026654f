"""The precision is a function of the run and of the kind of processor, and the run goes on with what it recorded."""

import json
from dataclasses import replace

import numpy as np
import pytest
from margin_decider import MarginDecider, calibration, sample
from negengine.engine.basics.choices import Precision
from negengine.engine.basics.errors import InputError
from negengine.engine.inference import precision as choosing
from negengine.engine.inference.audit import AIM, disagreement_bound
from negengine.engine.inference.device import CPU
from negengine.engine.inference.precision import (
    SHORT_RUN,
    Models,
    Workload,
    choose_precisions,
    open_decider,
    open_models,
    widened,
)

CERTAIN = np.full(3_000, 9.0)


def workload(total=10**6, pattern="CpTp", **more):
    return Workload(pattern, sample, total, **more)


def choose(precision, *works, ratio=2.5, models=None):
    models = models or Models(MarginDecider(CERTAIN), lambda: MarginDecider(CERTAIN, "int8"))
    said = []
    choices = choose_precisions(models, precision, works or [workload()], seed=0, say=said.append, speed_ratio=ratio)
    assert json.loads(json.dumps(choices)) == choices
    return choices, said


def test_mixed_is_chosen_where_it_is_faster():
    choices, said = choose(Precision.AUTO)
    assert choices["CpTp"]["precision"] == "mixed"
    assert choices["CpTp"]["low_precision"] == "int8"
    assert choices["CpTp"]["speed_ratio"] == 2.5
    measured = "0.0% of 3,000 measured sentences are checked again in fp32; 1.5% of the others are audited"
    assert said == [f"CpTp: mixed precision, about 2.41 times as fast as fp32 ({measured})"]


def test_auto_takes_fp32_where_the_low_precision_model_is_not_faster():
    choices, said = choose(Precision.AUTO, ratio=1.0)
    assert choices["CpTp"]["precision"] == "fp32"
    assert choices["CpTp"]["reason"] == "mixed precision would be 0.98 times as fast"
    assert choices["CpTp"]["speed_ratio"] == 1.0
    assert said[0].startswith("CpTp: fp32; mixed precision would be 0.98 times as fast")
    assert choose(Precision.MIXED, ratio=1.0)[0]["CpTp"]["precision"] == "mixed"


def test_the_audit_counts_when_auto_chooses():
    """1.13 times as fast without an audit; a short run needs the largest one."""
    assert choose(Precision.AUTO, workload(10**7), ratio=1.13)[0]["CpTp"]["precision"] == "mixed"
    assert choose(Precision.AUTO, workload(SHORT_RUN), ratio=1.13)[0]["CpTp"]["precision"] == "fp32"


def test_auto_takes_fp32_for_a_short_run_without_measuring_or_opening_the_low_precision_model():
    models = Models(MarginDecider([]), lambda: pytest.fail("opened"))
    choices, said = choose(Precision.AUTO, workload(10), models=models)
    assert choices == {
        "CpTp": {"precision": "fp32", "reason": "with 10 sentences, mixed precision would not be faster"}
    }
    assert said == []


def test_without_a_low_precision_model_fp32_decides():
    assert choose(Precision.AUTO, models=Models(MarginDecider([])))[0]["CpTp"]["precision"] == "fp32"


@pytest.mark.parametrize(("total", "measured"), [(7, 7), (312, 312), (15_000, 1_000), (40_000, 2_000), (10**7, 3_000)])
def test_no_more_is_measured_than_the_run_has_and_a_twentieth_at_most_of_a_long_one(total, measured):
    assert choose(Precision.MIXED, workload(total))[0]["CpTp"]["sentences"] == measured


def test_the_patterns_of_a_run_share_its_audit():
    choices, _ = choose(Precision.MIXED, *[workload(200_000, name) for name in ("CpTp", "CpTn", "CnTp")])
    shares = {choice["audit_share"] for choice in choices.values()}
    assert len(shares) == 1
    assert disagreement_bound(0, int(shares.pop() * 600_000)) <= AIM


def test_what_fp32_decides_is_not_audited_by_the_others():
    """A pattern with many close calls goes to fp32: then the other one bears the whole audit."""
    difficult = Workload("CpTn", lambda n: replace_rows(sample(n)), 200_000)
    noise = np.random.default_rng(0).normal(0, 1, 3_000)
    models = Models(
        MarginDecider(np.concatenate([CERTAIN, np.zeros(3_000)])),
        lambda: MarginDecider(np.concatenate([CERTAIN, noise]), "int8"),
    )
    choices, _ = choose(Precision.AUTO, workload(400_000), difficult, models=models, ratio=1.5)
    assert choices["CpTn"]["precision"] == "fp32"
    assert choices["CpTp"] == choose(Precision.AUTO, workload(400_000), ratio=1.5)[0]["CpTp"]


def replace_rows(sentences):
    """The same sentences, of the second half of the table."""
    (bucket,) = sentences.buckets
    return replace(sentences, buckets=[replace(bucket, ids=bucket.ids + 3_000)])


def test_a_lazy_run_audits_enough_for_the_sentences_that_it_surely_has():
    """The sample repeats every verb, so the run may have only half as many sentences as was expected."""
    asked = []

    def at_least(rate):
        asked.append(rate)
        return 364_000

    lazy, _ = choose(Precision.MIXED, workload(728_000, at_least=at_least))
    assert lazy["CpTp"]["audit_share"] == choose(Precision.MIXED, workload(364_000))[0]["CpTp"]["audit_share"]
    assert asked[0] == 1.0


def test_without_a_given_speed_the_kind_of_processor_counts(monkeypatch):
    asked = []
    models = Models(MarginDecider(CERTAIN), lambda: MarginDecider(CERTAIN, "int8"))
    models.reference.device = CPU
    for speed, precision in ((2.2, "mixed"), (1.0, "fp32")):
        monkeypatch.setattr(choosing, "low_precision_speed", lambda device, own=speed: asked.append(device) or own)
        choice = choose_precisions(models, Precision.AUTO, [workload(30_000)], seed=7)["CpTp"]
        assert (choice["precision"], choice["speed_ratio"]) == (precision, speed)
    assert asked == [CPU, CPU]


# ---------------------------------------------------------------- opening


def test_a_run_goes_on_with_the_precision_that_it_recorded():
    models = Models(MarginDecider([]), lambda: MarginDecider([], "int8"))
    fp32, mixed = {"precision": "fp32"}, {"precision": "mixed", **calibration(0.5).to_json()}
    assert open_decider(models, Precision.AUTO, fp32) is models.reference
    assert open_decider(models, Precision.AUTO, mixed).calibration == calibration(0.5)
    assert open_decider(models, Precision.MIXED, mixed).calibration == calibration(0.5)


@pytest.mark.parametrize(
    ("asked", "begun", "models", "message"),
    [
        (
            Precision.FP32,
            "mixed",
            1,
            "started in mixed precision, which cannot change: give --precision mixed, or choose",
        ),
        (
            Precision.MIXED,
            "fp32",
            2,
            "started in fp32 precision, which cannot change: give --precision fp32, or",
        ),
        (Precision.AUTO, "mixed", 1, "the export has no low-precision model for this device"),
    ],
)
def test_another_precision_than_the_recorded_one_is_refused(asked, begun, models, message):
    opened = Models(MarginDecider([]), (lambda: MarginDecider([])) if models == 2 else None)
    with pytest.raises(InputError, match=message):
        open_decider(opened, asked, {"precision": begun, "bound": 0.5})


def test_the_low_precision_model_of_another_device_is_refused():
    """The bound of int8 says nothing about fp16."""
    mixed = {"precision": "mixed", **calibration(0.5).to_json()}
    models = Models(MarginDecider([]), lambda: MarginDecider([], "fp16"))
    with pytest.raises(InputError, match="started with the int8 model, and this device takes the fp16 model: choose"):
        open_decider(models, Precision.AUTO, mixed)


def test_a_choice_is_never_narrowed_and_fp32_stays_fp32():
    assert widened({"precision": "mixed", "bound": 0.5}, 0.0)["bound"] == 0.5
    assert widened({"precision": "fp32"}, 3.0) == {"precision": "fp32"}


# ---------------------------------------------------------------- the numbers


def noisy(error=0.3):
    """Models of which the low-precision one leaves some close calls."""
    random = np.random.default_rng(0)
    truth = random.normal(0, 3, 3_000)
    noise = random.normal(0, error, 3_000)
    return Models(MarginDecider(truth), lambda: MarginDecider(truth + noise, "int8"))


def test_the_speed_is_that_of_close_calls_and_audit():
    found = choose(Precision.MIXED, workload(30_000), models=noisy())[0]["CpTp"]
    close, audited = found["close"], found["audit_share"]
    assert 0.05 < close < 0.6
    assert audited == 0.05
    assert found["speedup"] == pytest.approx(1 / (1 / 2.5 + close + audited * (1 - close)))


def test_what_fp32_decides_is_told_with_an_audit_of_its_own():
    found, said = choose(Precision.AUTO, workload(20_000), ratio=1.0)
    assert found["CpTp"]["speedup"] == pytest.approx(1 / 1.05)
    assert said[0].endswith("(0.0% of 1,000 measured sentences are checked again in fp32)")


def test_a_small_run_audits_as_many_as_the_smallest_calibration_measures():
    assert choose(Precision.MIXED, workload(5_000))[0]["CpTp"]["audit_share"] == 1_000 / 5_000


@pytest.mark.parametrize(("total", "precision"), [(SHORT_RUN - 1, "fp32"), (SHORT_RUN, "mixed")])
def test_a_run_of_ten_thousand_sentences_is_not_short(total, precision):
    assert SHORT_RUN == 10_000
    assert choose(Precision.AUTO, workload(total))[0]["CpTp"]["precision"] == precision


@pytest.mark.parametrize("total", [0, 1])
def test_at_least_one_sentence_is_measured(total):
    assert choose(Precision.MIXED, workload(total))[0]["CpTp"]["sentences"] == 1


def test_a_lazy_run_has_fewer_sentences_the_more_of_them_may_repeat():
    """Half of 3,000 repeat, so the largest credible share is a little above a half, at a confidence of 99.9 %."""
    margins = np.resize([9.0, -9.0], 3_000)
    models, asked = Models(MarginDecider(margins), lambda: MarginDecider(margins, "int8")), []

    def at_least(rate):
        asked.append(rate)
        return 364_000

    choose(Precision.MIXED, workload(728_000, at_least=at_least), models=models)
    assert set(asked) == {disagreement_bound(1_500, 3_000, 0.999)}


# ---------------------------------------------------------------- models


def test_mixed_without_a_low_precision_model_is_one_line(mini, monkeypatch):
    monkeypatch.setitem(
        mini.info, "files", {name: mini.info["files"][name] for name in ("model.onnx", "tokenizer.json")}
    )
    with pytest.raises(InputError, match=r"--precision mixed: .* has no model\.int8\.onnx"):
        open_models(mini, CPU, Precision.MIXED)
    assert open_models(mini, CPU, Precision.AUTO).low_precision is None


def test_fp32_opens_the_reference_model_alone(mini):
    assert open_models(mini, CPU, Precision.FP32).low_precision is None


@pytest.mark.parametrize("precision", [Precision.AUTO, Precision.MIXED])
def test_the_low_precision_model_is_opened_when_it_is_asked_for_first_with_the_same_batches(mini, precision):
    models = open_models(mini, CPU, precision, batch_tokens=64)
    assert models.open_low_precision is not None
    assert models.low_precision.batch_tokens == models.reference.batch_tokens == 64
    assert (models.low_precision.precision, models.reference.precision) == ("int8", "fp32")
    assert models.low_precision is models.low_precision


def test_progress_moves_with_every_batch(mini):
    """A call of many sentences can take a minute: each batch is told, whichever thread ran it."""
    models = open_models(mini, CPU, Precision.MIXED, batch_tokens=32, threads=2)
    ids = np.full((50, 8), 103, np.int32)
    position, expected = np.full(50, 3, np.int32), np.full(50, 200, np.int32)
    told = []
    decisions = models.reference.decide(ids, position, expected, told.append)
    assert sum(told) == 50
    assert max(told) <= 4
    silent = models.reference.decide(ids, position, expected)
    assert (decisions.logits == silent.logits).all()
