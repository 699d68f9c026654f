"""Mixed precision gives the decisions of fp32; which precision a run has depends on the run and the processor alone."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from answer_tables import LogitsTable, MarginDecider, calibration, groups, numbered_pairs, sample, sentences
from hypothesis import given
from hypothesis import strategies as st
from negengine.engine.basics.choices import Precision
from negengine.engine.basics.errors import InputError
from negengine.engine.inference import tally
from negengine.engine.inference.audit import (
    AIM,
    MOST,
    Audit,
    audit_sentences,
    audit_share,
    audit_summary,
    disagreement_bound,
)
from negengine.engine.inference.batches import finished
from negengine.engine.inference.devices import cpu
from negengine.engine.inference.devices.cpu import CPU
from negengine.engine.inference.devices.webgpu import WebGpu
from negengine.engine.inference.mixed import (
    FIRST_CHOICES,
    LABELS,
    SENTENCES,
    Calibration,
    Method,
    Mixed,
    calibrate,
    even_numbers,
    of_labels,
    of_margins,
    take_audits,
    widest,
)
from negengine.engine.inference.model import Decisions
from negengine.engine.inference.precision import (
    SHORT_RUN,
    Models,
    Workload,
    choose_precisions,
    open_decider,
    open_models,
    widened,
)
from scipy import special, stats


@dataclass(frozen=True)
class Kind:
    """A kind of decision: models made of margins, each row's decision, and which rows a model has decided."""

    method: Method
    table: Callable[..., Any]
    ask: Callable[..., list[bool]]
    sample: Callable[[int], Any]
    unbiased: float | tuple[float, ...] = 0.0

    def mixed(self, low, exact, bound, **more):
        return Mixed(self.method, self.table(low, "int8"), exact, calibration(bound, self.unbiased, **more))


def ask_sentences(mixed, rows, *advance):
    ids, position, expected = (array[rows] for array in sentences(max(rows) + 1))
    return mixed.decide(ids, position, expected, *advance).repeated(expected).tolist()


def ask_groups(mixed, rows, *advance):
    asked = groups(rows)
    numbers = np.concatenate([ids[:, 0] for ids, _, _ in asked]).tolist()
    found = dict(zip(numbers, Decisions.joined(mixed.decide_each(asked, *advance)).top1.tolist(), strict=True))
    return [found[row] == 0 for row in rows]


def ask_pairs(mixed, rows, *advance):
    order = np.argsort(rows)
    pairs = numbered_pairs(max(rows) + 1).chosen(np.array(rows)[order])
    labels = np.empty(len(rows), np.int64)
    labels[order] = mixed.classify(pairs, *advance).label
    return (labels == 0).tolist()


def table_of_margins(margins, *precision):
    """A table of logits that are a margin and 0."""
    return LogitsTable([[margin, 0] for margin in margins], *precision)


KINDS = {
    "sentences": Kind(SENTENCES, MarginDecider, ask_sentences, sample),
    "first choices": Kind(FIRST_CHOICES, table_of_margins, ask_groups, sample),
    "labels": Kind(LABELS, table_of_margins, ask_pairs, numbered_pairs, (0.0, 0.0)),
}


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


def test_what_is_as_uncertain_as_the_bound_or_more_is_decided_in_fp32_and_only_that(kind):
    """The low-precision model's margins, the right ones, the bound, what is decided again."""
    for low, truth, bound, again in [
        ([0.25, -0.5, 0.625, -0.625, 9], [-0.25, 0.5, 9, -9, 9], 0.5, [0, 1]),
        ([0.0], [9.0], 0.0, [0]),  # a margin of nothing is never trusted
        ([9, np.nan, 9, np.inf, -np.inf], [9] * 5, 0.5, [1, 3, 4]),
    ]:
        exact, told, n = kind.table(truth), [], len(truth)
        mixed = kind.mixed(low, exact, bound)
        assert kind.ask(mixed, range(n), told.append) == [margin > 0 for margin in truth]
        assert (sorted(exact.decided), sum(told)) == (again, n)
        assert mixed.take_audit() == (Audit(decided=n, close=len(again), audited=0, disagreements=0), 0.0)


def test_a_logit_beside_the_decision_that_is_not_finite_makes_it_uncertain():
    """The sum over the vocabulary tells of it; of labels, all logits are there."""
    for wrong, again in ((np.nan, [0]), (-np.inf, [])):
        first, label, low = LogitsTable([[9, 0, 0]]), LogitsTable([[9, 0, 0]]), LogitsTable([[9, 0, wrong]], "int8")
        Mixed(FIRST_CHOICES, low, first, calibration(0.5)).decide_each(groups([0]))
        Mixed(LABELS, low, label, calibration(0.5, (0.0, 0.0, 0.0))).classify(numbered_pairs(1))
        assert (first.decided, label.decided) == (again, [0])


