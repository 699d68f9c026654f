"""What holds for every kind of decision: which rows the reference model decides, what is counted, what is asked for."""

from dataclasses import dataclass

import numpy as np
import pytest
from label_table import LabelTable, label_calibration, numbered_pairs
from logits_table import LogitsTable, numbered
from logits_table import sample as logits_sample
from margin_decider import MarginDecider, calibration, sample, sentences
from negengine.engine.choices import Precision
from negengine.engine.errors import InputError
from negengine.engine.inference.audit import Audit
from negengine.engine.inference.choosing import SENTENCES, Workload, choose_precisions
from negengine.engine.inference.first_choice import FIRST_CHOICES, MixedFirstChoice
from negengine.engine.inference.label_precision import LABELS, MixedClassifier
from negengine.engine.inference.mixing import Mixed, even_numbers, take_audits
from negengine.engine.inference.precision import MixedDecider, Models


@dataclass
class Column:
    """One answer for each row."""

    values: np.ndarray

    def put(self, rows, other):
        self.values[rows] = other.values


class Table(Mixed):
    """Decides by a table: what the low-precision model answers in each row, how certain it is, the row's even number.

    The reference model answers 1 everywhere.
    """

    def __init__(self, low, certainty, even, **more):
        super().__init__(calibration(0.5, **more))
        self.low, self.certain, self.evens = (np.array(column, float) for column in (low, certainty, even))
        self.asked_exactly = []

    def answers(self, asked, advance):
        advance(len(asked))
        return Column(self.low[asked])

    def exact_answers(self, asked, rows):
        self.asked_exactly.append(asked[rows].tolist())
        return Column(np.ones(len(rows)))

    def certainty(self, found, asked):
        return self.certain[asked]

    def decided(self, found, asked):
        return found.values.copy()

    def even(self, asked):
        return self.evens[asked]

    def mixed(self, *rows):
        return self.mix(np.array(rows)).values.tolist()


def test_what_is_as_uncertain_as_the_bound_or_more_is_decided_exactly():
    table = Table([0, 0, 0], [0.25, 0.5, 0.75], [0.9] * 3)
    assert table.mixed(0, 1, 2) == [1, 1, 0]
    assert table.asked_exactly == [[0, 1]]
    assert table.take_audit() == (Audit(decided=3, close=2, audited=0, disagreements=0), 0.0)


def test_what_has_an_even_number_below_the_share_is_audited():
    table = Table([1, 1, 1], [9, 9, 9], [0.25, 0.5, 0.75], audit_share=0.5)
    table.mixed(0, 1, 2)
    assert table.asked_exactly == [[0]]
    assert table.take_audit() == (Audit(decided=3, close=0, audited=1, disagreements=0), 0.0)


def test_a_close_call_is_not_audited_and_never_a_disagreement():
    table = Table([0], [0.5], [0.0], audit_share=1.0)
    assert table.mixed(0) == [1]
    assert table.take_audit() == (Audit(decided=1, close=1, audited=0, disagreements=0), 0.0)


def test_where_nothing_is_close_or_audited_the_reference_model_is_not_asked():
    table = Table([0, 1], [0.75, 9], [0.5, 0.5], audit_share=0.25)
    assert table.mixed(0, 1) == [0, 1]
    assert table.asked_exactly == []


def test_the_widest_disagreement_of_all_calls_is_asked_for_and_counts_are_sums():
    table = Table([0, 0, 0, 1, 0], [2, 3, 1, 9, 0.1], [0.0] * 5, audit_share=1.0)
    assert table.mixed(0, 1) == [1, 1]
    assert table.needed == 1.5 * 3
    assert table.mixed(2, 3, 4) == [1, 1, 1]
    assert table.take_audit() == (Audit(decided=5, close=1, audited=4, disagreements=3), 4.5)
    assert table.take_audit() == (Audit(), 0.0)


def test_what_is_not_a_finite_number_is_decided_exactly():
    table = Table([0, 0, 0], [np.nan, np.inf, 9], [0.9] * 3)
    assert table.mixed(0, 1, 2) == [1, 1, 0]
    assert table.take_audit() == (Audit(decided=3, close=2, audited=0, disagreements=0), 0.0)


def _decided_by_margins(rows):
    exact, models = MarginDecider(rows), (MarginDecider(rows, "int8"),)
    MixedDecider(*models, exact, calibration(0.5)).decide(*sentences(len(rows)))
    return exact.decided


