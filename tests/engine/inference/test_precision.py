"""The precision is a function of the run and of the kind of processor, and the run goes on with what it recorded."""

import json
from dataclasses import replace

import numpy as np
import pytest
from answer_tables import MarginDecider, calibration, sample
from hypothesis import given
from hypothesis import strategies as st
from negengine.engine.basics.choices import Precision
from negengine.engine.basics.errors import InputError
from negengine.engine.inference import cpu
from negengine.engine.inference.audit import AIM, MOST, audit_sentences, audit_share, audit_summary, disagreement_bound
from negengine.engine.inference.cpu import CPU
from negengine.engine.inference.precision import (
    SHORT_RUN,
    Models,
    Workload,
    choose_precisions,
    open_decider,
    open_models,
    widened,
)
from scipy import special, stats

CERTAIN = np.full(3_000, 9.0)
AUTO, FP32, MIXED = Precision.AUTO, Precision.FP32, Precision.MIXED


def pair(truth=CERTAIN, noise=0.0):
    return Models(MarginDecider(truth), lambda: MarginDecider(truth + noise, "int8"))


def workload(total=10**6, pattern="CpTp", **more):
    return Workload(pattern, sample, total, **more)


def choose(precision, *works, ratio=2.5, models=None):
    """The choices of a run by pattern, and what is said of them."""
    said = []
    works = works or [workload()]
    choices = choose_precisions(models or pair(), precision, works, seed=0, say=said.append, speed_ratio=ratio)
    assert json.loads(json.dumps(choices)) == choices
    return choices, said


def chosen(precision, total, ratio=2.5, **more):
    return choose(precision, workload(total, **more), ratio=ratio)[0]["CpTp"]


def test_auto_takes_mixed_precision_where_it_is_faster_and_fp32_where_it_is_not():
    """What fp32 decides is told with an audit of its own."""
    choices, said = choose(AUTO)
    found = choices["CpTp"]
    assert (found["precision"], found["low_precision"], found["speed_ratio"]) == ("mixed", "int8", 2.5)
    measured = "0.0% of 3,000 measured sentences are checked again in fp32; 1.5% of the others are audited"
    assert said == [f"CpTp: mixed precision, about 2.41 times as fast as fp32 ({measured})"]
    choices, said = choose(AUTO, workload(20_000), ratio=1.0)
    reason = "mixed precision would be 0.95 times as fast"
    fp32 = {"precision": "fp32", "reason": reason, "speed_ratio": 1.0, "speedup": pytest.approx(1 / 1.05)}
    assert choices["CpTp"] == fp32
    measured = "0.0% of 1,000 measured sentences are checked again in fp32"
    assert said == [f"CpTp: fp32; mixed precision would be 0.95 times as fast ({measured})"]
    assert chosen(MIXED, 20_000, ratio=1.0)["precision"] == "mixed"
    # The audit counts: 1.13 times as fast without one, and a short run needs the largest.
    assert [chosen(AUTO, total, ratio=1.13)["precision"] for total in (10**7, SHORT_RUN)] == ["mixed", "fp32"]


def test_a_short_run_is_decided_in_fp32_without_measuring_or_opening_the_low_precision_model():
    models = Models(MarginDecider([]), lambda: pytest.fail("opened"))
    reason = "with 9,999 sentences, mixed precision would not be faster"
    assert choose(AUTO, workload(9_999), models=models) == ({"CpTp": {"precision": "fp32", "reason": reason}}, [])
    assert chosen(AUTO, SHORT_RUN)["precision"] == "mixed"
    assert choose(AUTO, models=Models(MarginDecider([])))[0]["CpTp"]["precision"] == "fp32"


def test_no_more_is_measured_than_the_run_has_and_a_twentieth_at_most_of_a_long_one():
    for total, measured in {0: 1, 312: 312, 15_000: 1_000, 40_000: 2_000, 10**7: 3_000}.items():
        assert chosen(MIXED, total)["sentences"] == measured