@pytest.mark.parametrize("name", KINDS)
@given(order=st.permutations(range(40)), cut=st.integers(1, 39))
def test_a_decision_depends_neither_on_the_order_nor_on_the_part(name, order, cut):
    kind, random = KINDS[name], np.random.default_rng(1)
    truth = random.normal(0, 3, 40)
    low = truth + random.normal(0, 1, 40)

    def decide(parts):
        exact = kind.table(truth)
        mixed = kind.mixed(low, exact, 0.5, audit_share=0.3, seed=4)
        found = {row: own for part in parts for row, own in zip(part, kind.ask(mixed, part), strict=True)}
        return sorted(found.items()), sorted(exact.decided), mixed.take_audit()

    assert decide([order[:cut], order[cut:]]) == decide([list(range(40))])


def test_every_row_names_the_model_that_gave_its_numbers():
    logits = [[0.2, 0], [3, 0], [0, 4], [0, 0.1], [5, 0], [0.3, 0]]
    asked = groups(range(6), lengths=2)
    mixed = Mixed(FIRST_CHOICES, LogitsTable(logits, "int8"), LogitsTable(logits), calibration(0.5))
    assert [ids[:, 0].tolist() for ids, _, _ in asked] == [[0, 2, 4], [1, 3, 5]]
    assert [own.exact.tolist() for own in mixed.decide_each(asked)] == [[True, False, False], [False, True, True]]
    assert mixed.decide_each([]) == []
    pairs = Mixed(LABELS, LogitsTable(logits, "int8"), LogitsTable(logits), calibration(0.5, (0.0, 0.0)))
    assert pairs.classify(numbered_pairs(6)).precision.tolist() == [0, 1, 1, 0, 1, 0]


def test_a_margin_is_corrected_by_its_bias_and_some_verbs_are_never_trusted():
    """All margins are 1 too high: 1.2 is a close call. 0.2 is corrected to -0.8, so no sign says what it was."""
    exact = MarginDecider([-0.1, -0.8, 3, 0.25])
    mixed = Mixed(SENTENCES, MarginDecider([1.2, 0.2, 4, 0.0]), exact, calibration(0.5, 1.0))
    assert ask_sentences(mixed, range(4)) == [False, False, True, True]
    assert exact.decided == [0, 1, 3]
    exact = MarginDecider([9, 9, 9])
    ids, position, expected = sentences(3)
    expected[1] = 7
    Mixed(SENTENCES, MarginDecider([9, 9, 9]), exact, calibration(0.5, never=(7,))).decide(ids, position, expected)
    assert exact.decided == [1]


def test_the_certainty_is_the_corrected_gap_of_the_two_best_unless_the_correction_changes_the_label():
    """Of a first choice, whatever is expected: the token 0 is far below in the first row."""
    table = LogitsTable([[-9, 0.1, 0], [1.25, 0, -9]], "int8")
    found = finished(table.deciding(*sentences(2)))
    for bias, certainty in ((0.0, [0.1, 1.25]), (1.0, [-0.9, 0.25])):
        assert FIRST_CHOICES.certainty(found, None, calibration(0.0, bias)).tolist() == pytest.approx(certainty)
    labels = LogitsTable([[4, 1, 2, 0], [0, 3, 2.5, 1]], "int8").classify(numbered_pairs(2))
    for bias, certainty in ((0.0, [2, 0.5]), ((0, 1, 0, 0), [2, 0]), ((1, 0, 0, 0), [1, 0.5])):
        assert LABELS.certainty(labels, None, calibration(0.0, bias)).tolist() == certainty


def audited(n=20_000, **more):
    """Which of n clear decisions are audited."""
    exact = MarginDecider(np.full(n, 9.0))
    KINDS["sentences"].mixed(np.full(n, 9.0), exact, 0.5, **more).decide(*sentences(n))
    return set(exact.decided)


def test_the_audit_takes_its_share_a_larger_one_has_the_smaller_one_in_it_and_another_seed_takes_others():
    for share in (0.0, 0.005, 0.1, 1.0):
        assert len(audited(audit_share=share)) / 20_000 == pytest.approx(share, abs=0.01 if 0 < share < 1 else 0)
    one, other = (audited(audit_share=0.1, seed=seed) for seed in (0, 1))
    assert audited(audit_share=0.01) < one
    assert len(one & other) == pytest.approx(200, abs=60)  # a tenth of a tenth


