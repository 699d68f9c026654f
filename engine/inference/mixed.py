"""Exact decisions at low precision: a low-precision model decides where it is certain, the reference model elsewhere.

Certain is a number that, less the mean error (bias), is beyond the bound: max(4.5 standard deviations, 1.1 × the
largest) of (error - bias), measured on sentences of the run itself. For a normal error 4.5 deviations leave less than
one wrong decision in a million. A verb with an error beyond 4.5 robust deviations (1.4826 × the median
|error - median|, Hampel 1974) is always left to the reference model. `docs/trust.md` says what is exact.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..basics.errors import InputError
from ..text.keys import combine, string_keys
from .audit import Audit
from .batches import Advance, Steps, finished, gathered, ignored
from .causal import open_language_model
from .classifier import Classifier, EncodedPairs, Labels, PairClassifier
from .model import Asked, Decider, Decisions, Ids, main_token

CALIBRATION_SENTENCES = (1_000, 3_000)  # fewest and most; an audit has the fewest, too
_DEVIATIONS, _BEYOND_LARGEST, _BEYOND_DISAGREEMENT = 4.5, 1.1, 1.5
_NORMAL = 1.4826  # standard deviation over median absolute deviation, of a normal distribution
_MOST_EXCLUDED = 0.05

Rows = NDArray[np.int64]
Errors = NDArray[np.float64]
Flags = NDArray[np.bool_]


class NotFiniteError(InputError):
    """A model gives numbers that are not finite, so a bound on its error says nothing."""


@dataclass(frozen=True)
class Calibration:
    """The measured error of a low-precision model on one pattern; JSON values, so that a run can record them."""

    # mean error of the margin, in logits; of a classifier, the mean error of each label's logit
    bias: float | tuple[float, ...]
    deviation: float  # standard deviation of the margin's error, in logits
    bound: float  # the low-precision model decides alone beyond this corrected margin, in logits
    # expected tokens that are always left to the reference model, ascending; main ones of several
    never: tuple[int, ...]
    close: float  # share of the sentences that the reference model decides
    sentences: int  # that were measured
    repeated: int = 0  # measured sentences that repeat the verb, in fp32
    audit_share: float = 0.0  # of the decisions of the low-precision model
    seed: int = 0  # of the audit's hash
    low_precision: str = "int8"

    def to_json(self) -> dict[str, Any]:
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "Calibration":
        try:  # other keys are ignored
            return msgspec.convert(content, cls)
        except msgspec.ValidationError as error:
            raise InputError(f"run.json holds a wrong calibration ({error}); choose another --output") from error


def of_margins(error: Errors, verbs: NDArray[np.int32] | None = None, *, lowest_bias: float = -np.inf) -> Calibration:
    """The calibration of errors in logits, float64 [n], and expected tokens, int32 [n]; `close` is not known yet."""
    _refuse_not_finite(error)
    never, usual = np.empty(0, np.int32), error
    if verbs is not None:
        deviation = np.abs(error - np.median(error))
        never = np.unique(verbs[deviation > _DEVIATIONS * _NORMAL * np.median(deviation)])
        if np.isin(verbs, never).mean() > _MOST_EXCLUDED:  # not a few verbs, but the shape of the error
            never = never[:0]
        usual = error[~np.isin(verbs, never)]
    bias = float(usual.mean())
    return Calibration(
        bias=max(lowest_bias, bias),
        deviation=float(usual.std()),
        bound=widest(usual - bias),
        never=tuple(never.tolist()),
        close=1.0,
        sentences=len(error),
    )


def of_labels(error: Errors) -> Calibration:
    """The calibration of the logits of labels, float64 [n, labels]; the bound holds for any two labels' errors."""
    _refuse_not_finite(error)
    bias = error.mean(axis=0)
    residual = error - bias
    differences = [residual[:, one] - residual[:, other] for one, other in combinations(range(error.shape[1]), 2)]
    return Calibration(
        bias=tuple((bias - bias.mean()).tolist()),  # an error that all labels share changes no decision
        deviation=max(float(difference.std()) for difference in differences),
        bound=max(widest(difference) for difference in differences),
        never=(),
        close=1.0,
        sentences=len(error),
    )


