"""Mixed precision decides as fp32 does, and its audit finds and corrects what it gets wrong."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from negengine.engine.choices import Precision
from negengine.engine.errors import InputError
from negengine.engine.inference.batches import ignored
from negengine.engine.inference.device import CPU
from negengine.engine.inference.model import Decisions
from negengine.engine.inference.precision import (
    AUDIT_SENTENCES,
    Calibration,
    MixedDecider,
    Models,
    Workload,
    audit_summary,
    calibrate,
    calibrate_pattern,
    disagreement_bound,
    open_decider,
    open_models,
    take_audits,
    widened,
)
from negengine.engine.sentences.spans import Bucket, EncodedSentences

TEN_TIMES_FASTER, NO_FASTER = (0.0, 1.0, 1.0, 11.0), (0.0, 10.0, 10.0, 20.0)  # what a clock says


class MarginDecider:
    """Decides by a table: the sentence's first token is its number, its margin the table's entry."""

    def __init__(self, margins):
        self.margins = np.asarray(margins, np.float32)
        self.decided = []

    def decide(self, ids, mask_position, expected, advance=ignored):
        margin = self.margins[ids[:, 0]]
        self.decided += ids[:, 0].tolist()
        decisions = Decisions.empty(len(ids))
        decisions.ids[:, 0] = np.where(margin > 0, expected, expected + 1)
        decisions.logits[:] = np.stack([np.maximum(margin, 0), np.minimum(0, margin), margin, margin], axis=1)
        decisions.logits[margin > 0, 1] = 0
        advance(len(ids))
        return decisions


def sentences(n):
    ids = np.repeat(np.arange(n, dtype=np.int32)[:, None], 3, axis=1)
    return ids, np.ones(n, np.int32), np.full(n, 5, np.int32)


def sample(n, expected=None):
    ids, position, usual = sentences(n)
    return EncodedSentences([Bucket(np.arange(n), ids, position)], usual if expected is None else expected)


def calibration(bound, bias=0.0, **more):
    more = {"never": (), "audit_share": 0.0, **more}
    return Calibration(bias=bias, deviation=bound / 4.5, bound=bound, close=0.1, speedup=2.0, sentences=1000, **more)


def test_margins_of_the_fake_are_what_it_was_told():
    ids, position, expected = sentences(4)
    decider = MarginDecider([0.5, -0.5, 2, -2])
    np.testing.assert_allclose(decider.decide(ids, position, expected).margin(expected), [0.5, -0.5, 2, -2])


# ---------------------------------------------------------------- deciding


def test_close_calls_are_decided_in_fp32_and_only_those():
    exact = MarginDecider([0.1, -0.1, 3, -3])
    mixed = MixedDecider(MarginDecider([-0.1, 0.2, 3, -3]), exact, calibration(0.5))
    ids, position, expected = sentences(4)
    assert mixed.decide(ids, position, expected).repeated(expected).tolist() == [True, False, True, False]
    assert exact.decided == [0, 1]


def test_a_low_precision_model_that_is_off_by_a_constant_is_corrected_by_it():
    """All margins are 1 too high: what seems to be 1.2 is a close call, what seems to be 0.2 is a clear no."""
    low = MarginDecider([1.2, 0.2, 4])
    exact = MarginDecider([-0.1, -0.8, 3])
    mixed = MixedDecider(low, exact, calibration(0.5, bias=1.0))
    ids, position, expected = sentences(3)
    # 0.2 is corrected to -0.8: the sign changes, so nothing is certain, and fp32 decides.
    assert mixed.decide(ids, position, expected).repeated(expected).tolist() == [False, False, True]


def test_verbs_that_the_low_precision_model_gets_wrong_are_left_to_fp32():
    exact = MarginDecider([9, 9, 9])
    mixed = MixedDecider(MarginDecider([9, 9, 9]), exact, calibration(0.5, never=(7,)))
    ids, position, expected = sentences(3)
    expected[1] = 7
    mixed.decide(ids, position, expected)
    assert exact.decided == [1]


def test_progress_is_told_once_for_each_sentence():
    mixed = MixedDecider(MarginDecider([0.1, 9]), MarginDecider([0.1, 9]), calibration(0.5))
    told = []
    mixed.decide(*sentences(2), told.append)
    assert told == [2]


@given(st.permutations(range(60)), st.integers(1, 59))
def test_a_decision_depends_on_its_sentence_alone(order, cut):
    """Neither on the order, nor on the batch, nor on what was decided before."""
    random = np.random.default_rng(1)
    truth = random.normal(0, 3, 60)
    low = truth + random.normal(0, 1, 60)
    ids, position, expected = sentences(60)

    def decide(rows):
        exact = MarginDecider(truth)
        mixed = MixedDecider(MarginDecider(low), exact, calibration(0.5, audit_share=0.3, seed=4))
        found = np.empty((60, 4), np.float32)
        for part in rows:
            found[part] = mixed.decide(ids[part], position[part], expected[part]).logits
        return found.tobytes(), sorted(exact.decided), mixed.take_audit()

    assert decide([np.array(order[:cut]), np.array(order[cut:])]) == decide([np.arange(60)])


# ---------------------------------------------------------------- the audit


def audited(n=20_000, **more):
    """Which of n clear decisions are audited."""
    exact = MarginDecider(np.full(n, 9.0))
    MixedDecider(MarginDecider(np.full(n, 9.0)), exact, calibration(0.5, **more)).decide(*sentences(n))
    return set(exact.decided)


@pytest.mark.parametrize("share", [0.0, 0.005, 0.1, 1.0])
def test_the_audit_takes_its_share(share):
    assert len(audited(audit_share=share)) / 20_000 == pytest.approx(share, abs=0.01 if 0 < share < 1 else 0)


def test_a_larger_audit_has_the_smaller_one_in_it():
    assert audited(audit_share=0.01) < audited(audit_share=0.1)


def test_another_seed_audits_other_sentences():
    one, other = (audited(audit_share=0.1, seed=seed) for seed in (0, 1))
    assert len(one & other) == pytest.approx(200, abs=60)  # a tenth of a tenth


def test_a_disagreement_is_corrected_and_asks_for_a_wider_bound():
    truth = np.full(400, 1.0)
    low = truth.copy()
    low[:200] = -2.0  # all these are wrong, far beyond the bound of 0.5
    mixed = MixedDecider(MarginDecider(low), MarginDecider(truth), calibration(0.5, audit_share=0.1))
    ids, position, expected = sentences(400)
    repeated = mixed.decide(ids, position, expected).repeated(expected)
    assert mixed.needed == 1.5 * 2.0
    assert mixed.calibration.bound == 0.5  # of this part: a wider one decides it anew
    found = take_audits({"CpTp": mixed, "CpTn": MarginDecider([0])})
    assert 0 < found.counts["disagreements"] == repeated[:200].sum()
    assert found.counts["audited"] > found.counts["disagreements"]
    assert (found.counts["decided"], found.counts["close"]) == (400, 0)
    assert (found.bounds, found.needed) == ({"CpTp": 0.5}, {"CpTp": 3.0})


def test_each_audit_is_taken_once():
    mixed = MixedDecider(MarginDecider([9.0]), MarginDecider([-9.0]), calibration(0.5, audit_share=1.0))
    mixed.decide(*sentences(1))
    assert take_audits({"CpTp": mixed}).needed == {"CpTp": 13.5}
    assert take_audits({"CpTp": mixed}).needed == {"CpTp": 0.0}


def test_a_widened_bound_decides_the_sentences_that_asked_for_it_in_fp32():
    choice = {"precision": "mixed", **calibration(0.5, audit_share=1.0).to_json()}
    models = Models(MarginDecider([1.0]), MarginDecider([-2.0]))
    wide = open_decider(models, Precision.AUTO, widened(choice, 3.0))
    wide.decide(*sentences(1))
    found = take_audits({"CpTp": wide})
    assert (found.bounds, found.needed, found.counts["close"]) == ({"CpTp": 3.0}, {"CpTp": 0.0}, 1)


def test_a_choice_is_never_narrowed_and_fp32_stays_fp32():
    assert widened({"precision": "mixed", "bound": 0.5}, 0.0)["bound"] == 0.5
    assert widened({"precision": "fp32"}, 3.0) == {"precision": "fp32"}


def test_disagreement_bound_of_no_disagreements_is_the_rule_of_three():
    """With 0 of n the exact bound is 1 - 0.05 ** (1 / n), about 3 / n."""
    assert disagreement_bound(0, 1000) == pytest.approx(1 - 0.05 ** (1 / 1000))
    assert disagreement_bound(0, 0) == 1.0
    assert disagreement_bound(2, 1000) > disagreement_bound(1, 1000) > 0.001


def test_disagreement_bound_is_where_so_few_disagreements_are_improbable():
    """The definition by Clopper and Pearson: at the bound, 2 disagreements or fewer have a probability of 5 %."""
    from scipy import stats

    assert stats.binom.cdf(2, 500, disagreement_bound(2, 500)) == pytest.approx(0.05)


def test_a_summary_without_mixed_parts_is_fp32():
    assert audit_summary({"tested": 3}) == {"kind": "fp32"}


def test_a_summary_tells_the_bound_on_wrong_decisions():
    found = audit_summary({"decided": 1000, "close": 100, "audited": 50, "disagreements": 0})
    assert (found["kind"], found["close_calls"], found["audited"]) == ("mixed", 0.1, 50)
    assert found["disagreement_rate_upper_bound"] == disagreement_bound(0, 50)


# ---------------------------------------------------------------- calibration


def test_calibration_measures_bias_deviation_and_bound():
    random = np.random.default_rng(0)
    truth = random.normal(0, 2, 1000)
    low, exact = MarginDecider(truth + 0.3 + random.normal(0, 0.1, 1000)), MarginDecider(truth)
    found = calibrate(low, exact, sample(1000))
    assert found.bias == pytest.approx(0.3, abs=0.02)
    assert found.deviation == pytest.approx(0.1, abs=0.01)
    assert found.bound >= 4.5 * found.deviation
    assert found.sentences == 1000
    assert found.close == pytest.approx(np.mean(np.abs(truth) < found.bound), abs=0.05)


def test_a_verb_with_large_errors_is_left_to_fp32_and_does_not_widen_the_bound():
    random = np.random.default_rng(0)
    truth = random.normal(0, 2, 2000)
    ids, position, expected = sentences(2000)
    expected[::100] = 9
    noise = random.normal(0, 0.1, 2000)
    noise[::100] += random.choice([-3, 3], 20)
    low, exact = MarginDecider(truth + noise), MarginDecider(truth)
    found = calibrate(low, exact, sample(2000, expected), audit_share=0)
    assert found.never == (9,)
    assert found.deviation == pytest.approx(0.1, abs=0.01)
    assert found.bound < 0.6
    mixed = MixedDecider(low, exact, found)
    assert (mixed.decide(ids, position, expected).repeated(expected) == (truth > 0)).all()


def test_where_errors_are_large_everywhere_no_verb_is_excluded():
    random = np.random.default_rng(0)
    truth, noise = random.normal(0, 2, 2000), random.standard_cauchy(2000)
    expected = (np.arange(2000) % 50).astype(np.int32)
    found = calibrate(MarginDecider(truth + noise), MarginDecider(truth), sample(2000, expected))
    assert found.never == ()
    assert found.bound > np.abs(noise).max() * 0.9


def test_calibration_depends_on_no_clock_but_for_the_speed():
    random = np.random.default_rng(0)
    truth = random.normal(0, 2, 100)
    low, exact = MarginDecider(truth + random.normal(0, 0.1, 100)), MarginDecider(truth)
    fast, slow = (
        calibrate(low, exact, sample(100), clock=iter(times).__next__) for times in (TEN_TIMES_FASTER, NO_FASTER)
    )
    assert fast.speedup == pytest.approx(1 / (0.1 + fast.close + fast.audit_share))
    assert fast.speedup > slow.speedup
    assert {**fast.to_json(), "speedup": 0} == {**slow.to_json(), "speedup": 0}


def test_a_clock_that_stands_still_is_not_an_error():
    assert calibrate(MarginDecider([9.0]), MarginDecider([9.0]), sample(1), clock=lambda: 0.0).speedup > 1


@given(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(0, 1e6),
    st.lists(st.integers(0, 10**6), max_size=4),
    st.floats(0, 1),
)
def test_a_calibration_comes_back_from_json_with_the_same_bits(bias, bound, never, share):
    whole = calibration(bound, bias, never=tuple(never), audit_share=share, seed=3)
    assert Calibration.from_json(json.loads(json.dumps({"precision": "mixed", **whole.to_json()}))) == whole


@pytest.mark.parametrize("change", [{"bound": "wide"}, {"bound": None}, {"never": 3}, {"never": ["a"]}])
def test_a_calibration_of_something_else_is_one_line(change):
    with pytest.raises(InputError, match=r"^run\.json holds a wrong calibration .*; choose another --output$"):
        Calibration.from_json({**calibration(0.5).to_json(), **change})


# ---------------------------------------------------------------- choosing


def workload(total=10**6, own=10**6):
    return Workload("CpTp", sample, total, own)


def choose(precision, clock=TEN_TIMES_FASTER, work=None, models=None, **options):
    models = models or Models(MarginDecider(np.full(3_000, 9.0)), MarginDecider(np.full(3_000, 9.0)))
    said = []
    choice = calibrate_pattern(
        models, precision, work or workload(), say=said.append, clock=iter(clock).__next__, **{"seed": 0, **options}
    )
    assert json.loads(json.dumps(choice)) == choice
    return choice, said


def test_mixed_is_chosen_where_it_is_faster():
    choice, said = choose(Precision.AUTO)
    assert choice["precision"] == "mixed"
    checked = "(0.0% of 3,000 measured sentences are checked again in fp32)"
    assert said == [f"CpTp: mixed precision, about 9.5 times as fast as fp32 {checked}"]


def test_auto_takes_fp32_where_the_low_precision_model_is_not_faster():
    choice, said = choose(Precision.AUTO, NO_FASTER)
    assert choice == {"precision": "fp32", "reason": "mixed precision would be 1.00 times as fast"}
    assert said[0].startswith("CpTp: fp32; mixed precision would be 1.00 times as fast")
    assert choose(Precision.MIXED, NO_FASTER)[0]["precision"] == "mixed"


def test_auto_takes_fp32_for_a_short_run_without_measuring():
    models = Models(MarginDecider([]), MarginDecider([]))
    choice, said = choose(Precision.AUTO, (), workload(own=10), models)
    assert choice["precision"] == "fp32"
    assert "with 10 sentences" in choice["reason"]
    assert said == []


def test_without_a_low_precision_model_fp32_decides():
    assert choose(Precision.AUTO, (), models=Models(MarginDecider([])))[0]["precision"] == "fp32"


@pytest.mark.parametrize(("total", "measured"), [(7, 7), (312, 312), (15_000, 1_000), (40_000, 2_000), (10**7, 3_000)])
def test_no_more_is_measured_than_the_run_has_and_a_twentieth_at_most_of_a_long_one(total, measured):
    assert choose(Precision.MIXED, work=workload(total))[0]["sentences"] == measured


def test_all_shards_measure_the_same_sentences():
    whole, shard = (choose(Precision.MIXED, work=workload(own=own))[0] for own in (10**6, 3))
    assert whole == shard


@pytest.mark.parametrize("total", [AUDIT_SENTENCES // 2, 10_000, 10**6])
def test_the_audit_of_a_whole_run_is_large_enough(total):
    share = choose(Precision.MIXED, work=workload(total))[0]["audit_share"]
    assert share * total >= min(total, AUDIT_SENTENCES)


# ---------------------------------------------------------------- opening


def test_a_run_goes_on_with_the_precision_that_it_recorded():
    models = Models(MarginDecider([]), MarginDecider([]))
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
    with pytest.raises(InputError, match=message):
        open_decider(Models(*[MarginDecider([])] * models), asked, {"precision": begun, "bound": 0.5})


def test_mixed_without_a_low_precision_model_is_one_line(mini, monkeypatch):
    monkeypatch.setitem(
        mini.info, "files", {name: mini.info["files"][name] for name in ("model.onnx", "tokenizer.json")}
    )
    with pytest.raises(InputError, match=r"--precision mixed: .* has no model\.int8\.onnx"):
        open_models(mini, CPU, Precision.MIXED)
    assert open_models(mini, CPU, Precision.AUTO).low_precision is None


def test_fp32_opens_the_reference_model_alone(mini):
    assert open_models(mini, CPU, Precision.FP32).low_precision is None


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