def test_a_disagreement_is_corrected_and_asks_for_a_wider_bound(kind):
    truth = np.full(400, 1.0)
    low = np.repeat([-2.0, 1.0], 200)  # the first half is wrong, far beyond the bound of 0.5
    mixed = kind.mixed(low, kind.table(truth), 0.5, audit_share=0.1)
    answers = kind.ask(mixed, range(400))
    assert all(answers[200:])
    assert mixed.calibration.bound == 0.5  # of this part: a wider one decides it anew
    found = take_audits({"CpTp": mixed, "CpTn": kind.table([0])})
    assert 0 < found.counts["disagreements"] == sum(answers[:200]) < found.counts["audited"]
    assert (found.counts["decided"], found.counts["close"]) == (400, 0)
    assert (found.bounds, found.needed) == ({"CpTp": 0.5}, {"CpTp": 1.5 * 2.0})
    assert take_audits({"CpTp": mixed}).needed == {"CpTp": 0.0}
    wide = kind.mixed(low, kind.table(truth), found.needed["CpTp"], audit_share=0.1)
    assert all(kind.ask(wide, range(400)))
    assert take_audits({"CpTp": wide}).counts["close"] == 400


def test_the_widest_disagreement_of_all_calls_is_asked_for_and_a_close_call_is_none(kind):
    mixed = kind.mixed([2, 3, 1, -9, 0.1], kind.table([-9] * 5), 0.5, audit_share=1.0)
    assert kind.ask(mixed, [0, 1]) == [False, False]
    assert mixed.needed == 1.5 * 3
    assert kind.ask(mixed, [2, 3, 4]) == [False] * 3
    other = kind.mixed([0.5], kind.table([1]), 0.5)
    kind.ask(other, [0])
    found = take_audits({"Cp": mixed, "Cn": other, "Cv": "the reference model alone"})
    assert found.counts == {"decided": 6, "close": 2, "audited": 4, "disagreements": 3}
    assert (found.bounds, found.needed) == ({"Cp": 0.5, "Cn": 0.5}, {"Cp": 4.5, "Cn": 0.0})
    assert mixed.take_audit() == (Audit(), 0.0)


def test_even_numbers_are_even_and_the_same_on_every_machine_and_in_every_version():
    """A resumed run, and the shards of one run, audit the same sentences."""
    ids = np.array([[101, 7, 102], [101, 8, 102]], np.int32)
    assert even_numbers(ids, 0).tolist() == [0.13731710231177152, 0.9960690212670891]
    assert even_numbers(ids, 1).tolist() == [0.9115884429363457, 0.7317432962822753]
    found = even_numbers(np.arange(30_000, dtype=np.int32).reshape(-1, 3), 0)
    assert 0 <= found.min() < found.max() < 1
    assert np.histogram(found, 10, (0, 1))[0] == pytest.approx(1_000, abs=150)


def calibrated(n, *more):
    """Of errors of 1 and -1 in turn, each of a verb of its own, and some more errors."""
    error = np.concatenate([np.resize([1.0, -1.0], n), more])
    exact = np.full(len(error), 10.0)
    verbs = np.arange(len(error), dtype=np.int32)
    return calibrate(SENTENCES, MarginDecider(exact + error), MarginDecider(exact), sample(len(error), verbs), seed=5)


def test_a_calibration_measures_and_leaves_a_verb_with_outlying_errors_to_fp32():
    """The median of the sizes is 1, so the limit is 4.5 · 1.4826 = 6.6717; a twentieth of the sentences at most."""
    assert calibrated(98, 6.625, -6.625).never == ()
    assert calibrated(0, *[0.0] * 50, 1.0).never == (50,)
    assert len(calibrated(76, *[8.0, -8.0] * 2).never) == 4
    many = calibrated(94, *[8.0, -8.0] * 3)
    assert many.never == ()
    assert many.bound == pytest.approx(max(4.5 * many.deviation, 8.8))
    assert calibrated(98, 6.75, -6.75) == Calibration(
        bias=0.0, deviation=1.0, bound=4.5, never=(98, 99), close=0.02, sentences=100, repeated=100, seed=5
    )


