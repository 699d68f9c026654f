"""Exact decisions at low precision.

A low-precision model (int8 on the CPU, fp16 on CUDA) decides where the margin of the decision is wide. The reference
model (fp32) decides where it is narrow. The margin is the expected token's logit minus the best other logit. Its sign
says whether the verb is repeated. The error of the low-precision margin is measured for each pattern, on sentences of
the run itself, before the run starts:

    error = low-precision margin - reference margin        bias = mean error
    bound = max(4.5 standard deviations, 1.1 × the largest) of (error - bias)

Errors are nearly normal except for a few verbs: on the bundled model the errors of one verb in 763 are six times as
large as all others'. So the sample contains every verb. A verb with an error beyond 4.5 robust deviations (1.4826 ×
the median |error - median|, Hampel 1974) does not count for bias and bound. The reference model always decides it.

The low-precision model decides alone where |margin - bias| > bound. For a normal error 4.5 deviations leave less than
one wrong decision in a million, as only decisions just beyond the bound are at risk. That is an estimate. So a random
sample of these decisions is decided by the reference model as well: the audit. A hash of the sentence decides what is
audited, so the audit does not depend on the order of work. A disagreement is corrected, and it asks for a wider bound.
After all parts are done, every part that was decided with a narrower bound is decided again (see `negengine.engine.runs
.loop`). The run reports the audit's count and the upper confidence bound (Clopper and Pearson 1934) on the share of
wrong decisions.

Where the low-precision model decided, only the decision itself is exact. Rank, logits and the top-1 of a sentence
that is not repeated come from the low-precision model.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..choices import Precision
from ..errors import InputError
from ..sentences.keys import combine, string_keys
from ..sentences.spans import EncodedSentences
from .batches import Advance, ignored
from .device import Device
from .exported import LOW_PRECISION, ExportedModel
from .model import Decider, Decisions, Ids, MaskedLM

CALIBRATION_SENTENCES = (1_000, 3_000)  # fewest and most; in between, a twentieth of the run
AUDIT_SHARE = 0.005
AUDIT_SENTENCES = 1_000  # at least, in a whole run
_DEVIATIONS, _BEYOND_LARGEST, _BEYOND_DISAGREEMENT = 4.5, 1.1, 1.5
_NORMAL = 1.4826  # standard deviation over median absolute deviation, of a normal distribution
_MOST_EXCLUDED = 0.05
_WORTH_IT = 1.1  # `auto` wants at least this much more speed
_TICK = 1e-9  # seconds; a clock can be too coarse for a small sample
_SHORT_RUN = 20 * CALIBRATION_SENTENCES[0]


@dataclass(frozen=True)
class Calibration:
    """The measured error and speed of a low-precision model on one pattern; JSON values, so that a run can record them.

    Attributes:
        bias: Mean error of the margin, in logits.
        deviation: Standard deviation of the error, in logits.
        bound: The low-precision model decides alone beyond this corrected margin, in logits.
        never: The expected tokens that are always left to the reference model, ascending.
        close: Share of the sentences that the reference model decides.
        speedup: How many times as fast as the reference model alone both together are expected to be.
        sentences: How many sentences were measured.
        audit_share: Share of the decisions of the low-precision model that are audited.
        seed: Seed of the audit's hash.
    """

    bias: float
    deviation: float
    bound: float
    never: tuple[int, ...]
    close: float
    speedup: float
    sentences: int
    audit_share: float = AUDIT_SHARE
    seed: int = 0

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values; floats come back from JSON with the same bits."""
        return {**asdict(self), "never": list(self.never)}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "Calibration":
        """The inverse of `to_json`; other keys are ignored.

        Raises:
            InputError: A field is missing, or has another type.
        """
        try:
            return msgspec.convert(content, cls)
        except msgspec.ValidationError as error:
            raise InputError(f"run.json holds a wrong calibration ({error}); choose another --output") from error