def _decided_by_first_choices(rows):
    logits = [[own, 0] for own in rows]
    exact = LogitsTable(logits)
    MixedFirstChoice(LogitsTable(logits, "int8"), exact, calibration(0.5)).decide_each(numbered(range(len(rows)), 1))
    return exact.decided


def _decided_by_labels(rows):
    logits = [[0, own] for own in rows]
    exact = LabelTable(logits)
    low = LabelTable(logits, "int8")
    MixedClassifier(low, exact, label_calibration(0.5, (0.0, 0.0))).classify(numbered_pairs(len(rows), 1))
    return exact.classified


@pytest.mark.parametrize("decided", [_decided_by_margins, _decided_by_first_choices, _decided_by_labels])
def test_low_precision_logits_that_are_not_finite_leave_the_decision_to_the_reference_model(decided):
    assert decided([9, np.nan, -9, np.inf, 9]) == [1, 3]


@pytest.mark.parametrize(
    ("method", "model", "sample"),
    [
        (SENTENCES, MarginDecider, sample),
        (FIRST_CHOICES, lambda rows, *own: LogitsTable([[row, 0] for row in rows], *own), logits_sample),
        (LABELS, lambda rows, *own: LabelTable([[row, 0] for row in rows], *own), numbered_pairs),
    ],
)
def test_one_value_that_is_not_finite_makes_a_calibration_worth_nothing(method, model, sample):
    for wrong in (np.nan, np.inf):
        numbers = np.full(3_000, 9.0)
        numbers[7] = wrong
        for low, reference in ((numbers, np.full(3_000, 9.0)), (np.full(3_000, 9.0), numbers)):
            models = Models(model(reference), lambda low=low: model(low, "int8"))
            work = [Workload("CpTp", sample, 10**6)]
            options = {"seed": 0, "method": method, "speed_ratio": 2.5}
            assert choose_precisions(models, Precision.AUTO, work, **options) == {
                "CpTp": {
                    "precision": "fp32",
                    "reason": "the low-precision model gives numbers that are not finite",
                }
            }
            with pytest.raises(
                InputError, match=r"^--precision mixed: 1 of [\d,]+ measured decisions .* give --precision fp32$"
            ):
                choose_precisions(models, Precision.MIXED, work, **options)


def test_the_audits_of_several_patterns_are_added_up():
    one, two = Table([0], [2], [0.0], audit_share=1.0), Table([1], [0.5], [0.0])
    one.mixed(0)
    two.mixed(0)
    found = take_audits({"Cp": one, "Cn": two, "Cv": "the reference model alone"})
    assert found.counts == {"decided": 2, "close": 1, "audited": 1, "disagreements": 1}
    assert (found.bounds, found.needed) == ({"Cp": 0.5, "Cn": 0.5}, {"Cp": 3.0, "Cn": 0.0})


def test_progress_is_told_by_the_low_precision_model():
    told = []
    Table([0], [9], [0.0]).mix(np.array([0]), told.append)
    assert told == [1]


def test_even_numbers_are_the_same_on_every_machine_and_in_every_version():
    """A resumed run, and the shards of one run, audit the same sentences."""
    ids = np.array([[101, 7, 102], [101, 8, 102]], np.int32)
    assert even_numbers(ids, 0).tolist() == [0.13731710231177152, 0.9960690212670891]
    assert even_numbers(ids, 1).tolist() == [0.9115884429363457, 0.7317432962822753]


def test_even_numbers_are_even():
    found = even_numbers(np.arange(30_000, dtype=np.int32).reshape(-1, 3), 0)
    assert found.min() >= 0
    assert found.max() < 1
    assert np.histogram(found, 10, (0, 1))[0] == pytest.approx(1_000, abs=150)


@pytest.mark.parametrize("name", ["answers", "exact_answers", "certainty", "decided", "even"])
def test_a_kind_of_decision_that_lacks_a_function_cannot_be_made(name):
    others = {other: getattr(Table, other) for other in Mixed.__abstractmethods__ - {name}}
    with pytest.raises(
        TypeError, match=rf"without an implementation for abstract method '?{name}|abstract method {name}"
    ):
        type("Incomplete", (Mixed,), others)(calibration(0.5))
