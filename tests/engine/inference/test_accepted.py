"""Several accepted tokens at the mask: decisions, margins, mixed precision."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from margin_decider import calibration
from negengine.engine.inference.batches import ignored
from negengine.engine.inference.mixed import SENTENCES, Mixed, calibrate
from negengine.engine.inference.model import Decisions, main_token
from negengine.engine.text.token_ids import Bucket, EncodedSentences


class LogitsDecider:
    """A model whose logits are a table: the first token of a sentence is its row."""

    def __init__(self, logits, precision="fp32"):
        self.table, self.precision, self.decided = np.asarray(logits, np.float32), precision, []

    def decide(self, ids, mask_position, expected, advance=ignored):
        self.decided += ids[:, 0].tolist()
        logits, asked = self.table[ids[:, 0]], main_token(expected)
        found = Decisions.empty(len(ids), self.precision)
        own = np.take_along_axis(logits, asked[:, None], axis=1)
        found.ids[:] = np.stack([logits.argmax(axis=1), 1 + (logits > own).sum(axis=1)], axis=1)
        ordered = np.sort(logits, axis=1)
        found.logits[:] = np.stack([ordered[:, -1], ordered[:, -2], own[:, 0], np.log(np.exp(logits).sum(1))], axis=1)
        advance(len(ids))
        return found


def sentences(n):
    ids = np.repeat(np.arange(n, dtype=np.int32)[:, None], 3, axis=1)
    return ids, np.ones(n, np.int32)


def true_margin(logits, accepted):
    """The best accepted logit minus the best other one."""
    others = np.delete(logits, list(set(accepted)))
    return logits[list(set(accepted))].max() - others.max()


LOGITS = st.lists(st.lists(st.integers(-40, 40), min_size=6, max_size=6, unique=True), min_size=1, max_size=20)
ACCEPTED = st.lists(st.integers(0, 5), min_size=1, max_size=4)


@given(LOGITS, ACCEPTED)
def test_a_margin_has_the_sign_of_the_true_one_and_is_never_wider(logits, accepted):
    table = np.array(logits, np.float32) / 8
    expected = np.tile(np.array(accepted, np.int32), (len(table), 1))
    found = LogitsDecider(table).decide(*sentences(len(table)), expected)
    margin = found.margin(expected)
    truth = np.array([true_margin(row, accepted) for row in table])
    assert found.repeated(expected).tolist() == (truth > 0).tolist()
    assert (np.sign(margin) == np.sign(truth)).all()
    assert (np.abs(margin) <= np.abs(truth) + 1e-6).all()
    if len(set(accepted)) == 1:  # nothing is unknown
        np.testing.assert_allclose(margin, truth, atol=1e-6)
        np.testing.assert_array_equal(margin, found.margin(expected[:, 0]))


@given(LOGITS, ACCEPTED, st.integers(0, 2**32 - 1), st.floats(0.01, 2))
def test_a_change_of_all_logits_changes_the_margin_by_at_most_twice_as_much(logits, accepted, seed, most):
    """So the error of the low-precision margin is bounded as that of a logit is, also where the decision changes."""
    table = np.array(logits, np.float32) / 8
    changed = table + np.random.default_rng(seed).uniform(-most, most, table.shape).astype(np.float32)
    expected = np.tile(np.array(accepted, np.int32), (len(table), 1))
    one, other = (
        LogitsDecider(own).decide(*sentences(len(table)), expected).margin(expected) for own in (table, changed)
    )
    assert np.abs(one - other).max() <= 2 * most + 1e-4


@pytest.fixture
def models():
    random = np.random.default_rng(5)
    exact = random.normal(0, 2, (4_000, 12))
    return LogitsDecider(exact + random.normal(0, 0.05, exact.shape), "int8"), LogitsDecider(exact)


def test_mixed_precision_decides_as_the_reference_model(models):
    low, exact = models
    n = len(exact.table)
    random = np.random.default_rng(6)
    expected = random.integers(0, 12, (n, 3)).astype(np.int32)
    expected[::2] = expected[::2, :1]  # half of the verbs have one form
    ids, position = sentences(n)
    sample = EncodedSentences([Bucket(np.arange(500), ids[:500], position[:500])], expected[:500])
    found = calibrate(SENTENCES, low, exact, sample, audit_share=0.0)
    exact.decided.clear()
    decisions = Mixed(SENTENCES, low, exact, found).decide(ids, position, expected)
    truth = exact.table.argmax(axis=1)
    assert decisions.repeated(expected).tolist() == (expected == truth[:, None]).any(axis=1).tolist()
    assert 0 < len(set(exact.decided)) < n / 2  # the low-precision model decided most of them alone


def test_two_accepted_tokens_that_are_close_are_a_close_call(models):
    """Which of them is first does not matter, but the margin cannot tell: the reference model decides."""
    low = LogitsDecider([[5, 4.9, 0, 0]], "int8")
    exact = LogitsDecider([[4.9, 5, 0, 0]])
    mixed = Mixed(SENTENCES, low, exact, calibration(0.5))
    decisions = mixed.decide(*sentences(1), np.array([[0, 1]], np.int32))
    assert decisions.repeated(np.array([[0, 1]], np.int32)).tolist() == [True]
    assert exact.decided == [0]


def test_rank_and_log_probability_are_those_of_the_main_token():
    model = LogitsDecider([[3, 4, 1, 0]])
    expected = np.array([[0, 1]], np.int32)
    found = model.decide(*sentences(1), expected)
    assert found.repeated(expected).tolist() == [True]
    assert found.expected_rank.tolist() == [2]
    assert found.expected_logprob[0] < found.top1_logprob[0]
