"""The audit is large enough for its bound, and the bound is the one of Clopper and Pearson."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from negengine.engine.inference.audit import (
    AIM,
    MOST,
    audit_sentences,
    audit_share,
    audit_summary,
    disagreement_bound,
)

FEWEST = 1_000


def test_disagreement_bound_of_no_disagreements_is_the_rule_of_three():
    """With 0 of n the exact bound is 1 - 0.05 ** (1 / n), about 3 / n."""
    assert disagreement_bound(0, 1000) == pytest.approx(1 - 0.05 ** (1 / 1000))
    assert disagreement_bound(0, 0) == 1.0
    assert disagreement_bound(2, 1000) > disagreement_bound(1, 1000) > 0.001


def test_disagreement_bound_is_where_so_few_disagreements_are_improbable():
    """The definition by Clopper and Pearson: at the bound, 2 disagreements or fewer have a probability of 5 %."""
    from scipy import stats

    assert stats.binom.cdf(2, 500, disagreement_bound(2, 500)) == pytest.approx(0.05)


@pytest.mark.parametrize("audited", [1, 50, 1_000, 15_500, 10**9])
@pytest.mark.parametrize("confidence", [0.95, 0.999])
def test_without_a_disagreement_the_bound_is_that_of_scipy(audited, confidence):
    from scipy import special

    own = disagreement_bound(0, audited, confidence)
    assert own == pytest.approx(special.betaincinv(1, audited, confidence), rel=1e-12)


def test_a_summary_without_mixed_parts_is_fp32():
    assert audit_summary({"tested": 3}) == {"kind": "fp32"}


def test_a_summary_tells_the_bound_on_wrong_decisions():
    found = audit_summary({"decided": 1000, "close": 100, "audited": 50, "disagreements": 0})
    assert (found["kind"], found["close_calls"], found["audited"]) == ("mixed", 0.1, 50)
    assert found["disagreement_rate_upper_bound"] == disagreement_bound(0, 50)


# ---------------------------------------------------------------- how much is audited


@given(st.lists(st.tuples(st.integers(1, 4 * 10**6), st.floats(0, 0.5)), min_size=1, max_size=5))
def test_a_run_of_many_decisions_bounds_the_wrong_ones_at_a_fiftieth_of_a_percent(patterns):
    """Even if the hash audits three standard deviations fewer than expected."""
    share = audit_share(patterns, FEWEST)
    expected = share * sum(n * (1 - close) for n, close in patterns)
    fewer = int(expected - 3 * expected**0.5)
    assert share >= MOST or fewer < FEWEST or disagreement_bound(0, fewer) <= AIM


@pytest.mark.parametrize(("sentences", "close"), [(10**5, 0.08), (30_000, 0.0), (525_000, 0.1), (10**7, 0.3)])
def test_no_more_than_a_twentieth_is_audited(sentences, close):
    assert audit_share([(sentences, close)], FEWEST) <= MOST


@pytest.mark.parametrize("sentences", [FEWEST // 2, FEWEST, 10_000])
def test_a_small_run_audits_the_fewest_or_all(sentences):
    assert audit_share([(sentences, 0.0)], FEWEST) * sentences == pytest.approx(min(sentences, FEWEST))


@pytest.mark.parametrize(
    ("sentences", "audited"), [(500, 500), (10_000, 1_000), (20_000, 1_000), (100_000, 5_000), (10**6, 15_467)]
)
def test_the_numbers_that_the_documentation_tells(sentences, audited):
    """docs/exactness.md; 15,467 = 14,977 for the rule of three at 0.02 %, and four standard deviations."""
    assert audit_share([(sentences, 0.0)], FEWEST) * sentences == pytest.approx(audited, abs=0.5)


def test_patterns_share_one_audit():
    assert audit_share([(10**6, 0.1)] * 4, FEWEST) == pytest.approx(audit_share([(4 * 10**6, 0.1)], FEWEST))


def told(counts):
    return audit_sentences(audit_summary(counts))


def test_the_sentence_tells_the_bound_and_the_cost():
    (text,) = told({"decided": 525_000, "close": 42_000, "audited": 15_500, "disagreements": 0})
    assert "8.0 % of the decisions were close calls" in text
    assert "Of the others, 15,500 were made again in fp32: 0 were wrong, so at most 0.019 % are wrong" in text
    assert "Cost: 3.0 % of the time of fp32." in text


def test_the_sentence_tells_of_wrong_decisions():
    (text,) = told({"decided": 525_000, "close": 42_000, "audited": 15_500, "disagreements": 2})
    assert "2 were wrong, so at most 0.041 % are wrong" in text


def test_the_sentence_tells_of_a_single_wrong_decision_and_only_of_known_costs():
    found = audit_summary({"decided": 1_000, "close": 100, "audited": 100, "disagreements": 1})
    (text,) = audit_sentences(found)
    assert (
        "100 were made again in fp32: 1 was wrong, so at most 4.656 % are wrong (95 % confidence). Cost: 10.0 %" in text
    )


def test_fp32_has_no_audit_to_tell_of():
    assert told({"tested": 3}) == []


def test_where_every_audited_decision_was_wrong_nothing_is_known():
    assert disagreement_bound(3, 3) == 1.0
    assert disagreement_bound(2, 3) < 1.0


def test_a_run_of_which_nothing_is_known_audits_everything():
    assert audit_share([], FEWEST) == 1.0
    assert audit_share([(0, 0.0)], FEWEST) == 1.0
    assert audit_share([(1, 1.0)], 1) == 1.0


def test_a_summary_tells_what_the_audit_cost():
    assert audit_summary({"decided": 1_000, "close": 100, "audited": 50, "disagreements": 0})["audit_cost"] == 0.05
