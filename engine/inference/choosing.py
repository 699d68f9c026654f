"""How each pattern of a run is decided: with mixed precision, or by the reference model alone.

The choice is a function of the run's inputs, so all shards and all later processes make the same one: of the number of
sentences of the whole run, of the calibration on a sample that all shards draw alike, and of the kind of processor,
which says how many times as fast the low-precision model is as fp32 (`processor.low_precision_speed`). With this r,

    speed of mixed precision over fp32 = 1 / (1 / r + close calls + audit)

with close calls and audit as shares of all sentences. `auto` chooses mixed precision where this is at least 1.1, for
runs of at least 10,000 sentences or 3,000 pairs of texts. The run records the choice.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from ..choices import Precision
from ..errors import InputError
from ..text.token_ids import EncodedSentences
from .audit import audit_share, disagreement_bound
from .calibration import Calibration, NotFiniteError, calibrate
from .causal import open_language_model
from .exported import REFERENCE
from .model import Decider, LanguageModel
from .opened import OpenedModel
from .precision import MixedDecider, ModelPair
from .processor import low_precision_speed

CALIBRATION_SENTENCES = (1_000, 3_000)  # fewest and most
_SHARE = 20  # between the two, a calibration has one of so many sentences of the run
_TIMES = 10  # a run that is shorter than so many times the fewest would spend too much on its calibration and audit
SHORT_RUN = _TIMES * CALIBRATION_SENTENCES[0]
_WORTH_IT = 1.1  # `auto` wants at least this much more speed
_SURE = 0.999  # confidence of the largest share of repetitions that the sample allows

Say = Callable[[str], None]
Opened = TypeVar("Opened", bound=OpenedModel)
Deciding = TypeVar("Deciding")
Sample = TypeVar("Sample")


@dataclass(frozen=True)
class Method(Generic[Opened, Deciding, Sample]):
    """What mixed precision is for one kind of decision.

    Attributes:
        opening: Opens a graph of an export; takes the arguments of `OpenedModel`.
        calibrate: From low-precision model, reference model, a sample and the seed of the audit's hash to the
            calibration.
        mixed: From low-precision model, reference model and calibration to what decides with both.
        measured: How many sentences a calibration has, fewest and most. An audit has the fewest, too.
    """

    opening: Callable[..., Opened]
    calibrate: Callable[[Any, Any, Sample, int], Calibration]
    mixed: Callable[[Any, Any, Calibration], Deciding]
    measured: tuple[int, int] = CALIBRATION_SENTENCES


def _calibrated(low: Decider, reference: Decider, sample: EncodedSentences, seed: int) -> Calibration:
    return calibrate(low, reference, sample, seed=seed)


SENTENCES: Method[LanguageModel, Decider, EncodedSentences] = Method(
    opening=open_language_model, calibrate=_calibrated, mixed=MixedDecider
)
"""Sentences with a mask."""


@dataclass(frozen=True, eq=False)
class Workload:
    """The sentences of one pattern that a run will decide, all shards together.

    Attributes:
        pattern: The pattern's name.
        sample: A function that takes a number and returns that many sentences of the pattern, from the whole run.
        total: How many sentences the whole run is expected to have.
        at_least: From the largest credible share of repetitions, the number of sentences that the whole run is expected
            to have at least; by default `total`. The number is not known before in a lazy run.
    """

    pattern: str
    sample: Callable[[int], Any]
    total: int
    at_least: Callable[[float], int] | None = None

    def known(self, found: Calibration) -> int:
        """The number of sentences at least, after a calibration."""
        if self.at_least is None:
            return self.total
        return self.at_least(disagreement_bound(found.repeated, found.sentences, _SURE))


@dataclass(frozen=True)
class _Candidate:
    """Mixed precision on one pattern, before it is chosen."""

    workload: Workload
    calibration: Calibration
    speed_ratio: float

    @property
    def weight(self) -> tuple[int, float]:
        """See `audit_share`."""
        return self.workload.known(self.calibration), self.calibration.close

    def speedup(self, share: float) -> float:
        """How many times as fast mixed precision is expected to be as fp32, if this share is audited."""
        close = self.calibration.close
        return 1 / (1 / self.speed_ratio + close + share * (1 - close))


def choose_precisions(
    models: ModelPair[Any],
    precision: Precision,
    workloads: Sequence[Workload],
    *,
    seed: int,
    method: Method[Any, Any, Any] = SENTENCES,
    say: Say = lambda _: None,
    speed_ratio: float | None = None,
) -> dict[str, dict[str, Any]]:
    """Choose how each pattern of a run is decided.

    Args:
        models: From `open_pair`.
        precision: What was asked for.
        workloads: The sentences of each pattern.
        seed: Seed of the audit's hash.
        method: For the kind of decision.
        say: Receives the choices, one line each.
        speed_ratio: Speed of the low-precision model over fp32; by default what the kind of processor says.

    Returns:
        Pattern → a JSON value for the run's record. `precision` is `fp32` or `mixed`. `reason` says why a pattern is
        decided in fp32. For `mixed`, and where `auto` calibrated before it chose fp32, there are `speed_ratio` (of
        the low-precision model to fp32) and `speedup` (expected speed of mixed precision over fp32). For `mixed`
        there are the fields of `Calibration`, too.
    """
    if models.open_low_precision is None:
        return {
            own.pattern: {"precision": REFERENCE, "reason": "the reference model alone is open"} for own in workloads
        }

    ratio = low_precision_speed(models.reference.device) if speed_ratio is None else speed_ratio
    choices: dict[str, dict[str, Any]] = {}
    candidates: list[_Candidate] = []
    for workload in workloads:
        if precision is Precision.AUTO and workload.total < _TIMES * method.measured[0]:
            reason = f"with {workload.total:,} sentences, mixed precision would not be faster"
            choices[workload.pattern] = {"precision": REFERENCE, "reason": reason}
        else:
            try:
                candidates.append(_measured(models, workload, seed, method, ratio))
            except NotFiniteError:
                if precision is Precision.MIXED:
                    raise
                reason = "the low-precision model gives numbers that are not finite"
                say(f"{workload.pattern}: fp32; {reason}")
                choices[workload.pattern] = {"precision": REFERENCE, "reason": reason}
    chosen = candidates
    while True:  # the fewer patterns have mixed precision, the more each of them must audit
        share = audit_share([candidate.weight for candidate in chosen], method.measured[0])
        worth_it = [
            candidate for candidate in chosen if precision is Precision.MIXED or candidate.speedup(share) >= _WORTH_IT
        ]
        if len(worth_it) == len(chosen):
            break
        chosen = worth_it
    for candidate in candidates:
        own = share if candidate in chosen else audit_share([candidate.weight], method.measured[0])
        choices[candidate.workload.pattern] = _choice(candidate, own, is_mixed=candidate in chosen, say=say)
    return {workload.pattern: choices[workload.pattern] for workload in workloads}


def _measured(
    models: ModelPair[Any],
    workload: Workload,
    seed: int,
    method: Method[Any, Any, Sample],
    speed_ratio: float,
) -> _Candidate:
    """The sample depends on the whole run, not on the shard: all shards of a run measure the same sentences."""
    fewest, most = method.measured
    n = max(1, min(workload.total, max(fewest, min(workload.total // _SHARE, most))))
    sample, low = workload.sample(n), _low_precision(models)
    found = method.calibrate(low, models.reference, sample, seed)
    return _Candidate(workload, replace(found, low_precision=low.precision), speed_ratio)


def _low_precision(models: ModelPair[Opened]) -> Opened:
    if models.low_precision is None:
        raise ValueError("there is no low-precision model")
    return models.low_precision


def _choice(candidate: _Candidate, share: float, *, is_mixed: bool, say: Say) -> dict[str, Any]:
    found, pattern = candidate.calibration, candidate.workload.pattern
    speed = {"speed_ratio": candidate.speed_ratio, "speedup": candidate.speedup(share)}
    measured = f"{found.close:.1%} of {found.sentences:,} measured sentences are checked again in fp32"
    times = f"{speed['speedup']:.2f} times as fast"
    if not is_mixed:
        say(f"{pattern}: fp32; mixed precision would be {times} ({measured})")
        return {"precision": REFERENCE, "reason": f"mixed precision would be {times}", **speed}
    say(f"{pattern}: mixed precision, about {times} as fp32 ({measured}; {share:.1%} of the others are audited)")
    return {"precision": str(Precision.MIXED), **replace(found, audit_share=share).to_json(), **speed}


def open_decider(
    models: ModelPair[Any],
    precision: Precision,
    choice: Mapping[str, Any],
    method: Method[Any, Deciding, Any] = SENTENCES,  # type: ignore[assignment]
) -> Deciding:
    """What decides one pattern.

    Args:
        models: From `open_pair`.
        precision: What was asked for; `auto` takes what the run has recorded.
        choice: From `choose_precisions`, or from the run's record.
        method: For the kind of decision.

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
        return models.reference  # type: ignore[no-any-return]
    low = models.low_precision
    if low is None:
        raise InputError(
            "this run was started in mixed precision, and the export has no low-precision model for this device: "
            "choose another --device or --output"
        )
    calibration = Calibration.from_json(choice)
    if calibration.low_precision != low.precision:
        raise InputError(
            f"this run was started with the {calibration.low_precision} model, and this device takes the "
            f"{low.precision} model: choose another --device or --output"
        )
    return method.mixed(low, models.reference, calibration)


def widened(choice: Mapping[str, Any], needed: float) -> dict[str, Any]:
    """A choice whose bound is not less than the bound that an audit requires."""
    return {**choice, "bound": max(choice["bound"], needed)} if "bound" in choice else dict(choice)