@dataclass
class Audit:
    """Counts of sentences: the reference model decided the `close` and the `audited` ones."""

    decided: int = 0
    close: int = 0
    audited: int = 0
    disagreements: int = 0


def disagreement_bound(disagreements: int, audited: int, confidence: float = 0.95) -> float:
    """Upper confidence bound on the share of wrong decisions that the low-precision model made alone.

    One-sided, Clopper and Pearson (1934); 1 if nothing was audited.
    """
    from scipy import special  # noqa: PLC0415 - takes long to import

    if disagreements >= audited:
        return 1.0
    return float(special.betaincinv(disagreements + 1, audited - disagreements, confidence))


def calibrate(
    low_precision: Decider,
    reference: Decider,
    sample: EncodedSentences,
    *,
    audit_share: float = AUDIT_SHARE,
    seed: int = 0,
    clock: Callable[[], float] = time.perf_counter,
) -> Calibration:
    """Measure the low-precision model's error and speed on sentences of the run.

    Args:
        low_precision: The low-precision model.
        reference: The reference model.
        sample: Sentences of one pattern.
        audit_share: Share of the decisions of the low-precision model that the run will audit.
        seed: Seed of the audit's hash.
        clock: Gives seconds. The speed depends on it; nothing that decides a sentence does.
    """
    margins, seconds = [], []
    for decider in (low_precision, reference):
        first = sample.buckets[0]
        decider.decide(first.ids[:8], first.mask_position[:8], sample.expected[first.rows[:8]])  # not timed: warm-up
        started = clock()
        margins.append(
            np.concatenate(
                [
                    decider.decide(s.ids, s.mask_position, sample.expected[s.rows]).margin(sample.expected[s.rows])
                    for s in sample.buckets
                ]
            )
        )
        seconds.append(clock() - started)
    error = margins[0].astype(np.float64) - margins[1]
    expected = np.concatenate([sample.expected[bucket.rows] for bucket in sample.buckets])
    centre = np.median(error)
    outlying = np.abs(error - centre) > _DEVIATIONS * _NORMAL * np.median(np.abs(error - centre))
    never = np.unique(expected[outlying])
    if np.isin(expected, never).mean() > _MOST_EXCLUDED:  # not a few verbs, but the shape of the error
        never = never[:0]
    usual = ~np.isin(expected, never)
    bias, deviation = float(error[usual].mean()), float(error[usual].std())
    bound = max(_DEVIATIONS * deviation, _BEYOND_LARGEST * float(np.abs(error[usual] - bias).max()))
    close = float(((np.abs(margins[0] - bias) <= bound) | ~usual).mean())
    speedup = 1 / (seconds[0] / max(seconds[1], _TICK) + close + audit_share)
    return Calibration(
        bias, deviation, bound, tuple(never.tolist()), close, speedup, len(error), audit_share=audit_share, seed=seed
    )