def test_the_speed_is_that_of_close_calls_and_audit():
    random = np.random.default_rng(0)
    models = pair(random.normal(0, 3, 3_000), random.normal(0, 0.3, 3_000))
    found = choose(MIXED, workload(30_000), models=models)[0]["CpTp"]
    close, audited = found["close"], found["audit_share"]
    assert 0.05 < close < 0.6
    assert audited == 0.05
    assert found["speedup"] == pytest.approx(1 / (1 / 2.5 + close + audited * (1 - close)))
    assert chosen(MIXED, 5_000)["audit_share"] == 1_000 / 5_000  # as many as the smallest calibration measures


def test_what_fp32_decides_is_not_audited_by_the_others():
    """A pattern with many close calls goes to fp32: then the other one bears the whole audit."""

    def difficult(n):  # sentences of the second half of the table
        (bucket,) = (whole := sample(n)).buckets
        return replace(whole, buckets=[replace(bucket, ids=bucket.ids + 3_000)])

    noise = np.random.default_rng(0).normal(0, 1, 3_000)
    models = pair(np.concatenate([CERTAIN, np.zeros(3_000)]), np.concatenate([np.zeros(3_000), noise]))
    choices, _ = choose(AUTO, workload(400_000), Workload("CpTn", difficult, 200_000), models=models, ratio=1.5)
    assert choices["CpTn"]["precision"] == "fp32"
    assert choices["CpTp"] == chosen(AUTO, 400_000, ratio=1.5)


def test_a_lazy_run_audits_enough_for_the_sentences_that_it_surely_has():
    """The more of the sample may repeat, the fewer sentences; the largest credible share, at a confidence of 99.9 %."""
    asked = set()

    def at_least(rate):
        asked.add(rate)
        return 364_000

    lazy = chosen(MIXED, 728_000, at_least=at_least)
    assert asked == {1.0}  # the sample repeats every verb
    assert lazy["audit_share"] == chosen(MIXED, 364_000)["audit_share"]
    choose(MIXED, workload(728_000, at_least=at_least), models=pair(np.resize([9.0, -9.0], 3_000)))
    assert asked == {1.0, disagreement_bound(1_500, 3_000, 0.999)}


def test_without_a_given_speed_the_kind_of_processor_counts(monkeypatch):
    models = pair()
    models.reference.device = CPU
    for speed, precision in ((2.2, "mixed"), (1.0, "fp32")):
        monkeypatch.setattr(cpu, "int8_speed", lambda own=speed: own)
        choice = choose_precisions(models, AUTO, [workload(30_000)], seed=7)["CpTp"]
        assert (choice["precision"], choice["speed_ratio"]) == (precision, speed)


RECORDED = {"precision": "mixed", **calibration(0.5).to_json()}


def test_a_run_goes_on_with_the_precision_that_it_recorded():
    models = pair()
    assert open_decider(models, AUTO, {"precision": "fp32"}) is models.reference
    for asked in (AUTO, MIXED):
        assert open_decider(models, asked, RECORDED).calibration == calibration(0.5)
    assert widened({"precision": "mixed", "bound": 0.5}, 0.0)["bound"] == 0.5
    assert widened({"precision": "fp32"}, 3.0) == {"precision": "fp32"}


def test_another_precision_or_model_than_the_recorded_one_is_refused():
    """The bound of int8 says nothing about fp16."""
    for asked, begun, low, message in [
        (FP32, "mixed", None, "in mixed precision, which cannot change: give --precision mixed, or choose"),
        (MIXED, "fp32", "int8", "in fp32 precision, which cannot change: give --precision fp32, or choose"),
        (AUTO, "mixed", None, "the export has no low-precision model for this device"),
        (AUTO, "mixed", "fp16", "with the int8 model, and this device takes the fp16 model: choose another"),
    ]:
        opened = Models(MarginDecider([]), (lambda low=low: MarginDecider([], low)) if low else None)
        with pytest.raises(InputError, match=message):
            open_decider(opened, asked, {**RECORDED, "precision": begun})


