"""Mixed precision decides as fp32 does, and its audit finds and corrects what it gets wrong."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from margin_decider import MarginDecider, calibration, sentences
from negengine.engine.choices import Precision
from negengine.engine.errors import InputError
from negengine.engine.inference.choosing import open_decider, widened
from negengine.engine.inference.device import CPU
from negengine.engine.inference.precision import MixedDecider, Models, open_models, take_audits


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


def test_a_margin_of_nothing_is_never_trusted():
    """Corrected by the bias it is wide, but no sign says what it was."""
    exact = MarginDecider([0.25])
    mixed = MixedDecider(MarginDecider([0.0]), exact, calibration(0.5, bias=1.0))
    mixed.decide(*sentences(1))
    assert exact.decided == [0]


def test_what_is_a_little_beyond_the_bound_is_decided_without_fp32():
    exact = MarginDecider([0.625, -0.625, 0.5])
    mixed = MixedDecider(MarginDecider([0.625, -0.625, 0.5]), exact, calibration(0.5))
    mixed.decide(*sentences(3))
    assert exact.decided == [2]


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
    models = Models(MarginDecider([1.0]), lambda: MarginDecider([-2.0], "int8"))
    wide = open_decider(models, Precision.AUTO, widened(choice, 3.0))
    wide.decide(*sentences(1))
    found = take_audits({"CpTp": wide})
    assert (found.bounds, found.needed, found.counts["close"]) == ({"CpTp": 3.0}, {"CpTp": 0.0}, 1)


# ---------------------------------------------------------------- opening


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
def test_the_low_precision_model_is_opened_when_it_is_asked_for_first(mini, precision):
    models = open_models(mini, CPU, precision)
    assert models.open_low_precision is not None
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