def test_a_margin_as_wide_as_the_bound_is_close_and_one_of_nothing_is_no_repetition():
    error = np.resize([1.0, -1.0], 100)
    exact = np.full(100, 10.0)
    exact[:5] = [3.5, -3.5, 0.0, -9.0, 0.5]  # with their errors 4.5, -4.5, 1, -10 and 1.5
    found = calibrate(SENTENCES, MarginDecider(exact + error), MarginDecider(exact), sample(100), seed=0)
    assert (found.bound, found.close, found.repeated) == (4.5, 0.04, 97)
    assert of_margins(error).close == of_labels(np.outer(error, [1, 0])).close == 1.0  # until it is measured
    for own, bound in ([1.0, -1.0], 4.5), ([0.0] * 999 + [10.0], 11.0), ([-10.0] + [0.0] * 999, 11.0):
        assert widest(np.array(own)) == pytest.approx(bound)


def gaps(low, truth):
    return calibrate(FIRST_CHOICES, LogitsTable(low, "int8"), LogitsTable(truth), sample(len(low)), seed=0)


def test_what_a_calibration_of_first_choices_measures():
    """Token 0 is too high by 1 and 0.5 in turn. In the last sentence, its gap without the bias is the bound."""
    truth = np.tile([8.0, 0.0, -1.0], (8, 1))
    truth[7, 0] = 4.5 * 0.25 + 0.25
    found = gaps(truth + np.outer(np.resize([1.0, 0.5], 8), [1, 0, 0]), truth)
    assert (found.bias, found.deviation, found.bound) == (0.75, 0.25, 4.5 * 0.25)
    assert (found.close, found.never) == (1 / 8, ())
    # A wrong first choice counts with all that it is behind: token 1 is first by 0.5, in fp32 2 behind token 2.
    assert gaps([[0, 0.5, -1]], [[0, 1, 3]]).bias == 0.5 + 2

    # Gaps that are always too small have no bias: with one of -1, a gap of nothing would be beyond the bound.
    truth = np.tile([2.0, 0.0], (10, 1))
    assert (gaps(truth / 2, truth).bias, gaps(truth / 2, truth).bound) == (0, 0)
    assert of_margins(np.array([-1.0, -1.0])).bias == -1  # of a margin, whose sign decides, it is used


def test_what_a_calibration_of_labels_measures():
    """The first label is too high by 1 and 0.5 in turn. Without its bias, the margin of the last pair is the bound."""
    truth = np.tile([8.0, 0.0, 0.0], (8, 1))
    truth[7, 0] = 4.5 * 0.25 + 0.25
    low = truth + np.outer(np.resize([1.0, 0.5], 8), [1, 0, 0])
    found = calibrate(LABELS, LogitsTable(low, "int8"), LogitsTable(truth), numbered_pairs(8), seed=0)
    assert found.bias == pytest.approx((0.5, -0.25, -0.25))
    assert (found.deviation, found.bound) == (0.25, 4.5 * 0.25)
    assert (found.close, found.repeated, found.never) == (1 / 8, 0, ())


BIAS = st.floats(allow_nan=False, allow_infinity=False) | st.lists(st.floats(-9, 9), min_size=1).map(tuple)


@given(BIAS, st.floats(0, 1e6), st.lists(st.integers(0, 10**6), max_size=4), st.floats(0, 1))
def test_a_calibration_comes_back_from_json_with_the_same_bits_and_anything_else_is_one_line(bias, bound, never, share):
    whole = calibration(bound, bias, never=tuple(never), audit_share=share, seed=3)
    assert Calibration.from_json(json.loads(json.dumps({"precision": "mixed", **whole.to_json()}))) == whole
    for change in ({"bound": "wide"}, {"bound": None}, {"never": 3}, {"never": ["a"]}):
        with pytest.raises(InputError, match=r"^run\.json holds a wrong calibration .*; choose another --output$"):
            Calibration.from_json({**whole.to_json(), **change})


def test_beyond_the_measured_bound_every_decision_is_that_of_fp32(kind):
    random = np.random.default_rng(5)
    truth = random.normal(0, 2, 3_000)
    low = kind.table(truth + 0.2 + random.normal(0, 0.1, 3_000), "int8")
    found = calibrate(kind.method, low, kind.table(truth), kind.sample(3_000), seed=3)
    exact = kind.table(truth)
    assert kind.ask(Mixed(kind.method, low, exact, found), range(3_000)) == (truth > 0).tolist()
    assert len(exact.decided) / 3_000 == pytest.approx(found.close)
    assert 0.05 < found.close < 0.5
    assert (found.sentences, found.seed, found.never, found.audit_share) == (3_000, 3, (), 0.0)
    if kind.method is SENTENCES:
        assert (found.bias, found.deviation) == pytest.approx((0.2, 0.1), abs=0.01)


