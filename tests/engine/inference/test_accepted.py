"""Several accepted tokens at the mask: decisions, margins, mixed precision."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from logits_table import LogitsTable
from margin_decider import calibration, sentences
from negengine.engine.inference.mixed import SENTENCES, Mixed, calibrate
from negengine.engine.text.token_ids import Bucket, EncodedSentences

LOGITS = st.lists(st.lists(st.integers(-40, 40), min_size=6, max_size=6, unique=True), min_size=1, max_size=20)
ACCEPTED = st.lists(st.integers(0, 5), min_size=1, max_size=4)


def decide(logits, expected):
    ids, position, _ = sentences(len(logits))
    return LogitsTable(logits).decide(ids, position, expected)


@given(LOGITS, ACCEPTED, st.integers(0, 2**32 - 1), st.floats(0.01, 2))
def test_a_margin_has_the_sign_of_the_true_one_is_never_wider_and_its_error_is_bounded(logits, accepted, seed, most):
    """A change of all logits changes it by at most twice as much, also where the decision changes."""
    table = np.array(logits, np.float32) / 8
    expected = np.tile(np.array(accepted, np.int32), (len(table), 1))
    found = decide(table, expected)
    margin, own = found.margin(expected), sorted(set(accepted))
    truth = table[:, own].max(axis=1) - np.delete(table, own, axis=1).max(axis=1)
    assert found.repeated(expected).tolist() == (truth > 0).tolist()
    assert (np.sign(margin) == np.sign(truth)).all()
    assert (np.abs(margin) <= np.abs(truth) + 1e-6).all()
    if len(own) == 1:  # nothing is unknown
        np.testing.assert_allclose(margin, truth, atol=1e-6)
        np.testing.assert_array_equal(margin, found.margin(expected[:, 0]))
    changed = table + np.random.default_rng(seed).uniform(-most, most, table.shape).astype(np.float32)
    assert np.abs(margin - decide(changed, expected).margin(expected)).max() <= 2 * most + 1e-4


def test_mixed_precision_decides_as_the_reference_model():
    random, n = np.random.default_rng(5), 4_000
    truth = random.normal(0, 2, (n, 12))
    low, exact = LogitsTable(truth + random.normal(0, 0.05, truth.shape), "int8"), LogitsTable(truth)
    expected = random.integers(0, 12, (n, 3)).astype(np.int32)
    expected[::2] = expected[::2, :1]  # half of the verbs have one form
    ids, position, _ = sentences(n)
    sample = EncodedSentences([Bucket(np.arange(500), ids[:500], position[:500])], expected[:500])
    found = calibrate(SENTENCES, low, exact, sample)
    exact.decided.clear()
    decisions = Mixed(SENTENCES, low, exact, found).decide(ids, position, expected)
    best = exact.logits.argmax(axis=1)
    assert decisions.repeated(expected).tolist() == (expected == best[:, None]).any(axis=1).tolist()
    assert 0 < len(set(exact.decided)) < n / 2  # the low-precision model decided most of them alone


def test_two_accepted_tokens_that_are_close_are_a_close_call():
    """Which of them is first does not matter, but the margin cannot tell: the reference model decides."""
    low, exact = LogitsTable([[5, 4.9, 0, 0]], "int8"), LogitsTable([[4.9, 5, 0, 0]])
    ids, position, _ = sentences(1)
    found = Mixed(SENTENCES, low, exact, calibration(0.5)).decide(ids, position, np.array([[0, 1]], np.int32))
    assert found.repeated(np.array([[0, 1]], np.int32)).tolist() == [True]
    assert exact.decided == [0]
    assert found.expected_rank.tolist() == [2]  # rank and log-probability are those of the main token
    assert found.expected_logprob[0] < found.top1_logprob[0]
