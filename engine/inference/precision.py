"""Exact decisions at low precision.

A fast twin of the model (int8 on the CPU, fp16 on CUDA) decides where the margin of the decision is wide, and the fp32
model where it is narrow. The margin is that of the decision asked for: the expected token's logit against the best
other; its sign says whether the verb is repeated. How far the twin's margin is off is measured for each pattern, on
sentences of the run itself, before it starts:

    error = margin of the twin - margin in fp32        bias = mean error
    bound = max(4.5 standard deviations, 1.1 × the largest) of (error - bias)

Errors are nearly normal but for a few verbs: on the bundled model those of one in 763 are six times as large as all
others'. So the sample has every verb in it, and a verb with an error beyond 4.5 robust deviations (1.4826 × the median
|error - median|, Hampel 1974) is left out of bias and bound, and always decided in fp32.

The twin decides alone where |margin - bias| > bound. For a normal error 4.5 deviations leave less than one wrong
decision in a million, as only those just beyond the bound are at risk. That is an estimate, so a random sample of what
the twin decided alone is decided in fp32 as well: the audit. A disagreement there is corrected, the bound grows beyond
it, and what had been decided within the new bound is decided again. What the run reports is the audit's count and the
upper confidence bound (Clopper and Pearson 1934) on the share of wrong decisions.

Rank, logits and the top-1 of a sentence that the twin decided are the twin's: only the decision itself is exact.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from ..errors import InputError
from ..runs.folder import RunFolder
from ..sentences.spans import Sentences
from .device import Device
from .exported import TWINS, ExportedModel
from .model import Decider, Decisions, Ids, MaskedLM

CALIBRATION_SENTENCES = (1_000, 3_000)  # fewest and most; in between, a twentieth of the run
AUDIT_SHARE = 0.005
AUDIT_SENTENCES = 1_000  # at least, in a whole run
_DEVIATIONS, _BEYOND_LARGEST, _BEYOND_DISAGREEMENT = 4.5, 1.1, 1.5
_NORMAL = 1.4826  # standard deviation over median absolute deviation, of a normal distribution
_MOST_LEFT_OUT = 0.05
_WORTH_IT = 1.1  # `auto` wants at least this much more speed
_SHORT_RUN = 20 * CALIBRATION_SENTENCES[0]


class Precision(StrEnum):
    """How a run decides."""

    AUTO = "auto"
    """Mixed where a short measurement says that it pays, else fp32."""
    FP32 = "fp32"
    """The reference."""
    MIXED = "mixed"
    """A fast twin where the margin is wide, fp32 where it is narrow."""


@dataclass(frozen=True)
class Calibration:
    """What was measured of a fast twin on one pattern.

    Attributes:
        bias: mean error of the margin, in logits.
        deviation: standard deviation of the error.
        bound: the twin decides alone beyond this corrected margin.
        never: int32, ascending: the expected tokens that it never decides about.
        close: share of the sentences that are left to fp32.
        speedup: how many times as fast as fp32 alone the two together are expected to be.
        sentences: how many were measured.
    """

    bias: float
    deviation: float
    bound: float
    never: Ids
    close: float
    speedup: float
    sentences: int


@dataclass
class Audit:
    """What became of decisions, counted in sentences: `close` and `audited` ones were decided in fp32."""

    decided: int = 0
    close: int = 0
    audited: int = 0
    disagreements: int = 0


def disagreement_bound(disagreements: int, audited: int, confidence: float = 0.95) -> float:
    """Upper confidence bound on the share of wrong decisions among those that the twin made alone.

    One-sided, Clopper and Pearson (1934); 1 if nothing was audited.
    """
    if disagreements >= audited:
        return 1.0
    return float(stats.beta.ppf(confidence, disagreements + 1, audited - disagreements))


def calibrate(fast: Decider, exact: Decider, sample: Sentences, audit_share: float = AUDIT_SHARE) -> Calibration:
    """Measure the twin's error and speed on sentences of the run."""
    margins, seconds = [], []
    for decider in (fast, exact):
        first = sample.slices[0]
        decider.decide(first.ids[:8], first.mask_position[:8], sample.expected[first.rows[:8]])  # not timed: warm-up
        started = time.perf_counter()
        margins.append(
            np.concatenate(
                [
                    decider.decide(s.ids, s.mask_position, sample.expected[s.rows]).margin(sample.expected[s.rows])
                    for s in sample.slices
                ]
            )
        )
        seconds.append(time.perf_counter() - started)
    error = margins[0].astype(np.float64) - margins[1]
    expected = np.concatenate([sample.expected[piece.rows] for piece in sample.slices])
    centre = np.median(error)
    outlying = np.abs(error - centre) > _DEVIATIONS * _NORMAL * np.median(np.abs(error - centre))
    never = np.unique(expected[outlying])
    if np.isin(expected, never).mean() > _MOST_LEFT_OUT:  # not a few verbs, but the shape of the error
        never = never[:0]
    usual = ~np.isin(expected, never)
    bias, deviation = float(error[usual].mean()), float(error[usual].std())
    bound = max(_DEVIATIONS * deviation, _BEYOND_LARGEST * float(np.abs(error[usual] - bias).max()))
    close = float(((np.abs(margins[0] - bias) <= bound) | ~usual).mean())
    speedup = 1 / (seconds[0] / seconds[1] + close + audit_share)
    return Calibration(bias, deviation, bound, never, close, speedup, len(error))


