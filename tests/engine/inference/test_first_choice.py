"""Mixed precision gives the first choices of fp32, and its audit finds and corrects what it gets wrong."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from logits_table import LogitsTable, by_number, numbered, sample
from margin_decider import calibration
from negengine.engine.choices import Precision
from negengine.engine.inference.calibration import Calibration
from negengine.engine.inference.choosing import Workload, choose_precisions, open_decider
from negengine.engine.inference.first_choice import (
    FIRST_CHOICES,
    MixedFirstChoice,
    calibrate_first_choice,
    certainty,
)
from negengine.engine.inference.mixing import take_audits
from negengine.engine.inference.model import Decisions
from negengine.engine.inference.precision import Models


def random_logits(n, seed, spread=3.0, tokens=7):
    return np.random.default_rng(seed).normal(0, spread, (n, tokens))


def top1(mixed, n, *advance):
    groups = numbered(range(n))
    found = by_number(groups, mixed.decide_each(groups, *advance))
    return [found[number] for number in range(n)]


# ---------------------------------------------------------------- deciding


def test_close_calls_are_decided_in_fp32_and_only_those():
    low = LogitsTable([[0.2, 0, -9], [3, 0, -9], [0, 0.1, 0.4], [-9, 0, 3]], "int8")
    exact = LogitsTable([[0, 0.2, -9], [3, 0, -9], [0, 0.3, 0.2], [-9, 0, 3]])
    mixed = MixedFirstChoice(low, exact, calibration(0.5))
    assert top1(mixed, 4) == [1, 0, 1, 2]
    assert sorted(exact.decided) == [0, 2]


def test_every_row_names_the_model_that_gave_its_numbers():
    logits = [[0.2, 0], [3, 0], [0, 4], [0, 0.1], [5, 0], [0.3, 0]]
    groups = numbered(range(6), lengths=2)
    mixed = MixedFirstChoice(LogitsTable(logits, "int8"), LogitsTable(logits), calibration(0.5))
    found = mixed.decide_each(groups)
    assert [ids[:, 0].tolist() for ids, _, _ in groups] == [[0, 2, 4], [1, 3, 5]]
    assert [own.exact.tolist() for own in found] == [[True, False, False], [False, True, True]]


def test_what_is_expected_does_not_matter():
    """The expected token is far below; the two best ones are close."""
    logits = [[-9, 0.1, 0]]
    exact = LogitsTable(logits)
    MixedFirstChoice(LogitsTable(logits, "int8"), exact, calibration(0.5)).decide_each(numbered([0]))
    assert exact.decided == [0]


def test_a_gap_that_is_always_too_wide_is_corrected():
    exact = LogitsTable([[0, 0.1], [0.75, 0]])
    mixed = MixedFirstChoice(LogitsTable([[1.25, 0], [1.75, 0]], "int8"), exact, calibration(0.5, bias=1.0))
    assert top1(mixed, 2) == [1, 0]
    assert exact.decided == [0]


def test_a_gap_of_nothing_is_never_trusted():
    logits = [[1, 1, 0]]
    exact = LogitsTable(logits)
    MixedFirstChoice(LogitsTable(logits, "int8"), exact, calibration(0.0)).decide_each(numbered([0]))
    assert exact.decided == [0]


def test_progress_is_told_once_for_each_sentence():
    told = []
    table = LogitsTable(random_logits(7, 0))
    MixedFirstChoice(table, table, calibration(9.0)).decide_each(numbered(range(7)), told.append)
    assert sum(told) == 7


@given(st.permutations(range(40)), st.integers(1, 39))
def test_a_decision_depends_on_its_sentence_alone(order, cut):
    """Neither on the order, nor on the part, nor on what was decided before."""
    truth = random_logits(40, 1)
    low = truth + random_logits(40, 2, 0.5)

    def decide(parts):
        exact = LogitsTable(truth)
        mixed = MixedFirstChoice(LogitsTable(low, "int8"), exact, calibration(0.8, audit_share=0.3, seed=4))
        found = {}
        for part in parts:
            groups = numbered(part)
            found |= by_number(groups, mixed.decide_each(groups))
        return dict(sorted(found.items())), sorted(exact.decided), mixed.take_audit()

    assert decide([order[:cut], order[cut:]]) == decide([range(40)])


def test_a_disagreement_is_corrected_and_asks_for_a_wider_bound():
    truth = np.tile([0.0, 1.0, 0.0], (400, 1))
    low = truth.copy()
    low[:200] = [2.0, 0.0, 0.0]  # all these are wrong, far beyond the bound of 0.5
    mixed = MixedFirstChoice(LogitsTable(low, "int8"), LogitsTable(truth), calibration(0.5, audit_share=0.1))
    corrected = top1(mixed, 400)[:200].count(1)
    audited = take_audits({"all": mixed})
    assert 0 < audited.counts["disagreements"] == corrected
    assert audited.counts["audited"] > audited.counts["disagreements"]
    assert (audited.bounds, audited.needed) == ({"all": 0.5}, {"all": 1.5 * 2.0})


# ---------------------------------------------------------------- the calibration


@pytest.mark.parametrize("tokens", [2, 7, 50])
def test_beyond_the_bound_every_measured_first_choice_is_that_of_fp32(tokens):
    truth = random_logits(3_000, 5, 1.0, tokens)
    low = truth + random_logits(3_000, 6, 0.05, tokens)
    found = calibrate_first_choice(LogitsTable(low, "int8"), LogitsTable(truth), sample(3_000), 3)
    exact = LogitsTable(truth)
    mixed = MixedFirstChoice(LogitsTable(low, "int8"), exact, found)
    assert top1(mixed, 3_000) == LogitsTable(truth).logits.argmax(axis=1).tolist()
    assert len(exact.decided) / 3_000 == pytest.approx(found.close)
    assert 0 < found.close < 0.9
    assert (found.sentences, found.seed, found.never) == (3_000, 3, ())


def test_what_a_calibration_measures():
    """Token 0 is too high by 1 and 0.5 in turn. In the last sentence, its gap without the bias is the bound."""
    truth = np.tile([8.0, 0.0, -1.0], (8, 1))
    truth[7, 0] = 4.5 * 0.25 + 0.25
    low = truth + np.outer(np.resize([1.0, 0.5], 8), [1, 0, 0])
    found = calibrate_first_choice(LogitsTable(low, "int8"), LogitsTable(truth), sample(8), 0)
    assert (found.bias, found.deviation, found.bound) == (0.75, 0.25, 4.5 * 0.25)
    assert found.close == 1 / 8


def test_a_wrong_first_choice_counts_with_all_that_it_is_behind():
    """The low-precision model puts token 1 first by 0.5; in fp32 token 2, which it has last, is ahead of it by 2."""
    low, truth = [[0, 0.5, -1]], [[0, 1, 3]]
    found = calibrate_first_choice(LogitsTable(low, "int8"), LogitsTable(truth), sample(1), 0)
    assert found.bias == 0.5 + 2


def test_gaps_that_are_always_too_small_have_no_bias():
    """With a bias of -1, a gap of nothing would be beyond the bound."""
    truth = np.tile([2.0, 0.0], (10, 1))
    found = calibrate_first_choice(LogitsTable(truth / 2, "int8"), LogitsTable(truth), sample(10), 0)
    assert (found.bias, found.bound) == (0, 0)
    tie = Decisions.joined(LogitsTable([[1, 1]], "int8").decide_each(numbered([0])))
    assert certainty(tie, found.bias).tolist() == [0]


def test_a_calibration_comes_back_from_the_record_as_it_was():
    own = calibration(0.5, bias=0.25)
    assert Calibration.from_json(json.loads(json.dumps(own.to_json()))) == own


# ---------------------------------------------------------------- choosing


def test_auto_chooses_mixed_precision_for_a_long_run_and_its_decider_takes_groups():
    truth = random_logits(3_000, 5)
    models = Models(LogitsTable(truth), lambda: LogitsTable(truth + random_logits(3_000, 6, 0.01), "int8"))
    chosen = {}
    for total in (9_999, 10_000):
        work = [Workload("all", sample, total)]
        found = choose_precisions(models, Precision.AUTO, work, seed=0, method=FIRST_CHOICES, speed_ratio=2.5)
        chosen[total] = found["all"]["precision"]
    assert chosen == {9_999: "fp32", 10_000: "mixed"}
    decider = open_decider(models, Precision.AUTO, found["all"], FIRST_CHOICES)
    assert isinstance(decider, MixedFirstChoice)
    assert replace(decider.calibration, audit_share=0) == replace(Calibration.from_json(found["all"]), audit_share=0)
