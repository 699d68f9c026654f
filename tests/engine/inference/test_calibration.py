"""The calibration finds bias and bound of the low-precision model's margins, and the verbs that it gets wrong."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from label_table import LabelTable, numbered_pairs
from logits_table import LogitsTable
from logits_table import sample as logits_sample
from margin_decider import MarginDecider, calibration, sample, sentences
from negengine.engine.basics.errors import InputError
from negengine.engine.inference.mixed import (
    FIRST_CHOICES,
    LABELS,
    SENTENCES,
    Calibration,
    Mixed,
    calibrate,
    of_labels,
    of_margins,
    widest,
)


def test_calibration_measures_bias_deviation_and_bound():
    random = np.random.default_rng(0)
    truth = random.normal(0, 2, 1000)
    low, exact = MarginDecider(truth + 0.3 + random.normal(0, 0.1, 1000)), MarginDecider(truth)
    found = calibrate(SENTENCES, low, exact, sample(1000))
    assert found.bias == pytest.approx(0.3, abs=0.02)
    assert found.deviation == pytest.approx(0.1, abs=0.01)
    assert found.bound >= 4.5 * found.deviation
    assert (found.sentences, found.seed, found.audit_share) == (1000, 0, 0.0)  # benchmarks give no seed
    assert found.repeated == (truth > 0).sum()
    assert found.close == pytest.approx(np.mean(np.abs(truth) < found.bound), abs=0.05)


def test_a_verb_with_large_errors_is_left_to_fp32_and_does_not_widen_the_bound():
    random = np.random.default_rng(0)
    truth = random.normal(0, 2, 2000)
    ids, position, expected = sentences(2000)
    expected[::100] = 9
    noise = random.normal(0, 0.1, 2000)
    noise[::100] += random.choice([-3, 3], 20)
    low, exact = MarginDecider(truth + noise), MarginDecider(truth)
    found = calibrate(SENTENCES, low, exact, sample(2000, expected), audit_share=0)
    assert found.never == (9,)
    assert found.deviation == pytest.approx(0.1, abs=0.01)
    assert found.bound < 0.6
    mixed = Mixed(SENTENCES, low, exact, found)
    assert (mixed.decide(ids, position, expected).repeated(expected) == (truth > 0)).all()


def test_where_errors_are_large_everywhere_no_verb_is_excluded():
    random = np.random.default_rng(0)
    truth, noise = random.normal(0, 2, 2000), random.standard_cauchy(2000)
    expected = (np.arange(2000) % 50).astype(np.int32)
    found = calibrate(SENTENCES, MarginDecider(truth + noise), MarginDecider(truth), sample(2000, expected))
    assert found.never == ()
    assert found.bound > np.abs(noise).max() * 0.9


def calibrated(n, *more, truth=10.0):
    """Errors of 1 and -1 in turn, each of a verb of its own, and some more errors."""
    error = np.concatenate([np.resize([1.0, -1.0], n), more])
    exact = np.full(len(error), truth)
    verbs = np.arange(len(error), dtype=np.int32)
    return calibrate(SENTENCES, MarginDecider(exact + error), MarginDecider(exact), sample(len(error), verbs), seed=5)


def test_an_error_beyond_four_and_a_half_robust_deviations_is_outlying():
    """The median of the sizes is 1, so the limit is 4.5 · 1.4826 = 6.6717."""
    assert calibrated(98, 6.625, -6.625).never == ()
    assert calibrated(98, 6.75, -6.75).never == (98, 99)
    assert calibrated(0, *[0.0] * 50, 1.0).never == (50,)


def test_no_more_than_a_twentieth_of_the_sentences_is_outlying():
    assert len(calibrated(76, *[8.0, -8.0] * 2).never) == 4
    found = calibrated(94, *[8.0, -8.0] * 3)
    assert found.never == ()
    assert found.bound == pytest.approx(max(4.5 * found.deviation, 8.8))


def test_what_a_calibration_records():
    found = calibrated(98, 6.75, -6.75)
    assert (found.bias, found.deviation, found.bound) == (0.0, 1.0, 4.5)
    assert (found.close, found.sentences, found.repeated) == (0.02, 100, 100)
    assert (found.audit_share, found.seed, found.low_precision) == (0.0, 5, "int8")


def test_a_margin_as_wide_as_the_bound_is_close_and_one_of_nothing_is_no_repetition():
    error = np.resize([1.0, -1.0], 100)
    exact = np.full(100, 10.0)
    exact[:4] = [3.5, -3.5, 0.0, -9.0]  # with their errors 4.5, -4.5, 1 and -10
    found = calibrate(SENTENCES, MarginDecider(exact + error), MarginDecider(exact), sample(100))
    assert (found.bound, found.close, found.repeated) == (4.5, 0.03, 97)


@pytest.mark.parametrize(
    ("error", "bound"), [([1.0, -1.0], 4.5), ([0.0] * 999 + [10.0], 11.0), ([-10.0] + [0.0] * 999, 11.0)]
)
def test_the_bound_is_four_and_a_half_deviations_or_a_tenth_more_than_the_largest_error(error, bound):
    assert widest(np.array(error)) == pytest.approx(bound)


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


# ---------------------------------------------------------------- first choices and labels


def gaps(low, truth):
    return calibrate(FIRST_CHOICES, LogitsTable(low, "int8"), LogitsTable(truth), logits_sample(len(low)))


def test_what_a_calibration_of_first_choices_measures():
    """Token 0 is too high by 1 and 0.5 in turn. In the last sentence, its gap without the bias is the bound."""
    truth = np.tile([8.0, 0.0, -1.0], (8, 1))
    truth[7, 0] = 4.5 * 0.25 + 0.25
    found = gaps(truth + np.outer(np.resize([1.0, 0.5], 8), [1, 0, 0]), truth)
    assert (found.bias, found.deviation, found.bound) == (0.75, 0.25, 4.5 * 0.25)
    assert (found.close, found.never) == (1 / 8, ())


def test_a_wrong_first_choice_counts_with_all_that_it_is_behind():
    """The low-precision model puts token 1 first by 0.5; in fp32 token 2, which it has last, is ahead of it by 2."""
    assert gaps([[0, 0.5, -1]], [[0, 1, 3]]).bias == 0.5 + 2


def test_gaps_that_are_always_too_small_have_no_bias():
    """With a bias of -1, a gap of nothing would be beyond the bound."""
    truth = np.tile([2.0, 0.0], (10, 1))
    found = gaps(truth / 2, truth)
    assert (found.bias, found.bound) == (0, 0)
    assert of_margins(np.array([-1.0, -1.0])).bias == -1  # of a margin, whose sign decides, it is used


def test_what_a_calibration_of_labels_measures():
    """The first label is too high by 1 and 0.5 in turn, the others by nothing. Without its bias, the margin of the last
    pair is as wide as the bound."""
    truth = np.tile([8.0, 0.0, 0.0], (8, 1))
    truth[7, 0] = 4.5 * 0.25 + 0.25
    low = truth + np.outer(np.resize([1.0, 0.5], 8), [1, 0, 0])
    found = calibrate(LABELS, LabelTable(low, "int8"), LabelTable(truth), numbered_pairs(8))
    assert found.bias == pytest.approx((0.5, -0.25, -0.25))
    assert (found.deviation, found.bound) == (0.25, 4.5 * 0.25)
    assert (found.close, found.repeated, found.never) == (1 / 8, 0, ())


def test_an_error_that_all_labels_share_does_not_count_and_the_largest_sets_the_bound():
    random = np.random.default_rng(8)
    shared = of_labels(np.repeat(random.normal(0, 1, (50, 1)), 3, axis=1))
    np.testing.assert_allclose(shared.bias, 0, atol=1e-12)
    assert shared.bound < 1e-12
    found = of_labels(random.normal(0, 1, (2_000, 3)) * [0.01, 0.01, 0.3])
    assert found.deviation == pytest.approx(0.3, rel=0.05)
    assert found.bound >= 4.5 * found.deviation