def test_values_that_are_not_finite_make_a_calibration_worth_nothing(kind):
    clear = np.full(3_000, 9.0)
    for wrong in (np.nan, np.inf):
        numbers = clear.copy()
        numbers[7:9] = wrong
        for low, reference in ((numbers, clear), (clear, numbers)):
            models = Models(kind.table(reference), lambda low=low: kind.table(low, "int8"))
            work = [Workload("CpTp", kind.sample, 10**6)]
            options = {"seed": 0, "method": kind.method, "speed_ratio": 2.5}
            reason = "the low-precision model gives numbers that are not finite"
            said = []
            found = choose_precisions(models, Precision.AUTO, work, say=said.append, **options)
            assert (found, said) == ({"CpTp": {"precision": "fp32", "reason": reason}}, [f"CpTp: fp32; {reason}"])
            with pytest.raises(InputError, match=r"^--precision mixed: 2 of [\d,]+ measured .* give --precision fp32$"):
                choose_precisions(models, Precision.MIXED, work, **options)


def test_a_long_run_of_each_kind_takes_mixed_precision_and_goes_on_with_what_it_recorded(kind):
    truth = np.random.default_rng(5).normal(0, 3, 3_000)
    models = Models(kind.table(truth), lambda: kind.table(truth + 0.001, "int8"))
    fewest = 300 if kind.method is LABELS else 1_000
    long = 10 * fewest
    for total, precision in ((long - 1, "fp32"), (long, "mixed")):
        work = [Workload("all", kind.sample, total)]
        found = choose_precisions(models, Precision.AUTO, work, seed=0, method=kind.method, speed_ratio=2.5)["all"]
        assert json.loads(json.dumps(found)) == found
        assert found["precision"] == precision
    assert found["sentences"] == fewest
    decider = open_decider(models, Precision.AUTO, widened(found, 0.7), kind.method)
    assert isinstance(decider, Mixed)
    assert decider.calibration == replace(Calibration.from_json(found), bound=0.7)


LOGITS = st.lists(st.lists(st.integers(-40, 40), min_size=6, max_size=6, unique=True), min_size=1, max_size=20)
ACCEPTED = st.lists(st.integers(0, 5), min_size=1, max_size=4)


def decided_at_once(logits, expected):
    ids, position, _ = sentences(len(logits))
    return LogitsTable(logits).decide(ids, position, expected)


@given(LOGITS, ACCEPTED, st.integers(0, 2**32 - 1), st.floats(0.01, 2))
def test_a_margin_has_the_sign_of_the_true_one_is_never_wider_and_its_error_is_bounded(logits, accepted, seed, most):
    """A change of all logits changes it by at most twice as much, also where the decision changes."""
    table = np.array(logits, np.float32) / 8
    expected = np.tile(np.array(accepted, np.int32), (len(table), 1))
    found = decided_at_once(table, expected)
    margin, own = found.margin(expected), sorted(set(accepted))
    truth = table[:, own].max(axis=1) - np.delete(table, own, axis=1).max(axis=1)
    assert found.repeated(expected).tolist() == (truth > 0).tolist()
    assert (np.sign(margin) == np.sign(truth)).all()
    assert (np.abs(margin) <= np.abs(truth) + 1e-6).all()
    if len(own) == 1:  # nothing is unknown
        np.testing.assert_allclose(margin, truth, atol=1e-6)
        np.testing.assert_array_equal(margin, found.margin(expected[:, 0]))
    changed = table + np.random.default_rng(seed).uniform(-most, most, table.shape).astype(np.float32)
    assert np.abs(margin - decided_at_once(changed, expected).margin(expected)).max() <= 2 * most + 1e-4


def test_two_accepted_tokens_that_are_close_are_a_close_call():
    """Which of them is first does not matter, but the margin cannot tell: the reference model decides."""
    low, exact = LogitsTable([[5, 4.9, 0, 0]], "int8"), LogitsTable([[4.9, 5, 0, 0]])
    ids, position, _ = sentences(1)
    found = Mixed(SENTENCES, low, exact, calibration(0.5)).decide(ids, position, np.array([[0, 1]], np.int32))
    assert found.repeated(np.array([[0, 1]], np.int32)).tolist() == [True]
    assert exact.decided == [0]
    assert found.expected_rank.tolist() == [2]  # rank and log-probability are those of the main token
    assert found.expected_logprob[0] < found.top1_logprob[0]


