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
from scipy import special, stats

FEWEST = 1_000


def test_the_bound_is_where_so_few_disagreements_are_improbable():
    """The definition by Clopper and Pearson: at the bound, 2 disagreements or fewer have a probability of 5 %."""
    assert stats.binom.cdf(2, 500, disagreement_bound(2, 500)) == pytest.approx(0.05)
    assert disagreement_bound(2, 1000) > disagreement_bound(1, 1000) > 0.001
    assert [disagreement_bound(0, 0), disagreement_bound(3, 3)] == [1.0, 1.0]  # nothing is known
    assert disagreement_bound(2, 3) < 1.0


@pytest.mark.parametrize("audited", [1, 50, 1_000, 15_500, 10**9])
@pytest.mark.parametrize("confidence", [0.95, 0.999])
def test_without_a_disagreement_the_bound_is_that_of_scipy_and_the_rule_of_three(audited, confidence):
    own = disagreement_bound(0, audited, confidence)
    assert own == pytest.approx(special.betaincinv(1, audited, confidence), rel=1e-12)
    assert own == pytest.approx(1 - (1 - confidence) ** (1 / audited), rel=1e-6)


@given(st.lists(st.tuples(st.integers(1, 4 * 10**6), st.floats(0, 0.5)), min_size=1, max_size=5))
def test_a_run_of_many_decisions_bounds_the_wrong_ones_at_a_fiftieth_of_a_percent(patterns):
    """Even if the hash audits three standard deviations fewer than expected."""
    share = audit_share(patterns, FEWEST)
    expected = share * sum(n * (1 - close) for n, close in patterns)
    fewer = int(expected - 3 * expected**0.5)
    assert share >= MOST or fewer < FEWEST or disagreement_bound(0, fewer) <= AIM


@pytest.mark.parametrize(
    ("sentences", "audited"),
    [(500, 500), (1_000, 1_000), (10_000, 1_000), (20_000, 1_000), (100_000, 5_000), (10**6, 15_467)],
)
def test_the_numbers_that_the_documentation_tells(sentences, audited):
    """docs/exactness.md; 15,467 = 14,977 for the rule of three at 0.02 %, and four standard deviations."""
    assert audit_share([(sentences, 0.0)], FEWEST) * sentences == pytest.approx(audited, abs=0.5)


def test_patterns_share_one_audit_of_at_most_a_twentieth():
    assert audit_share([(10**6, 0.1)] * 4, FEWEST) == pytest.approx(audit_share([(4 * 10**6, 0.1)], FEWEST))
    for sentences, close in [(10**5, 0.08), (30_000, 0.0), (525_000, 0.1), (10**7, 0.3)]:
        assert audit_share([(sentences, close)], FEWEST) <= MOST
    assert [audit_share([], FEWEST), audit_share([(0, 0.0)], FEWEST), audit_share([(1, 1.0)], 1)] == [1.0] * 3


@pytest.mark.parametrize(
    ("close", "audited", "wrong", "said"),
    [
        (42_000, 15_500, 0, "8.0 %|Of the others, 15,500 were made again in fp32: 0 were wrong|0.019 %|3.0 %"),
        (42_000, 15_500, 2, "8.0 %|Of the others, 15,500 were made again in fp32: 2 were wrong|0.041 %|3.0 %"),
        (52_500, 52_500, 1, "10.0 %|Of the others, 52,500 were made again in fp32: 1 was wrong|0.009 %|10.0 %"),
    ],
)
def test_a_summary_in_numbers_and_in_words(close, audited, wrong, said):
    found = audit_summary({"decided": 525_000, "close": close, "audited": audited, "disagreements": wrong})
    assert found == {
        "kind": "mixed",
        "close_calls": close / 525_000,
        "audited": audited,
        "disagreements": wrong,
        "disagreement_rate_upper_bound": disagreement_bound(wrong, audited),
        "audit_cost": audited / 525_000,
    }
    calls, again, bound, cost = said.split("|")
    (text,) = audit_sentences(found)
    assert text == (
        f"Mixed precision: {calls} of the decisions were close calls, made in fp32. {again}, so at most {bound} are "
        f"wrong (95 % confidence). Cost: {cost} of the time of fp32."
    )


def test_fp32_has_no_audit_to_tell_of():
    assert audit_summary({"tested": 3}) == {"kind": "fp32"}
    assert audit_sentences({"kind": "fp32"}) == []
