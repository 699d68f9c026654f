"""Mixed precision decides as fp32 does, proves it by its audit, and mends what the audit finds."""

import numpy as np
import pytest
from negengine.engine.errors import InputError
from negengine.engine.inference.device import CPU
from negengine.engine.inference.model import Decisions, MaskedLM
from negengine.engine.inference.precision import (
    Calibration,
    MixedDecider,
    Models,
    Precision,
    audit_counts,
    audit_summary,
    calibrate,
    choose_decider,
    disagreement_bound,
    open_models,
    passes,
)
from negengine.engine.negation import score, select
from negengine.engine.sentences.lexicon import load_lexicon
from negengine.engine.sentences.patterns import load_patterns
from negengine.engine.sentences.spans import Sentences, Slice


class MarginDecider:
    """Decides by a table: the sentence's first token is its number, its margin the table's entry."""

    def __init__(self, margins):
        self.margins = np.asarray(margins, np.float32)
        self.decided = 0

    def decide(self, ids, mask_position, expected):  # noqa: ARG002
        margin = self.margins[ids[:, 0]]
        self.decided += len(ids)
        decisions = Decisions.empty(len(ids))
        decisions.ids[:, 0] = np.where(margin > 0, expected, expected + 1)
        decisions.logits[:] = np.stack([np.maximum(margin, 0), np.minimum(0, margin), margin, margin], axis=1)
        decisions.logits[margin > 0, 1] = 0
        return decisions


def sentences(n):
    ids = np.repeat(np.arange(n, dtype=np.int32)[:, None], 3, axis=1)
    return ids, np.ones(n, np.int32), np.full(n, 5, np.int32)


def calibration(bound, bias=0.0):
    never = np.array([], np.int32)
    return Calibration(
        bias=bias, deviation=bound / 4.5, bound=bound, never=never, close=0.1, speedup=2.0, sentences=1000
    )


def test_margins_of_the_fake_are_what_it_was_told():
    ids, position, expected = sentences(4)
    decider = MarginDecider([0.5, -0.5, 2, -2])
    np.testing.assert_allclose(decider.decide(ids, position, expected).margin(expected), [0.5, -0.5, 2, -2])


def test_close_calls_are_decided_in_fp32_and_only_those():
    exact = MarginDecider([0.1, -0.1, 3, -3])
    mixed = MixedDecider(MarginDecider([-0.1, 0.2, 3, -3]), exact, calibration(0.5), audit_share=0)
    ids, position, expected = sentences(4)
    assert mixed.decide(ids, position, expected).repeated(expected).tolist() == [True, False, True, False]
    assert exact.decided == 2


def test_a_twin_that_is_off_by_a_constant_is_corrected_by_it():
    """All margins 1 too high: what seems to be 1.2 is a close call, what seems to be 0.2 is a clear no."""
    fast = MarginDecider([1.2, 0.2, 4])
    exact = MarginDecider([-0.1, -0.8, 3])
    mixed = MixedDecider(fast, exact, calibration(0.5, bias=1.0), audit_share=0)
    ids, position, expected = sentences(3)
    # 0.2 is corrected to -0.8: the sign changes, so nothing is certain, and fp32 decides.
    assert mixed.decide(ids, position, expected).repeated(expected).tolist() == [False, False, True]


def test_calibration_measures_bias_deviation_and_bound():
    random = np.random.default_rng(0)
    truth = random.normal(0, 2, 1000)
    fast, exact = MarginDecider(truth + 0.3 + random.normal(0, 0.1, 1000)), MarginDecider(truth)
    ids, position, expected = sentences(1000)
    found = calibrate(fast, exact, Sentences([Slice(np.arange(1000), ids, position)], expected))
    assert found.bias == pytest.approx(0.3, abs=0.02)
    assert found.deviation == pytest.approx(0.1, abs=0.01)
    assert found.bound >= 4.5 * found.deviation
    assert found.sentences == 1000
    share = np.mean(np.abs(truth) < found.bound)
    assert found.close == pytest.approx(share, abs=0.05)


