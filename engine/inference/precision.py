"""Exact decisions at low precision.

A low-precision model (int8 on the CPU, fp16 on CUDA) decides where the margin of the decision is wide. The reference
model (fp32) decides where it is narrow. The margin is the expected token's logit minus the best other logit. Its sign
says whether the verb is repeated. (`Decisions.margin` says what it is where several forms of a verb are accepted.) The
error of the low-precision margin is measured for each pattern, on sentences of the run itself, before the run starts
(`calibration`). It has a bias and a bound.

The low-precision model decides alone where |margin - bias| > bound. For a normal error 4.5 deviations leave less than
one wrong decision in a million, as only decisions just beyond the bound are at risk. That is an estimate. So a random
sample of these decisions is decided by the reference model as well: the audit (`audit`). A hash of the sentence decides
what is audited, so the audit does not depend on the order of work. A disagreement is corrected, and it asks for a wider
bound. After all parts are done, every part that was decided with a narrower bound is decided again (see
`negengine.engine.runs.loop`). The run reports the audit's count and the upper confidence bound on the share of wrong
decisions.

Where the low-precision model decided, only the decision itself is exact. Rank, logits and the top-1 of a sentence
that is not repeated come from the low-precision model: `Decisions.precision` marks them.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from ..choices import Precision
from ..errors import InputError
from ..sentences.keys import combine, string_keys
from .audit import Audit
from .batches import Advance, ignored
from .calibration import Calibration
from .causal import open_language_model
from .device import Device
from .exported import LOW_PRECISION, ExportedModel
from .model import Decider, Decisions, Ids, LanguageModel, main_token

_BEYOND_DISAGREEMENT = 1.5


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
        trusted = (margin * corrected > 0) & ~np.isin(main_token(expected), self._never)
        certainty: NDArray[np.float32] = np.where(trusted, np.abs(corrected), 0)
        return certainty


@dataclass(frozen=True, eq=False)
class Models:
    """The reference model and, where the export holds one for the device, its low-precision model.

    Attributes:
        reference: The reference model.
        open_low_precision: Opens the low-precision model; None where there is none.
    """

    reference: LanguageModel
    open_low_precision: Callable[[], LanguageModel] | None = None

    @cached_property
    def low_precision(self) -> LanguageModel | None:
        """The low-precision model, opened when it is asked for first: a short run does not need it.

        Raises:
            InputError: A file of it is damaged, or its graph does not load on the device.
        """
        return self.open_low_precision() if self.open_low_precision else None


def open_models(
    exported: ExportedModel,
    device: Device,
    precision: Precision,
    *,
    batch_tokens: int | None = None,
    threads: int | None = None,
) -> Models:
    """Open the reference model; the low-precision model is opened when a pattern needs it.

    Raises:
        InputError: `mixed` is asked for and the export has no low-precision model for the device.
    """
    graph = exported.low_precision(device.kind)
    if precision is Precision.MIXED and graph is None:
        raise InputError(
            f"--precision mixed: {exported.folder} has no {LOW_PRECISION[device.kind]}: export the model again, or "
            "give --precision fp32"
        )
    reference = open_language_model(exported, device, batch_tokens=batch_tokens, threads=threads)
    if precision is Precision.FP32 or graph is None:
        return Models(reference)
    return Models(
        reference,
        partial(open_language_model, exported, device, graph=graph, batch_tokens=batch_tokens, threads=threads),
    )


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