def widest(error: Errors) -> float:
    """The bound that errors without their bias ask for: float64 [n], in logits."""
    return max(_DEVIATIONS * float(error.std()), _BEYOND_LARGEST * float(np.abs(error).max()))


def _refuse_not_finite(error: Errors) -> None:
    wrong = int((~np.isfinite(error)).reshape(len(error), -1).any(axis=1).sum())
    if wrong:
        raise NotFiniteError(
            f"--precision mixed: {wrong:,} of {len(error):,} measured decisions have logits that are not finite "
            "numbers (NaN or infinite): give --precision fp32"
        )


@dataclass(frozen=True)
class Method:
    """What mixed precision must know of one kind of decision. What is asked has n rows."""

    opening: Callable[..., Any]  # opens a graph of an export; takes the arguments of `OpenedModel`
    asked: Callable[[Any], Any]  # sample of the run → what is asked about it
    answers: Callable[[Any, Any, Advance], Steps[Any]]  # model, asked → with `logits`, float32 [n, k], and `put`
    some: Callable[[Any, Rows], Any]  # asked, ascending rows → what is asked about these
    ids: Callable[[Any], Iterator[tuple[Rows | slice, Ids]]]  # asked → rows and token ids, int32 [m, L], by length
    measured: Callable[[Any, Any, Any], Calibration]  # the reference model, asked, the low-precision model's answers
    certainty: Callable[[Any, Any, Calibration], NDArray[np.float32]]  # its answers, asked → [n], in logits
    decided: Callable[[Any, Any], NDArray[Any]]  # answers, asked → the decisions, [n], which must be exact
    sizes: tuple[int, int] = CALIBRATION_SENTENCES


class Mixed(Decider, Classifier):
    """Decides by its method with a low-precision model; close calls and an audit with the reference model."""

    def __init__(self, method: Method, low_precision: Any, reference: Any, calibration: Calibration) -> None:
        self._method, self._low_precision, self._reference = method, low_precision, reference
        self.calibration = calibration
        self.needed = 0.0  # the bound that the audits so far require, in logits
        self._audit = Audit()

    def take_audit(self) -> tuple[Audit, float]:
        """The counts and the needed bound since the last call."""
        taken = self._audit, self.needed
        self._audit, self.needed = Audit(), 0.0
        return taken

    def _count(self, close: Flags, audited: Flags, wrong: Flags, certainty: NDArray[np.float32]) -> None:
        if wrong.any():
            self.needed = max(self.needed, _BEYOND_DISAGREEMENT * float(certainty[wrong].max()))
        self._audit.decided += len(close)
        self._audit.close += int(close.sum())
        self._audit.audited += int(audited.sum())
        self._audit.disagreements += int(wrong.sum())

    @property
    def at_once(self) -> int:
        return int(self._low_precision.at_once)

    def deciding(self, ids: Ids, mask_position: Ids, expected: Ids, advance: Advance = ignored) -> Steps[Decisions]:
        return self._mixing([(ids, mask_position, expected)], advance)

    def deciding_each(self, groups: Sequence[Asked], advance: Advance = ignored) -> Steps[list[Decisions]]:
        found: Decisions = yield from self._mixing(groups, advance)
        return [found.take(span) for span, _ in _spans(groups)]

    def classifying(self, pairs: EncodedPairs, advance: Advance = ignored) -> Steps[Labels]:
        return self._mixing(pairs, advance)

    def _mixing(self, asked: Any, advance: Advance) -> Steps[Any]:
        method, bound = self._method, self.calibration.bound
        found = yield from method.answers(self._low_precision, asked, advance)
        certainty = method.certainty(found, asked, self.calibration)
        # NaN compares false: only finite numbers beyond the bound are trusted.
        close = ~(np.isfinite(found.logits).all(axis=1) & (certainty > bound))
        even = np.empty(len(close), np.float64)
        for rows, ids in method.ids(asked):
            even[rows] = even_numbers(ids, self.calibration.seed)
        audited = ~close & (even < self.calibration.audit_share)
        before = method.decided(found, asked).copy()  # it may be a part of an array that is overwritten
        chosen = np.flatnonzero(close | audited)
        if len(chosen):
            found.put(chosen, (yield from method.answers(self._reference, method.some(asked, chosen), ignored)))
        wrong = audited & (before != method.decided(found, asked))
        self._count(close, audited, wrong, certainty)
        return found