class MixedDecider:
    """Decides sentences of one pattern with a low-precision model, close calls and an audit with the reference model.

    A decision depends only on the sentence, the calibration and the two models.

    Attributes:
        calibration: The bias, the bound and the other measured values.
        needed: The bound that the audits so far require, in logits; 0 without a disagreement.
    """

    def __init__(self, low_precision: Decider, reference: Decider, calibration: Calibration) -> None:
        self._low_precision, self._reference = low_precision, reference
        self.calibration = calibration
        self.needed = 0.0
        self._never = np.array(calibration.never, np.int32)
        self._audit = Audit()

    def take_audit(self) -> tuple[Audit, float]:
        """The counts and the needed bound since the last call."""
        taken = self._audit, self.needed
        self._audit, self.needed = Audit(), 0.0
        return taken

    def decide(self, ids: Ids, mask_position: Ids, expected: Ids, advance: Advance = ignored) -> Decisions:
        """See `Decider`. Whether the expected token is the top-1 is exact; other numbers may be of low precision."""
        decisions = self._low_precision.decide(ids, mask_position, expected, advance)
        certainty = self._certainty(decisions, expected)
        close = certainty <= self.calibration.bound
        audited = ~close & self._is_audited(ids)
        before = decisions.repeated(expected)
        chosen = np.flatnonzero(close | audited)
        if len(chosen):
            decisions.put(chosen, self._reference.decide(ids[chosen], mask_position[chosen], expected[chosen]))
        wrong = audited & (before != decisions.repeated(expected))
        if wrong.any():
            self.needed = max(self.needed, _BEYOND_DISAGREEMENT * float(certainty[wrong].max()))
        self._audit.decided += len(ids)
        self._audit.close += int(close.sum())
        self._audit.audited += int(audited.sum())
        self._audit.disagreements += int(wrong.sum())
        return decisions

    def _is_audited(self, ids: Ids) -> NDArray[np.bool_]:
        """A hash of each sentence decides, bool [n]."""
        weights = string_keys([str(column) for column in range(ids.shape[1])], f"audit, seed {self.calibration.seed}")
        with np.errstate(over="ignore"):  # arithmetic modulo 2^64 is meant
            sums = ids.astype(np.uint64) @ (weights | np.uint64(1))
        even = (combine(sums) >> np.uint64(11)).astype(np.float64) / 2**53  # in [0, 1), each value as likely
        chosen: NDArray[np.bool_] = even < self.calibration.audit_share
        return chosen

    def _certainty(self, decisions: Decisions, expected: Ids) -> NDArray[np.float32]:
        """How far the corrected margin is from zero; 0 where the correction changes the sign, and for some tokens."""
        margin = decisions.margin(expected)
        corrected = margin - np.float32(self.calibration.bias)
        trusted = (margin * corrected > 0) & ~np.isin(expected, self._never)
        certainty: NDArray[np.float32] = np.where(trusted, np.abs(corrected), 0)
        return certainty


@dataclass(frozen=True, eq=False)
class Models:
    """The reference model and, where the export holds one for the device, its low-precision model."""

    reference: MaskedLM
    low_precision: MaskedLM | None = None


def open_models(
    exported: ExportedModel,
    device: Device,
    precision: Precision,
    *,
    batch_tokens: int | None = None,
    threads: int | None = None,
) -> Models:
    """Open the sessions that a precision needs.

    Raises:
        InputError: `mixed` is asked for and the export has no low-precision model for the device.
    """
    graph = exported.low_precision(device.kind)
    if precision is Precision.MIXED and graph is None:
        raise InputError(
            f"--precision mixed: {exported.folder} has no {LOW_PRECISION[device.kind]}: export the model again, or "
            "give --precision fp32"
        )
    reference = MaskedLM(exported, device, batch_tokens=batch_tokens, threads=threads)
    if precision is Precision.FP32 or graph is None:
        return Models(reference)
    return Models(reference, MaskedLM(exported, device, graph=graph, batch_tokens=batch_tokens, threads=threads))


@dataclass(frozen=True, eq=False)
class Workload:
    """The sentences of one pattern that a run will decide.

    Attributes:
        pattern: The pattern's name.
        sample: A function that takes a number and returns that many sentences of the pattern, from the run.
        total: How many sentences the whole run has, all shards together.
        own: How many this process is expected to run: its shard's share.
    """

    pattern: str
    sample: Callable[[int], EncodedSentences]
    total: int
    own: int


