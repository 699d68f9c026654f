"""How each pattern of a run is decided, by inputs and kind of device alone: with mixed precision, or in fp32."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Generic, TypeVar

from ..basics.choices import Precision
from ..basics.errors import InputError
from ..basics.numerals import percent
from . import tally
from .audit import audit_share, disagreement_bound
from .causal import open_language_model
from .exported import FP32_ON_DEVICE, REFERENCE, ExportedModel
from .mixed import CALIBRATION_SENTENCES, SENTENCES, Calibration, Method, Mixed, NotFiniteError, calibrate
from .model import LanguageModel, OpenedModel
from .session import Device

_SHARE = 20  # between fewest and most, a calibration has one of so many sentences of the run
_TIMES = 10  # a run that is shorter than so many times the fewest would spend too much on its calibration and audit
SHORT_RUN = _TIMES * CALIBRATION_SENTENCES[0]
_FIRST_LOOK = 100  # sentences of the run, after which `auto` leaves a low-precision model that cannot be worth it
_MOST_FOR_NOTHING = 0.05  # of the run's time in fp32: what the calibration of a model may take that may not be worth it
_WORTH_IT = 1.1  # `auto` wants at least this much more speed
_SURE = 0.999  # confidence of the largest share of repetitions that the sample allows
USUAL_BATCHES = {"batch_tokens": None}  # what a session takes on another device than the one that was named

Say = Callable[[str], None]
Opened = TypeVar("Opened", bound=OpenedModel)


@dataclass(frozen=True, eq=False)
class ModelPair(Generic[Opened]):
    """The reference model and, where the export holds one for the device, what opens its low-precision model."""

    reference: Opened
    open_low_precision: Callable[[], Opened] | None = None
    on: Device | None = None  # where the low-precision model runs, if not where the reference model does
    other: "ModelPair[Opened] | None" = None  # another low-precision model beside the same reference, that may decide

    @property
    def device(self) -> Device:
        return self.on or self.reference.device

    @property
    def deciding(self) -> "list[ModelPair[Opened]]":
        """The pairs of which the fastest may decide: this one and the other."""
        return [self, *([self.other] if self.other else [])]

    @cached_property
    def low_precision(self) -> Opened | None:  # opened when it is asked for first: a short run does not need it
        opened = self.open_low_precision() if self.open_low_precision else None
        if opened is not None and opened.precision == FP32_ON_DEVICE:
            tally.say(f"{self.device}: the device or the export has no fp16, so it computes in fp32")
        return opened


Models = ModelPair[LanguageModel]


def open_pair(
    opening: Callable[..., Opened], exported: ExportedModel, device: Device, precision: Precision, **session: Any
) -> ModelPair[Opened]:
    """Open the reference model by `opening`, and the other one later; `session` are `batch_tokens` and `threads`."""
    graph = None if precision is Precision.FP32 else device.low_precision(exported)
    if precision is Precision.MIXED and graph is None:
        raise InputError(
            f"--precision mixed: {exported.folder} has no {device.low_graph}: export the model with --precision mixed, "
            "or give --precision fp32"
        )
    elsewhere = {} if device.is_reference else USUAL_BATCHES
    reference = opening(exported, device.reference, **session | elsewhere)
    if graph is None:
        return ModelPair(reference)
    found = ModelPair(reference, partial(opening, exported, device, graph=graph, **session), device)
    beside = device.beside if precision is Precision.AUTO else None
    if beside is None or (low := beside.low_precision(exported)) is None:
        return found
    own = partial(opening, exported, beside, graph=low, **session | USUAL_BATCHES)
    other = ModelPair(reference, own, beside)
    return other if exported.is_causal else replace(found, other=other)  # beginnings are shared on that device alone


open_models = partial(open_pair, open_language_model)


@dataclass(frozen=True, eq=False)
class Workload:
    """The sentences of one pattern that a run will decide, all shards together."""

    pattern: str
    sample: Callable[[int], Any]  # so many sentences of the pattern, from the whole run
    total: int  # sentences that the whole run has; where it does not know that before, the least number


@dataclass(frozen=True)
class _Candidate:
    """Mixed precision on one pattern, before it is chosen."""

    workload: Workload
    calibration: Calibration
    speed_ratio: float

    @property
    def weight(self) -> tuple[int, float]:  # the least number of sentences, and the share of close calls
        return self.workload.total, self.calibration.close

    def alone(self, fewest: int) -> float:
        """The `speedup` if no other pattern were decided so."""
        return self.speedup(audit_share([self.weight], fewest))

    @property
    def at_best(self) -> float:
        """The `speedup` with the fewest close calls that the measured ones allow, and without an audit."""
        found = self.calibration
        certain = disagreement_bound(round((1 - found.close) * found.sentences), found.sentences, _SURE)
        return speedup(self.speed_ratio, 1 - certain, 0)

    def at_worst(self, fewest: int) -> float:
        """The `speedup` alone with the most close calls that the measured ones allow."""
        found = self.calibration
        most = disagreement_bound(round(found.close * found.sentences), found.sentences, _SURE)
        return speedup(self.speed_ratio, most, audit_share([(self.weight[0], most)], fewest))

    def leaves(self, n: int, fewest: int) -> bool:
        """Whether `auto` measures no more than a first look: a calibration of n sentences could not pay, or may not."""
        costs = n * (1 + 1 / self.speed_ratio) > _MOST_FOR_NOTHING * self.workload.total
        return self.at_best < _WORTH_IT or (costs and self.at_worst(fewest) < _WORTH_IT)

    def speedup(self, share: float) -> float:
        """How many times as fast mixed precision is as fp32, if so many of the low-precision decisions are audited."""
        return speedup(self.speed_ratio, self.calibration.close, share)


def speedup(ratio: float, close: float, audited: float) -> float:
    """How many times as fast as fp32 mixed precision is: the low-precision model decides all, fp32 again some of them.

    The former is `ratio` times as fast; the latter are the `close` calls, and the share `audited` of the others.
    """
    return 1 / (1 / ratio + close + audited * (1 - close))


def choose_precisions(
    models: ModelPair[Any],
    precision: Precision,
    workloads: Sequence[Workload],
    *,
    seed: int,
    method: Method = SENTENCES,
    say: Say = lambda _: None,
    speed_ratio: float | None = None,
) -> dict[str, dict[str, Any]]:
    """Choose how each pattern of a run is decided: pattern → `reason` or `Calibration`, as JSON for its record."""
    if models.open_low_precision is None:
        return {own.pattern: _fp32("the reference model alone is open") for own in workloads}
    fewest, most = method.sizes
    choices: dict[str, dict[str, Any]] = {}
    candidates: list[_Candidate] = []
    left: list[_Candidate] = []  # after a first look, which is not a calibration
    for workload in workloads:
        if precision is Precision.AUTO and workload.total < _TIMES * fewest:
            choices[workload.pattern] = _fp32(f"with {workload.total:,} sentences, mixed precision would not be faster")
            continue
        try:
            # The sample depends on the whole run, not on the shard: all shards measure the same sentences.
            n = max(1, min(workload.total, max(fewest, min(workload.total // _SHARE, most))))
            for size in (min(_FIRST_LOOK, n), n) if precision is Precision.AUTO else (n,):
                measured = partial(_candidate, method, workload, size, seed, speed_ratio)
                best = max(map(measured, models.deciding), key=lambda own: own.alone(fewest))
                if size < n and best.leaves(n, fewest):
                    left.append(best)
                    break
            candidates.append(best)
        except NotFiniteError:
            if precision is Precision.MIXED:
                raise
            reason = "the low-precision model gives numbers that are not finite"
            say(f"{workload.pattern}: fp32; {reason}")
            choices[workload.pattern] = _fp32(reason)
    chosen = [own for own in candidates if own not in left]
    while True:  # the fewer patterns have mixed precision, the more each of them must audit
        share = audit_share([candidate.weight for candidate in chosen], fewest)
        worth_it = [own for own in chosen if precision is Precision.MIXED or own.speedup(share) >= _WORTH_IT]
        if len(worth_it) == len(chosen):
            break
        chosen = worth_it
    for candidate in candidates:
        own = share if candidate in chosen else audit_share([candidate.weight], fewest)
        choices[candidate.workload.pattern] = _choice(candidate, own, is_mixed=candidate in chosen, say=say)
    if not chosen and models.on and models.on != models.reference.device:
        tally.say(f"{models.reference.device} decides, in fp32; --precision mixed has {models.on} decide")
    return {workload.pattern: choices[workload.pattern] for workload in workloads}


def _candidate(
    method: Method, workload: Workload, n: int, seed: int, speed_ratio: float | None, models: ModelPair[Any]
) -> _Candidate:
    low: Any = models.low_precision
    found = calibrate(method, low, models.reference, workload.sample(n), seed=seed)
    ratio = models.device.low_precision_speed() if speed_ratio is None else speed_ratio
    return _Candidate(workload, replace(found, low_precision=low.precision), ratio)


def _fp32(reason: str) -> dict[str, Any]:
    return {"precision": REFERENCE, "reason": reason}


def _choice(candidate: _Candidate, share: float, *, is_mixed: bool, say: Say) -> dict[str, Any]:
    found, pattern = candidate.calibration, candidate.workload.pattern
    speed = {"speed_ratio": candidate.speed_ratio, "speedup": candidate.speedup(share)}
    measured = f"{percent(found.close)} % of {found.sentences:,} measured sentences are checked again in fp32"
    times = f"{speed['speedup']:.2f} times as fast"
    if not is_mixed:
        times += ", which may not pay for its calibration" if speed["speedup"] >= _WORTH_IT else ""
        say(f"{pattern}: fp32; mixed precision would be {times} ({measured})")
        return _fp32(f"mixed precision would be {times}") | speed
    say(f"{pattern}: mixed precision, about {times} as fp32 ({measured}; {percent(share)} % of the others are audited)")
    return {"precision": str(Precision.MIXED), **replace(found, audit_share=share).to_json(), **speed}


def open_decider(
    models: ModelPair[Any], precision: Precision, choice: Mapping[str, Any], method: Method = SENTENCES
) -> Any:
    """What decides one pattern: the reference model, or `Mixed`; `auto` takes what the run has recorded."""
    recorded = Precision.FP32 if choice.get("precision") == Precision.FP32 else Precision.MIXED
    if precision not in {Precision.AUTO, recorded}:
        raise InputError(
            f"this run was started in {recorded} precision, which cannot change: give --precision {recorded}, or "
            "choose another --output"
        )
    if recorded is Precision.FP32:
        return models.reference
    calibration = Calibration.from_json(choice)
    found = [own for pair in models.deciding if (own := pair.low_precision) is not None]
    low = next((own for own in found if own.precision == calibration.low_precision), next(iter(found), None))
    if low is None:
        raise InputError(
            "this run was started in mixed precision, and the export has no low-precision model for this device: "
            "choose another --device or --output"
        )
    if calibration.low_precision != low.precision:
        raise InputError(
            f"this run was started with the {calibration.low_precision} model, and this device takes the "
            f"{low.precision} model: choose another --device or --output"
        )
    return Mixed(method, low, models.reference, calibration)


def widened(choice: Mapping[str, Any], needed: float) -> dict[str, Any]:
    """A choice whose bound is not less than the bound that an audit requires."""
    return {**choice, "bound": max(choice["bound"], needed)} if "bound" in choice else dict(choice)