def even_numbers(ids: Ids, seed: int) -> NDArray[np.float64]:
    """A number in [0, 1) for each row of token ids, int32 [n, L], each value as likely: a hash of the row decides."""
    weights = string_keys([str(column) for column in range(ids.shape[1])], f"audit, seed {seed}")
    with np.errstate(over="ignore"):  # arithmetic modulo 2^64 is meant
        sums = ids.astype(np.uint64) @ (weights | np.uint64(1))
    return (combine(sums) >> np.uint64(11)).astype(np.float64) / 2**53


def calibrate(method: Method, low_precision: Any, reference: Any, sample: Any, *, seed: int) -> Calibration:
    """Measure the low-precision model's error on encoded sentences of one pattern, or pairs, of the run."""
    asked = method.asked(sample)
    found = finished(method.answers(low_precision, asked, ignored))
    measured = method.measured(reference, asked, found)
    close = ~(method.certainty(found, asked, measured) > measured.bound)
    return replace(measured, close=float(close.mean()), seed=seed)


def _spans(groups: Sequence[Asked]) -> Iterator[tuple[slice, Asked]]:
    """Each group with its rows among those of all."""
    begin = 0
    for group in groups:
        end = begin + len(group[0])
        yield slice(begin, end), group
        begin = end


def _some_sentences(groups: Sequence[Asked], rows: Rows) -> list[Asked]:
    chosen = []
    for span, group in _spans(groups):
        inside = rows[(rows >= span.start) & (rows < span.stop)] - span.start
        if len(inside):
            ids, mask_position, expected = (array[inside] for array in group)
            chosen.append((ids, mask_position, expected))
    return chosen


def _expected(groups: Sequence[Asked]) -> Ids:
    """int32 [n], or [n, k] where several tokens are accepted; see `main_token`."""
    return np.concatenate([expected for _, _, expected in groups])


def _decide(model: Any, groups: Sequence[Asked], advance: Advance) -> Steps[Decisions]:
    return Decisions.joined((yield from gathered(model.deciding(*group, advance) for group in groups)))


def _margins(reference: Any, groups: Sequence[Asked], found: Decisions) -> Calibration:
    expected = _expected(groups)
    exact = finished(_decide(reference, groups, ignored)).margin(expected)
    error = found.margin(expected).astype(np.float64) - exact
    return replace(of_margins(error, main_token(expected)), repeated=int(np.count_nonzero(exact > 0)))


def _margin_certainty(found: Decisions, groups: Sequence[Asked], known: Calibration) -> NDArray[np.float32]:
    expected = _expected(groups)
    margin = found.margin(expected)
    corrected = margin - np.asarray(known.bias, np.float32)
    trusted = (margin * corrected > 0) & ~np.isin(main_token(expected), np.array(known.never, np.int32))
    return np.asarray(np.where(trusted, np.abs(corrected), 0))