def calibrate_pattern(
    models: Models,
    precision: Precision,
    workload: Workload,
    *,
    seed: int,
    say: Callable[[str], None] = lambda _: None,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Any]:
    """Choose how one pattern of a run is decided.

    The sample depends on the whole run, not on the shard: all shards of a run measure the same sentences.

    Args:
        models: From `open_models`.
        precision: What was asked for.
        workload: The sentences of the pattern.
        seed: Seed of the audit's hash.
        say: Receives the result in one line.
        clock: Gives seconds; `auto` measures with it.

    Returns:
        A JSON value for the run's record: `precision`, `reason`, and for mixed precision the fields of `Calibration`.
    """
    fp32 = {"precision": str(Precision.FP32)}
    if models.low_precision is None:
        return {**fp32, "reason": "the reference model alone is open"}
    if precision is Precision.AUTO and workload.own < _SHORT_RUN:
        return {**fp32, "reason": f"with {workload.own:,} sentences, mixed precision would not be faster"}
    share = min(1.0, max(AUDIT_SHARE, AUDIT_SENTENCES / max(workload.total, 1)))
    fewest, most = CALIBRATION_SENTENCES
    n = max(1, min(workload.total, max(fewest, min(workload.total // 20, most))))
    sample = workload.sample(n)
    found = calibrate(models.low_precision, models.reference, sample, audit_share=share, seed=seed, clock=clock)
    measured = f"{found.close:.1%} of {found.sentences:,} measured sentences are checked again in fp32"
    if precision is Precision.AUTO and found.speedup < _WORTH_IT:
        say(f"{workload.pattern}: fp32; mixed precision would be {found.speedup:.2f} times as fast ({measured})")
        return {**fp32, "reason": f"mixed precision would be {found.speedup:.2f} times as fast"}
    say(f"{workload.pattern}: mixed precision, about {found.speedup:.1f} times as fast as fp32 ({measured})")
    return {"precision": str(Precision.MIXED), **found.to_json()}


def open_decider(models: Models, precision: Precision, choice: Mapping[str, Any]) -> Decider:
    """The decider of one pattern.

    Args:
        models: From `open_models`.
        precision: What was asked for; `auto` takes what the run has recorded.
        choice: From `calibrate_pattern`, or from the run's record.

    Raises:
        InputError: The run was started with another precision, or this machine does not have the low-precision model.
    """
    recorded = Precision.FP32 if choice.get("precision") == Precision.FP32 else Precision.MIXED
    if precision not in {Precision.AUTO, recorded}:
        raise InputError(
            f"this run was started in {recorded} precision, which cannot change: give --precision {recorded}, or "
            "choose another --output"
        )
    if recorded is Precision.FP32:
        return models.reference
    if models.low_precision is None:
        raise InputError(
            "this run was started in mixed precision, and the export has no low-precision model for this device: "
            "choose another --device or --output"
        )
    return MixedDecider(models.low_precision, models.reference, Calibration.from_json(choice))


def widened(choice: Mapping[str, Any], needed: float) -> dict[str, Any]:
    """A choice whose bound is not less than the bound that an audit requires."""
    return {**choice, "bound": max(choice["bound"], needed)} if "bound" in choice else dict(choice)


@dataclass(frozen=True)
class Audited:
    """The audit of a part, for its record.

    Attributes:
        counts: The audit's counts, to be summed over parts.
        bounds: Pattern → the bound that decided the part, in logits; mixed precision only.
        needed: Pattern → the bound that the part's audit asks for, in logits.
    """

    counts: Mapping[str, int]
    bounds: Mapping[str, float]
    needed: Mapping[str, float]


def take_audits(deciders: Mapping[str, Decider]) -> Audited:
    """The audits since the last call.

    Args:
        deciders: Pattern → its decider.
    """
    counts: dict[str, int] = {}
    bounds, needed = {}, {}
    for pattern, decider in deciders.items():
        if isinstance(decider, MixedDecider):
            audit, bound = decider.take_audit()
            bounds[pattern], needed[pattern] = decider.calibration.bound, bound
            for name, value in asdict(audit).items():
                counts[name] = counts.get(name, 0) + value
    return Audited(counts, bounds, needed)


def audit_summary(counts: Mapping[str, float]) -> dict[str, float | str]:
    """A run's report on its precision, from the sums of its parts' counts."""
    if not counts.get("decided"):
        return {"kind": Precision.FP32}
    audited, disagreements = int(counts["audited"]), int(counts["disagreements"])
    return {
        "kind": Precision.MIXED,
        "close_calls": counts["close"] / counts["decided"],
        "audited": audited,
        "disagreements": disagreements,
        "disagreement_rate_upper_bound": disagreement_bound(disagreements, audited),
    }
