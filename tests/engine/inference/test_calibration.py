"""The calibration finds bias and bound of the low-precision model's margins, and the verbs that it gets wrong."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from margin_decider import MarginDecider, calibration, sample, sentences
from negengine.engine.errors import InputError
from negengine.engine.inference.calibration import Calibration, calibrate
from negengine.engine.inference.precision import MixedDecider


def test_calibration_measures_bias_deviation_and_bound():
    random = np.random.default_rng(0)
    truth = random.normal(0, 2, 1000)
    low, exact = MarginDecider(truth + 0.3 + random.normal(0, 0.1, 1000)), MarginDecider(truth)
    found = calibrate(low, exact, sample(1000))
    assert found.bias == pytest.approx(0.3, abs=0.02)
    assert found.deviation == pytest.approx(0.1, abs=0.01)
    assert found.bound >= 4.5 * found.deviation
    assert found.sentences == 1000
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