def test_a_verb_that_the_twin_gets_wrong_by_far_is_left_to_fp32_and_does_not_widen_the_bound():
    random = np.random.default_rng(0)
    truth = random.normal(0, 2, 2000)
    ids, position, expected = sentences(2000)
    expected[::100] = 9
    noise = random.normal(0, 0.1, 2000)
    noise[::100] += random.choice([-3, 3], 20)
    fast, exact = MarginDecider(truth + noise), MarginDecider(truth)
    found = calibrate(fast, exact, Sentences([Slice(np.arange(2000), ids, position)], expected))
    assert found.never.tolist() == [9]
    assert found.deviation == pytest.approx(0.1, abs=0.01)
    assert found.bound < 0.6
    mixed = MixedDecider(fast, exact, found, audit_share=0)
    assert (mixed.decide(ids, position, expected).repeated(expected) == (truth > 0)).all()


def test_where_errors_are_large_everywhere_no_verb_is_blamed():
    random = np.random.default_rng(0)
    truth, noise = random.normal(0, 2, 2000), random.standard_cauchy(2000)
    ids, position, expected = sentences(2000)
    expected[:] = np.arange(2000) % 50
    sample = Sentences([Slice(np.arange(2000), ids, position)], expected)
    found = calibrate(MarginDecider(truth + noise), MarginDecider(truth), sample)
    assert len(found.never) == 0
    assert found.bound > np.abs(noise).max() * 0.9


def test_an_audit_that_finds_a_disagreement_corrects_it_widens_the_bound_and_decides_again():
    truth = np.full(400, 1.0)
    fast = truth.copy()
    fast[:200] = -1.0  # all these are wrong, far beyond the bound of 0.5
    exact = MarginDecider(truth)
    mixed = MixedDecider(MarginDecider(fast), exact, calibration(0.5), audit_share=0.1)
    ids, position, expected = sentences(400)
    assert mixed.decide(ids, position, expected).repeated(expected).all()
    assert mixed.widened
    assert mixed.bound >= 1.5
    counts = audit_counts({"CpTp": mixed})
    assert counts["disagreements"] > 0
    assert counts["bound of CpTp"] == mixed.bound
    assert counts["close"] + counts["audited"] == counts["decided"] == 400


class FakeRun:
    def __init__(self, bounds):
        self.parts, self.missing_parts = range(len(bounds)), [1, 2]
        self.counts = {number: {} if bound is None else {"bound of CpTp": bound} for number, bound in enumerate(bounds)}

    def part_counts(self, number):
        return self.counts[number]


def test_parts_decided_with_a_narrower_bound_are_done_again_once_it_was_widened():
    run = FakeRun([0.5, 0.5, 0.9, None])
    mixed = MixedDecider(MarginDecider([0]), MarginDecider([0]), calibration(0.5))
    todo = passes(run, {"CpTp": mixed})
    assert next(todo) == [1, 2]
    mixed.bound = 0.9
    assert next(todo) == [0, 1]  # not the part decided with the same bound, nor the one decided in fp32
    run.counts = {number: {"bound of CpTp": 0.9} for number in range(4)}
    assert next(todo, None) is None


def test_nothing_is_done_again_if_the_audit_found_nothing():
    todo = passes(FakeRun([0.3, 0.5]), {"CpTp": MixedDecider(MarginDecider([0]), MarginDecider([0]), calibration(0.5))})
    assert list(todo) == [[1, 2]]


def test_disagreement_bound_of_no_disagreements_is_the_rule_of_three():
    """With 0 of n the exact bound is 1 - 0.05 ** (1 / n), about 3 / n."""
    assert disagreement_bound(0, 1000) == pytest.approx(1 - 0.05 ** (1 / 1000))
    assert disagreement_bound(0, 0) == 1.0
    assert disagreement_bound(2, 1000) > disagreement_bound(1, 1000) > 0.001


def test_summary_without_mixed_parts_is_fp32():
    assert audit_summary({"tested": 3}) == {"kind": "fp32"}


@pytest.fixture(scope="module")
def models(mini):
    return open_models(mini, CPU, Precision.MIXED)