CERTAIN = np.full(3_000, 9.0)
AUTO, FP32, MIXED = Precision.AUTO, Precision.FP32, Precision.MIXED


def pair(truth=CERTAIN, noise=0.0):
    return Models(MarginDecider(truth), lambda: MarginDecider(truth + noise, "int8"))


def workload(total=10**6, pattern="CpTp", **more):
    return Workload(pattern, sample, total, **more)


def choose(precision, *works, ratio=2.5, models=None):
    """The choices of a run by pattern, and what is said of them."""
    said = []
    works = works or [workload()]
    choices = choose_precisions(models or pair(), precision, works, seed=0, say=said.append, speed_ratio=ratio)
    assert json.loads(json.dumps(choices)) == choices
    return choices, said


def chosen(precision, total, ratio=2.5, **more):
    return choose(precision, workload(total, **more), ratio=ratio)[0]["CpTp"]


def test_auto_takes_mixed_precision_where_it_is_faster_and_fp32_where_it_is_not():
    """What fp32 decides is told with an audit of its own."""
    choices, said = choose(AUTO)
    found = choices["CpTp"]
    assert (found["precision"], found["low_precision"], found["speed_ratio"]) == ("mixed", "int8", 2.5)
    measured = "0.0 % of 3,000 measured sentences are checked again in fp32; 1.5 % of the others are audited"
    assert said == [f"CpTp: mixed precision, about 2.41 times as fast as fp32 ({measured})"]
    choices, said = choose(AUTO, workload(20_000), ratio=1.0)
    reason = "mixed precision would be 0.95 times as fast"
    fp32 = {"precision": "fp32", "reason": reason, "speed_ratio": 1.0, "speedup": pytest.approx(1 / 1.05)}
    assert choices["CpTp"] == fp32
    measured = "0.0 % of 100 measured sentences are checked again in fp32"
    assert said == [f"CpTp: fp32; mixed precision would be 0.95 times as fast ({measured})"]
    assert chosen(MIXED, 20_000, ratio=1.0)["precision"] == "mixed"
    # The audit counts: 1.13 times as fast without one, and a short run needs the largest.
    assert [chosen(AUTO, total, ratio=1.13)["precision"] for total in (10**7, SHORT_RUN)] == ["mixed", "fp32"]


CHOICES = [  # how clear decisions are (errors have a deviation of 1), sentences of the run, speed, what is asked for,
    # what is chosen and how many sentences are measured for that
    (0.1, 10**6, 1.5, AUTO, "fp32", 100),  # nearly all are close calls: left after a first look
    (0.1, 10**6, 1.5, MIXED, "mixed", 3_000),
    (9.0, 10**6, 1.5, AUTO, "mixed", 100 + 3_000),
    (4.7, 10**6, 1.5, AUTO, "fp32", 100 + 3_000),  # one in three: the first look leaves it open
    # A calibration that may be for nothing takes a twentieth of the run at most.
    (4.6, SHORT_RUN, 2.5, AUTO, "fp32", 100),  # nearly half: the first look leaves it open
    (9.0, SHORT_RUN, 2.5, AUTO, "mixed", 100 + 1_000),
    (4.6, 10**6, 2.5, AUTO, "mixed", 100 + 3_000),
    # No more is measured than the run has, and a twentieth at most of a long one.
    *((9.0, total, 2.5, MIXED, "mixed", n) for total, n in ((0, 1), (312, 312), (15_000, 1_000), (40_000, 2_000))),
]


@pytest.mark.parametrize(("clear", "total", "ratio", "precision", "chosen", "measured"), CHOICES)
def test_what_is_chosen_and_what_is_measured_for_it(clear, total, ratio, precision, chosen, measured):
    models = pair(np.full(3_000, clear), np.random.default_rng(0).normal(0, 1, 3_000))
    found, (said,) = choose(precision, workload(total), models=models, ratio=ratio)
    assert found["CpTp"]["precision"] == chosen
    assert ("may not pay for its calibration" in said) == ((chosen, total) == ("fp32", SHORT_RUN))
    assert len(models.low_precision.decided) == len(models.reference.decided) == measured