class MixedDecider:
    """Decides sentences of one pattern with a fast twin, close calls and an audit in fp32; see the module."""

    def __init__(
        self,
        fast: Decider,
        exact: Decider,
        calibration: Calibration,
        *,
        audit_share: float = AUDIT_SHARE,
        seed: int = 0,
    ) -> None:
        self._fast, self._exact = fast, exact
        self.calibration = calibration
        self.bound = calibration.bound
        self._audit = Audit()
        self._audit_share = audit_share
        self._random = np.random.default_rng(seed)

    @property
    def widened(self) -> bool:
        """Whether the audit found the calibrated bound too narrow."""
        return self.bound > self.calibration.bound

    def take_audit(self) -> Audit:
        """The counts since the last call."""
        audit, self._audit = self._audit, Audit()
        return audit

    def decide(self, ids: Ids, mask_position: Ids, expected: Ids) -> Decisions:
        """See `Decider`. Whether the expected token is the top-1 is as in fp32; the other numbers may be the twin's."""
        decisions = self._fast.decide(ids, mask_position, expected)
        certainty = self._certainty(decisions, expected)

        def in_fp32(rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
            """Decide some sentences again; returns which of all decisions that changed."""
            before = decisions.repeated(expected)
            chosen = np.flatnonzero(rows)
            if len(chosen):
                decisions.put(chosen, self._exact.decide(ids[chosen], mask_position[chosen], expected[chosen]))
            changed: NDArray[np.bool_] = before != decisions.repeated(expected)
            return changed

        close = certainty <= self.bound
        in_fp32(close)
        audited = ~close & (self._random.random(len(ids)) < self._audit_share)
        wrong = in_fp32(audited)
        if wrong.any():
            self.bound = _BEYOND_DISAGREEMENT * float(certainty[wrong].max())
            closer = ~close & ~audited & (certainty <= self.bound)
            in_fp32(closer)
            close |= closer
        self._audit.decided += len(ids)
        self._audit.close += int(close.sum())
        self._audit.audited += int(audited.sum())
        self._audit.disagreements += int(wrong.sum())
        return decisions

    def _certainty(self, decisions: Decisions, expected: Ids) -> NDArray[np.float32]:
        """How far the corrected margin is from zero; 0 where the correction changes the sign, and for some tokens."""
        margin = decisions.margin(expected)
        corrected = margin - np.float32(self.calibration.bias)
        trusted = (margin * corrected > 0) & ~np.isin(expected, self.calibration.never)
        certainty: NDArray[np.float32] = np.where(trusted, np.abs(corrected), 0)
        return certainty


@dataclass(frozen=True, eq=False)
class Models:
    """The fp32 model and, where the export holds one for the device, its fast twin."""

    exact: MaskedLM
    fast: MaskedLM | None


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
        InputError: `mixed` is asked for and the export has no twin for the device.
    """
    exact = MaskedLM(exported, device, batch_tokens=batch_tokens, threads=threads)
    twin = exported.twin(device.kind)
    if precision is Precision.FP32 or (precision is Precision.AUTO and twin is None):
        return Models(exact, None)
    if twin is None:
        raise InputError(
            f"--precision mixed: {exported.folder} has no {TWINS[device.kind]}: export the model again, or use fp32"
        )
    return Models(exact, MaskedLM(exported, device, graph=twin, batch_tokens=batch_tokens, threads=threads))


def choose_decider(
    models: Models,
    precision: Precision,
    pattern: str,
    sample: Callable[[int], Sentences],
    *,
    total: int,
    seed: int,
    say: Callable[[str], None] = lambda _: None,
) -> Decider:
    """The decider for one pattern of a run.

    Args:
        models: from `open_models`.
        precision: what was asked for.
        pattern: its name, for what is said.
        sample: gives a number of sentences of the pattern, as the run will have them.
        total: how many the run has.
        seed: of the audit's draws.
        say: is told the choice, in a line.
    """
    if models.fast is None:
        return models.exact
    if precision is Precision.AUTO and total < _SHORT_RUN:
        say(f"{pattern}: fp32, as {total:,} sentences are too few for calibrating a faster way to pay")
        return models.exact
    share = min(1.0, max(AUDIT_SHARE, AUDIT_SENTENCES / max(total, 1)))
    fewest, most = CALIBRATION_SENTENCES
    n = min(total, max(fewest, min(total // 20, most)))
    found = calibrate(models.fast, models.exact, sample(n), share)
    told = (
        f"{found.close:.1%} close calls (margin within {found.bound:.2f} logits, or one of {len(found.never)} verbs), "
        f"{found.speedup:.2f} × the speed of fp32 expected, measured on {found.sentences:,} sentences"
    )
    if precision is Precision.AUTO and found.speedup < _WORTH_IT:
        say(f"{pattern}: fp32, as mixed precision would not pay: {told}")
        return models.exact
    say(f"{pattern}: mixed precision: {told}")
    return MixedDecider(models.fast, models.exact, found, audit_share=share, seed=seed)


def audit_counts(deciders: Mapping[str, Decider]) -> dict[str, float]:
    """What a part's marker records of its deciders since the last call: the audit, and the bounds they went by.

    Args:
        deciders: pattern → its decider.
    """
    mixed = {pattern: decider for pattern, decider in deciders.items() if isinstance(decider, MixedDecider)}
    counts: dict[str, float] = {_BOUND.format(pattern): decider.bound for pattern, decider in mixed.items()}
    for decider in mixed.values():
        for name, value in asdict(decider.take_audit()).items():
            counts[name] = counts.get(name, 0) + value
    return counts


_BOUND = "bound of {}"


def audit_summary(counts: Mapping[str, float]) -> dict[str, float | str]:
    """What a run reports of its precision, from the sums of its parts' counts."""
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


def passes(run: RunFolder, deciders: Mapping[str, Decider]) -> Iterator[list[int]]:
    """The parts to do: the missing ones; then, if an audit widened a bound, those decided with a narrower one.

    Parts that were decided in fp32 alone have no bound, and stay.
    """
    yield run.missing_parts
    while narrower := [number for number in run.parts if _was_narrower(run.part_counts(number), deciders)]:
        yield narrower


def _was_narrower(counts: Mapping[str, float], deciders: Mapping[str, Decider]) -> bool:
    return any(
        isinstance(decider, MixedDecider) and decider.widened and counts.get(key, decider.bound) < decider.bound
        for key, decider in ((_BOUND.format(pattern), decider) for pattern, decider in deciders.items())
    )