@pytest.fixture(scope="module")
def plan(mini):
    return select.plan(mini, load_lexicon(), load_patterns(), select.Settings(pairs=1))


def test_the_bundled_models_twin_decides_as_fp32_with_real_sentences(models, plan):
    part = plan.parts[0]
    said = []
    mixed = choose_decider(
        models, Precision.MIXED, "CpTp", lambda _: select.sample(plan, 300), total=763, seed=0, say=said.append
    )
    assert isinstance(mixed, MixedDecider)
    assert "mixed precision" in said[0]
    fast = select.decide_part(mixed, select.compose_part(plan, part), plan.grid.verbs)
    exact = select.decide_part(models.exact, select.compose_part(plan, part), plan.grid.verbs)
    assert (fast.repeated == exact.repeated).all()
    counts = audit_counts({"CpTp": mixed})
    assert counts["decided"] == plan.grid.size
    assert 0 < counts["close"] < 0.5 * counts["decided"]


def test_auto_takes_fp32_for_a_short_run_without_measuring(models):
    def no_sample(n):
        raise AssertionError("measured")

    said = []
    chosen = choose_decider(models, Precision.AUTO, "CpTp", no_sample, total=10, seed=0, say=said.append)
    assert chosen is models.exact
    assert "too few" in said[0]


def test_auto_takes_fp32_where_the_twin_is_no_faster(plan, mini):
    exact = MaskedLM(mini)
    said = []
    chosen = choose_decider(
        Models(exact, MaskedLM(mini)),  # the twin is fp32 itself
        Precision.AUTO,
        "CpTp",
        lambda _: select.sample(plan, 300),
        total=10**6,
        seed=0,
        say=said.append,
    )
    assert chosen is exact
    assert "would not pay" in said[0]


def test_mixed_without_a_twin_is_one_line(mini, monkeypatch):
    monkeypatch.setitem(mini.info, "files", {"model.onnx": "", "tokenizer.json": ""})
    with pytest.raises(InputError, match=r"--precision mixed: .* has no model\.int8\.onnx"):
        open_models(mini, CPU, Precision.MIXED)
    assert open_models(mini, CPU, Precision.AUTO).fast is None


def test_triplets_and_rates_of_a_mixed_run_are_those_of_fp32_byte_for_byte(models, plan, mini, tmp_path):
    mixed = choose_decider(models, Precision.MIXED, "CpTp", lambda _: select.sample(plan, 300), total=763, seed=0)
    results = {}
    for kind, decider in (("fp32", models.exact), ("mixed", mixed)):
        folder = tmp_path / kind
        summary = select.select(plan, decider, folder, session={})
        scoring = score.plan(score.read_selected(folder), mini)
        deciders = {
            pattern.pattern.name: decider
            if kind == "fp32"
            else choose_decider(
                models,
                Precision.MIXED,
                pattern.pattern.name,
                lambda n, pattern=pattern: score.sample(pattern, n, 0),
                total=40,
                seed=0,
            )
            for pattern in scoring.patterns
        }
        rates = score.score(scoring, deciders, folder, session={})
        results[kind] = (folder / "triplets.parquet").read_bytes(), rates.to_dicts()
        assert summary["precision"]["kind"] == kind
    assert results["fp32"] == results["mixed"]


def test_lazy_selection_gives_the_same_triplets_with_fewer_calls(models, mini, tmp_path):
    files, summaries = [], []
    for lazy in (False, True):
        settings = select.Settings(pairs=1, lazy=lazy)
        plan = select.plan(mini, load_lexicon(), load_patterns(), settings)
        summaries.append(select.select(plan, models.exact, tmp_path / str(lazy), session={}))
        files.append((tmp_path / str(lazy) / "triplets.parquet").read_bytes())
    assert files[0] == files[1]
    assert summaries[1]["tested"] < summaries[0]["tested"] / 3
    assert summaries[1]["lazy"]["candidates"] == summaries[0]["tested"]
    assert summaries[1]["lazy"]["ratio_low"] < summaries[0]["ratio"] < summaries[1]["lazy"]["ratio_high"]