def test_a_short_run_is_decided_in_fp32_without_measuring_or_opening_the_low_precision_model():
    models = Models(MarginDecider([]), lambda: pytest.fail("opened"))
    reason = "with 9,999 sentences, mixed precision would not be faster"
    assert choose(AUTO, workload(9_999), models=models) == ({"CpTp": {"precision": "fp32", "reason": reason}}, [])
    assert chosen(AUTO, SHORT_RUN)["precision"] == "mixed"
    assert SHORT_RUN == 10_000
    choices, _ = choose(AUTO, workload(9_999), workload(10_000, "CpTn"))
    assert [choices[own]["precision"] for own in ("CpTp", "CpTn")] == ["fp32", "mixed"]
    assert choose(AUTO, models=Models(MarginDecider([])))[0]["CpTp"]["precision"] == "fp32"


def test_the_speed_is_that_of_close_calls_and_audit():
    random = np.random.default_rng(0)
    models = pair(random.normal(0, 3, 3_000), random.normal(0, 0.3, 3_000))
    found = choose(MIXED, workload(30_000), models=models)[0]["CpTp"]
    close, audited = found["close"], found["audit_share"]
    assert 0.05 < close < 0.6
    assert audited == 0.05
    assert found["speedup"] == pytest.approx(1 / (1 / 2.5 + close + audited * (1 - close)))
    assert chosen(MIXED, 5_000)["audit_share"] == 1_000 / 5_000  # as many as the smallest calibration measures


def test_what_fp32_decides_is_not_audited_by_the_others():
    """A pattern with many close calls goes to fp32: then the other one bears the whole audit."""

    def difficult(n):  # sentences of the second half of the table
        (bucket,) = (whole := sample(n)).buckets
        return replace(whole, buckets=[replace(bucket, ids=bucket.ids + 3_000)])

    noise = np.random.default_rng(0).normal(0, 1, 3_000)
    models = pair(np.concatenate([CERTAIN, np.zeros(3_000)]), np.concatenate([np.zeros(3_000), noise]))
    choices, _ = choose(AUTO, workload(400_000), Workload("CpTn", difficult, 200_000), models=models, ratio=1.5)
    assert choices["CpTn"]["precision"] == "fp32"
    assert choices["CpTp"] == chosen(AUTO, 400_000, ratio=1.5)


def test_without_a_given_speed_the_kind_of_processor_counts(monkeypatch):
    models = pair()
    models.reference.device = CPU
    for speed, precision in ((2.2, "mixed"), (1.0, "fp32")):
        monkeypatch.setattr(cpu, "int8_speed", lambda own=speed: own)
        choice = choose_precisions(models, AUTO, [workload(30_000)], seed=7)["CpTp"]
        assert (choice["precision"], choice["speed_ratio"]) == (precision, speed)


RECORDED = {"precision": "mixed", **calibration(0.5).to_json()}


def test_a_run_goes_on_with_the_precision_that_it_recorded():
    models = pair()
    assert open_decider(models, AUTO, {"precision": "fp32"}) is models.reference
    for asked in (AUTO, MIXED):
        assert open_decider(models, asked, RECORDED).calibration == calibration(0.5)
    assert widened({"precision": "mixed", "bound": 0.5}, 0.0)["bound"] == 0.5
    assert widened({"precision": "fp32"}, 3.0) == {"precision": "fp32"}


def test_another_precision_or_model_than_the_recorded_one_is_refused():
    """The bound of int8 says nothing about fp16."""
    for asked, begun, low, message in [
        (FP32, "mixed", None, "in mixed precision, which cannot change: give --precision mixed, or choose"),
        (MIXED, "fp32", "int8", "in fp32 precision, which cannot change: give --precision fp32, or choose"),
        (AUTO, "mixed", None, "the export has no low-precision model for this device"),
        (AUTO, "mixed", "fp16", "with the int8 model, and this device takes the fp16 model: choose another"),
    ]:
        opened = Models(MarginDecider([]), (lambda low=low: MarginDecider([], low)) if low else None)
        with pytest.raises(InputError, match=message):
            open_decider(opened, asked, {**RECORDED, "precision": begun})
    with pytest.raises(InputError, match="with the fp16 model, and this device takes the int8 model: choose another"):
        open_decider(pair(), AUTO, {**RECORDED, "low_precision": "fp16"})


def test_what_another_device_decides_or_computes_in_is_told():
    for precision, ratio, low, said in [
        (AUTO, 1.0, "int8", ["cpu decides, in fp32; --precision mixed has webgpu:0 decide"]),
        (AUTO, 2.5, "int8", []),
        (AUTO, 2.5, "fp32 on device", ["webgpu:0: the device or the export has no fp16, so it computes in fp32"]),
    ]:
        opened = MarginDecider(CERTAIN, low)
        models, told = replace(pair(), open_low_precision=lambda own=opened: own, on=WebGpu()), []
        models.reference.device = CPU
        tally.listen(told.append)
        choose(precision, workload(20_000), models=models, ratio=ratio)
        assert told == said


