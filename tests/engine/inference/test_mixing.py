"""What holds for every kind of decision: which rows the reference model decides, what is counted, what is asked for."""

from dataclasses import dataclass

import numpy as np
import pytest
from margin_decider import calibration
from negengine.engine.inference.audit import Audit
from negengine.engine.inference.mixing import Mixed, even_numbers, take_audits


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