def test_the_low_precision_model_is_opened_once_with_the_given_batches_or_missed_in_one_line(mini, monkeypatch):
    assert open_models(mini, CPU, FP32).low_precision is None
    usual = open_models(mini, CPU, AUTO)
    assert (usual.reference.batch_tokens, usual.low_precision.batch_tokens) == (512, 384)
    models = open_models(mini, CPU, AUTO, batch_tokens=64)
    assert models.low_precision.batch_tokens == models.reference.batch_tokens == 64
    assert (models.low_precision.precision, models.reference.precision) == ("int8", "fp32")
    assert models.low_precision is models.low_precision
    files = {name: mini.info["files"][name] for name in ("model.onnx", "tokenizer.json")}
    monkeypatch.setitem(mini.info, "files", files)
    with pytest.raises(InputError, match=r"--precision mixed: .* has no model\.int8\.onnx"):
        open_models(mini, CPU, MIXED)
    assert open_models(mini, CPU, AUTO).low_precision is None


FEWEST = 1_000


def test_the_bound_is_where_so_few_disagreements_are_improbable():
    """The definition by Clopper and Pearson: at the bound, 2 disagreements or fewer have a probability of 5 %."""
    assert stats.binom.cdf(2, 500, disagreement_bound(2, 500)) == pytest.approx(0.05)
    assert [disagreement_bound(0, 0), disagreement_bound(3, 3)] == [1.0, 1.0]  # nothing is known
    assert disagreement_bound(2, 3) < 1.0
    for audited, confidence in ((1, 0.95), (50, 0.999), (15_500, 0.95), (10**9, 0.999)):  # without a disagreement
        wanted = special.betaincinv(1, audited, confidence)
        assert disagreement_bound(0, audited, confidence) == pytest.approx(wanted, rel=1e-12)


@given(st.lists(st.tuples(st.integers(1, 4 * 10**6), st.floats(0, 0.5)), min_size=1, max_size=5))
def test_a_run_of_many_decisions_bounds_the_wrong_ones_at_a_fiftieth_of_a_percent(patterns):
    """Even if the hash audits three standard deviations fewer than expected."""
    share = audit_share(patterns, FEWEST)
    expected = share * sum(n * (1 - close) for n, close in patterns)
    fewer = int(expected - 3 * expected**0.5)
    assert share <= MOST or share * sum(n for n, _ in patterns) <= 1.001 * FEWEST
    assert share >= MOST or fewer < FEWEST or disagreement_bound(0, fewer) <= AIM


def test_the_numbers_that_the_documentation_tells_and_patterns_share_one_audit():
    """docs/exactness.md; 15,467 = 14,977 for the rule of three at 0.02 %, and four standard deviations."""
    for sentences, audited in {500: 500, 1_000: 1_000, 20_000: 1_000, 100_000: 5_000, 10**6: 15_467}.items():
        assert audit_share([(sentences, 0.0)], FEWEST) * sentences == pytest.approx(audited, abs=0.5)
    assert audit_share([(10**6, 0.1)] * 4, FEWEST) == pytest.approx(audit_share([(4 * 10**6, 0.1)], FEWEST))
    assert [audit_share([], FEWEST), audit_share([(0, 0.0)], FEWEST), audit_share([(1, 1.0)], 1)] == [1.0] * 3


def test_a_summary_in_numbers_and_in_words():
    for close, audited, wrong, said in [
        (42_000, 15_500, 0, "8.0 %|15,500 were made again in fp32: 0 were wrong, so at most 0.019 %|3.0 %"),
        (52_500, 52_500, 1, "10.0 %|52,500 were made again in fp32: 1 was wrong, so at most 0.009 %|10.0 %"),
    ]:
        found = audit_summary({"decided": 525_000, "close": close, "audited": audited, "disagreements": wrong})
        bound = disagreement_bound(wrong, audited)
        assert [*found.values()] == ["mixed", close / 525_000, audited, wrong, bound, audited / 525_000]
        calls, again, cost = said.split("|")
        begin = f"Mixed precision: {calls} of the decisions were close calls, made in fp32. Of the others, {again} are "
        assert audit_sentences(found) == [f"{begin}wrong (95 % confidence). Cost: {cost} of the time of fp32."]
    assert audit_summary({"tested": 3}) == {"kind": "fp32"}
    assert audit_sentences({"kind": "fp32"}) == []