def test_the_low_precision_model_is_opened_once_with_the_same_batches_or_missed_in_one_line(mini, monkeypatch):
    assert open_models(mini, CPU, FP32).low_precision is None
    models = open_models(mini, CPU, AUTO, batch_tokens=64)
    assert models.low_precision.batch_tokens == models.reference.batch_tokens == 64
    assert (models.low_precision.precision, models.reference.precision) == ("int8", "fp32")
    assert models.low_precision is models.low_precision
    files = {name: mini.info["files"][name] for name in ("model.onnx", "tokenizer.json")}
    monkeypatch.setitem(mini.info, "files", files)
    with pytest.raises(InputError, match=r"--precision mixed: .* has no model\.int8\.onnx"):
        open_models(mini, CPU, MIXED)
    assert open_models(mini, CPU, AUTO).low_precision is None


FEWEST = 1_000


def test_the_bound_is_where_so_few_disagreements_are_improbable():
    """The definition by Clopper and Pearson: at the bound, 2 disagreements or fewer have a probability of 5 %."""
    assert stats.binom.cdf(2, 500, disagreement_bound(2, 500)) == pytest.approx(0.05)
    assert [disagreement_bound(0, 0), disagreement_bound(3, 3)] == [1.0, 1.0]  # nothing is known
    assert disagreement_bound(2, 3) < 1.0
    for audited, confidence in ((1, 0.95), (50, 0.999), (15_500, 0.95), (10**9, 0.999)):  # without a disagreement
        wanted = special.betaincinv(1, audited, confidence)
        assert disagreement_bound(0, audited, confidence) == pytest.approx(wanted, rel=1e-12)


@given(st.lists(st.tuples(st.integers(1, 4 * 10**6), st.floats(0, 0.5)), min_size=1, max_size=5))
def test_a_run_of_many_decisions_bounds_the_wrong_ones_at_a_fiftieth_of_a_percent(patterns):
    """Even if the hash audits three standard deviations fewer than expected."""
    share = audit_share(patterns, FEWEST)
    expected = share * sum(n * (1 - close) for n, close in patterns)
    fewer = int(expected - 3 * expected**0.5)
    assert share <= MOST or share * sum(n for n, _ in patterns) <= 1.001 * FEWEST
    assert share >= MOST or fewer < FEWEST or disagreement_bound(0, fewer) <= AIM


def test_the_numbers_that_the_documentation_tells_and_patterns_share_one_audit():
    """docs/trust.md; 15,467 = 14,977 for the rule of three at 0.02 %, and four standard deviations."""
    for n, audited in {500: 500, 1_000: 1_000, 20_000: 1_000, 100_000: 5_000, 10**6: 15_467}.items():
        assert audit_share([(n, 0.0)], FEWEST) * n == pytest.approx(audited, abs=0.5)
    assert audit_share([(10**6, 0.1)] * 4, FEWEST) == pytest.approx(audit_share([(4 * 10**6, 0.1)], FEWEST))
    assert [audit_share([], FEWEST), audit_share([(0, 0.0)], FEWEST), audit_share([(1, 1.0)], 1)] == [1.0] * 3


def test_a_summary_in_numbers_and_in_words():
    for close, audited, wrong, said in [
        (42_000, 15_500, 0, "8.0 %|15,500 were made again in fp32: 0 were wrong, so at most 0.019 %|3.0 %"),
        (52_500, 52_500, 1, "10.0 %|52,500 were made again in fp32: 1 was wrong, so at most 0.009 %|10.0 %"),
    ]:
        found = audit_summary({"decided": 525_000, "close": close, "audited": audited, "disagreements": wrong})
        bound = disagreement_bound(wrong, audited)
        assert [*found.values()] == ["mixed", close / 525_000, audited, wrong, bound, audited / 525_000]
        calls, again, cost = said.split("|")
        begin = f"Mixed precision: {calls} of the decisions were close calls, made in fp32. Of the others, {again} are "
        assert audit_sentences(found) == [f"{begin}wrong (95 % confidence). Cost: {cost} of the time of fp32."]
    assert audit_summary({"tested": 3}) == {"kind": "fp32"}
    assert audit_sentences({"kind": "fp32"}) == audit_sentences({}) == []
