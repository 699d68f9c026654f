"""Mixed precision gives the labels of fp32, and its audit finds and corrects what it gets wrong."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from label_table import LabelTable, label_calibration, numbered_pairs
from negengine.engine.choices import Precision
from negengine.engine.errors import InputError
from negengine.engine.inference.calibration import Calibration
from negengine.engine.inference.choosing import Workload, choose_precisions, open_decider, widened
from negengine.engine.inference.label_precision import LABELS, MixedClassifier, calibrate_labels, certainty
from negengine.engine.inference.mixing import take_audits
from negengine.engine.inference.precision import Models


def random_logits(n, seed, spread=3.0, labels=3):
    return np.random.default_rng(seed).normal(0, spread, (n, labels))


# ---------------------------------------------------------------- pairs


def test_chosen_pairs_keep_their_tokens_in_the_order_of_the_rows():
    pairs, rows = numbered_pairs(10), np.array([1, 2, 7])
    chosen = pairs.chosen(rows)
    assert len(chosen) == 3
    numbers = {int(row): int(ids[0]) for b in chosen.buckets for row, ids in zip(b.rows, b.ids, strict=True)}
    assert numbers == {0: 1, 1: 2, 2: 7}
    assert [bucket.ids.shape for bucket in chosen.buckets] == [(2, 3), (1, 4)]


def test_no_pair_chosen_gives_no_bucket():
    assert numbered_pairs(4).chosen(np.array([], np.int64)).buckets == ()


# ---------------------------------------------------------------- deciding


def test_close_calls_are_decided_in_fp32_and_only_those():
    low = LabelTable([[0.2, 0, -9], [3, 0, -9], [0, 0.1, 0.4], [-9, 0, 3]], "int8")
    exact = LabelTable([[0, 0.2, -9], [3, 0, -9], [0, 0.3, 0.2], [-9, 0, 3]])
    found = MixedClassifier(low, exact, label_calibration(0.5)).classify(numbered_pairs(4))
    assert found.label.tolist() == [1, 0, 1, 2]
    assert sorted(exact.classified) == [0, 2]
    assert found.precision.tolist() == [0, 1, 0, 1]


def test_a_label_that_is_always_too_high_is_corrected():
    """Label 1 is 1 too high: 1.2 above is a close call, and where the correction changes the label, fp32 decides."""
    low = LabelTable([[0, 1.2, -9], [0.5, 1, -9], [0, 4, -9]], "int8")
    exact = LabelTable([[0.1, 0, -9], [0.5, 0, -9], [0, 3, -9]])
    mixed = MixedClassifier(low, exact, label_calibration(0.3, (-1 / 3, 2 / 3, -1 / 3)))
    assert mixed.classify(numbered_pairs(3)).label.tolist() == [0, 0, 1]
    assert sorted(exact.classified) == [0, 1]


def test_progress_is_told_once_for_each_pair():
    told = []
    table = LabelTable(random_logits(7, 0))
    MixedClassifier(table, table, label_calibration(9.0)).classify(numbered_pairs(7), told.append)
    assert sum(told) == 7


@given(st.permutations(range(40)), st.integers(1, 39))
def test_a_label_depends_on_its_pair_alone(order, cut):
    """Neither on the order, nor on the part, nor on what was decided before."""
    truth = random_logits(40, 1)
    low = truth + random_logits(40, 2, 0.5)
    pairs = numbered_pairs(40)

    def classify(parts):
        exact = LabelTable(truth)
        mixed = MixedClassifier(LabelTable(low, "int8"), exact, label_calibration(0.8, audit_share=0.3, seed=4))
        found = np.empty((40, 3), np.float32)
        for rows in parts:
            found[rows] = mixed.classify(pairs.chosen(rows)).logits
        return found.tobytes(), sorted(exact.classified), mixed.take_audit()

    halves = [np.sort(np.array(part)) for part in (order[:cut], order[cut:])]
    assert classify(halves) == classify([np.arange(40)])


def test_a_disagreement_is_corrected_and_asks_for_a_wider_bound():
    truth = np.tile([0.0, 1.0, 0.0], (400, 1))
    low = truth.copy()
    low[:200] = [2.0, 0.0, 0.0]  # all these are wrong, far beyond the bound of 0.5
    mixed = MixedClassifier(LabelTable(low, "int8"), LabelTable(truth), label_calibration(0.5, audit_share=0.1))
    found = mixed.classify(numbered_pairs(400))
    audited = take_audits({"pairs": mixed})
    assert 0 < audited.counts["disagreements"] == np.count_nonzero(found.label[:200] == 1)
    assert audited.counts["audited"] > audited.counts["disagreements"]
    assert (audited.bounds, audited.needed) == ({"pairs": 0.5}, {"pairs": 1.5 * 2.0})


def test_the_certainty_is_the_margin_of_the_two_best_labels_unless_the_correction_changes_the_label():
    found = LabelTable([[4, 1, 2, 0], [0, 3, 2.5, 1]], "int8").classify(numbered_pairs(2))
    assert certainty(found, 0.0).tolist() == [2, 0.5]
    assert certainty(found, (0, 1, 0, 0)).tolist() == [2, 0]
    assert certainty(found, (1, 0, 0, 0)).tolist() == [1, 0.5]


def test_the_certainty_among_many_labels():
    logits = random_logits(200, 11, labels=40)
    found = certainty(LabelTable(logits, "int8").classify(numbered_pairs(200)), 0.0)
    ordered = np.sort(logits.astype(np.float32), axis=1)
    np.testing.assert_array_equal(found, ordered[:, -1] - ordered[:, -2])


# ---------------------------------------------------------------- the calibration


@pytest.mark.parametrize("labels", [2, 3])
def test_beyond_the_bound_every_measured_label_is_that_of_fp32(labels):
    truth = random_logits(3_000, 5, 1.0, labels)
    low = truth + random_logits(3_000, 6, 0.1, labels) + np.arange(labels) / 4
    found = calibrate_labels(LabelTable(low, "int8"), LabelTable(truth), numbered_pairs(3_000), seed=3)
    exact = LabelTable(truth)
    mixed = MixedClassifier(LabelTable(low, "int8"), exact, found)
    np.testing.assert_array_equal(mixed.classify(numbered_pairs(3_000)).label, LabelTable(truth).logits.argmax(axis=1))
    assert len(exact.classified) / 3_000 == pytest.approx(found.close)
    assert 0 < found.close < 0.5
    np.testing.assert_allclose(np.diff(found.bias), 1 / 4, atol=0.01)
    assert found.bound == pytest.approx(4.5 * 0.1 * 2**0.5, rel=0.1)
    assert (found.sentences, found.seed) == (3_000, 3)


def test_an_error_that_all_labels_share_does_not_count():
    truth = random_logits(50, 7)
    found = calibrate_labels(LabelTable(truth + 5, "int8"), LabelTable(truth), numbered_pairs(50), seed=0)
    np.testing.assert_allclose(found.bias, 0, atol=1e-6)
    assert found.bound < 1e-5


def test_the_label_with_the_larger_error_sets_the_bound():
    truth = random_logits(2_000, 8)
    low = truth + random_logits(2_000, 9, 1.0) * [0.01, 0.01, 0.3]
    found = calibrate_labels(LabelTable(low, "int8"), LabelTable(truth), numbered_pairs(2_000), seed=0)
    assert found.deviation == pytest.approx(0.3, rel=0.05)


def test_what_a_calibration_of_labels_measures():
    """The first label is too high by 1 and 0.5 in turn, the others by nothing. Without its bias, the margin of the last
    pair is as wide as the bound."""
    truth = np.tile([8.0, 0.0, 0.0], (8, 1))
    truth[7, 0] = 4.5 * 0.25 + 0.25
    low = truth + np.outer(np.resize([1.0, 0.5], 8), [1, 0, 0])
    found = calibrate_labels(LabelTable(low, "int8"), LabelTable(truth), numbered_pairs(8), seed=0)
    assert found.bias == pytest.approx((0.5, -0.25, -0.25))
    assert (found.deviation, found.bound) == (0.25, 4.5 * 0.25)
    assert (found.close, found.repeated, found.never) == (1 / 8, 0, ())


def test_a_calibration_comes_back_from_the_record_as_it_was():
    own = label_calibration(0.5, (0.1, -0.1))
    assert Calibration.from_json(json.loads(json.dumps(own.to_json()))) == own


# ---------------------------------------------------------------- choosing


def models(error=0.1):
    truth = random_logits(3_000, 5)
    low = truth + random_logits(3_000, 6, error)
    return Models(LabelTable(truth), lambda: LabelTable(low, "int8"))


def test_auto_chooses_mixed_precision_for_a_long_run_and_fp32_for_a_short_one():
    chosen = {}
    for total in (2_999, 3_000):
        work = Workload("pairs", numbered_pairs, total)
        found = choose_precisions(models(), Precision.AUTO, [work], seed=0, method=LABELS, speed_ratio=2.5)
        chosen[total] = found["pairs"]["precision"]
        assert found["pairs"].get("sentences", 300) == 300
        assert json.loads(json.dumps(found)) == found
    assert chosen == {2_999: "fp32", 3_000: "mixed"}


def test_a_short_run_does_not_open_the_low_precision_model():
    opened = Models(models().reference, lambda: pytest.fail("opened"))
    work = [Workload("pairs", numbered_pairs, 1_500)]
    found = choose_precisions(opened, Precision.AUTO, work, seed=0, method=LABELS, speed_ratio=2.5)
    assert open_decider(opened, Precision.AUTO, found["pairs"], LABELS) is opened.reference


def test_a_run_goes_on_with_the_classifier_that_it_recorded():
    recorded = {"precision": "mixed", **label_calibration(0.5).to_json()}
    decider = open_decider(models(), Precision.AUTO, widened(recorded, 0.7), LABELS)
    assert isinstance(decider, MixedClassifier)
    assert decider.calibration == replace(label_calibration(0.5), bound=0.7)
    with pytest.raises(InputError, match="started in mixed precision, which cannot change"):
        open_decider(models(), Precision.FP32, recorded, LABELS)