SENTENCES = Method(
    opening=open_language_model,
    asked=lambda sample: [(own.ids, own.mask_position, sample.expected[own.rows]) for own in sample.buckets],
    answers=_decide,
    some=_some_sentences,
    ids=lambda groups: ((span, ids) for span, (ids, _, _) in _spans(groups)),
    measured=_margins,
    certainty=_margin_certainty,
    decided=lambda found, groups: found.repeated(_expected(groups)),
)
"""Sentences of one length: whether the expected token is the top-1. Has `deciding`.

The certainty is |margin - bias| (`Decisions.margin`); 0 where the bias changes the sign, and for some verbs.
"""


def _decide_each(model: Any, groups: Sequence[Asked], advance: Advance) -> Steps[Decisions]:
    return Decisions.joined((yield from model.deciding_each(groups, advance)))


def _gaps(reference: Any, groups: Sequence[Asked], found: Decisions) -> Calibration:
    chosen = [(ids, mask, found.top1[span]) for span, (ids, mask, _) in _spans(groups)]
    margin = finished(_decide_each(reference, chosen, ignored)).margin(found.top1)
    return of_margins((found.logits[:, 0] - found.logits[:, 1]).astype(np.float64) - margin, lowest_bias=0.0)


def _gap_certainty(found: Decisions, _groups: Sequence[Asked], known: Calibration) -> NDArray[np.float32]:
    return np.asarray(found.logits[:, 0] - found.logits[:, 1] - np.asarray(known.bias, np.float32))


FIRST_CHOICES = replace(
    SENTENCES, answers=_decide_each, measured=_gaps, certainty=_gap_certainty, decided=lambda found, _groups: found.top1
)
"""Sentences of several lengths whose top-1 token is the result, whichever is expected. Has `deciding_each`.

The certainty is the gap between the two best tokens minus the bias; the error is the gap minus the reference model's
margin of that choice. A negative bias is not used: with it, a gap of 0 could be beyond.
"""


def _label_certainty(found: Labels, _pairs: EncodedPairs, known: Calibration) -> NDArray[np.float32]:
    corrected = found.logits - np.asarray(known.bias, np.float32)
    best = np.partition(corrected, -2, axis=1)
    same = corrected.argmax(axis=1) == found.label
    return np.where(same, best[:, -1] - best[:, -2], np.float32(0))


LABELS = Method(
    opening=PairClassifier,
    asked=lambda pairs: pairs,
    answers=lambda model, pairs, advance: model.classifying(pairs, advance),
    some=EncodedPairs.chosen,
    ids=lambda pairs: ((bucket.rows, bucket.ids) for bucket in pairs.buckets),
    measured=lambda reference, pairs, found: of_labels(
        found.logits.astype(np.float64) - finished(reference.classifying(pairs)).logits
    ),
    certainty=_label_certainty,
    decided=lambda found, _pairs: found.label,
    # A calibration of sentences has every verb, as some verbs have large errors. Pairs have no such groups: a bias for
    # each label and one deviation are measured, so more pairs would only cost time.
    sizes=(300, 300),
)
"""Pairs of texts: the label with the highest logit. Has `classifying`.

The certainty is the difference of the two best corrected logits; 0 where the correction changes the label. If no
difference of two errors is larger than the bound, no other label can be above.
"""


@dataclass(frozen=True)
class Audited:
    """The audit of a part, for its record."""

    counts: Mapping[str, int]  # to be summed over parts
    bounds: Mapping[str, float]  # pattern → the bound that decided the part, in logits; mixed precision only
    needed: Mapping[str, float]  # pattern → the bound that the part's audit asks for, in logits


def take_audits(deciders: Mapping[str, object]) -> Audited:
    """The audits since the last call, of deciders by their pattern."""
    counts: Counter[str] = Counter()
    bounds, needed = {}, {}
    for pattern, decider in deciders.items():
        if isinstance(decider, Mixed):
            audit, needed[pattern] = decider.take_audit()
            bounds[pattern] = decider.calibration.bound
            counts.update(asdict(audit))
    return Audited(dict(counts), bounds, needed)
