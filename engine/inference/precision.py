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

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..choices import Precision
from ..errors import InputError
from .batches import Advance, ignored
from .calibration import Calibration
from .causal import open_language_model
from .device import Device
from .exported import LOW_PRECISION, ExportedModel
from .mixing import Audited, Mixed, even_numbers, take_audits
from .model import Decider, Decisions, Ids, LanguageModel, main_token
from .opened import OpenedModel

__all__ = ["Audited", "MixedDecider", "ModelPair", "Models", "open_models", "open_pair", "take_audits"]

_Sentences = tuple[Ids, Ids, Ids]


class MixedDecider(Mixed[_Sentences, Decisions]):
    """Decides sentences of one pattern with a low-precision model, close calls and an audit with the reference model.

    A decision depends only on the sentence, the calibration and the two models.
    """

    def __init__(self, low_precision: Decider, reference: Decider, calibration: Calibration) -> None:
        super().__init__(calibration)
        self._low_precision, self._reference = low_precision, reference
        self._never = np.array(calibration.never, np.int32)

    def decide(self, ids: Ids, mask_position: Ids, expected: Ids, advance: Advance = ignored) -> Decisions:
        """See `Decider`. Whether the expected token is the top-1 is exact; other numbers may be of low precision."""
        return self.mix((ids, mask_position, expected), advance)

    def answers(self, asked: _Sentences, advance: Advance) -> Decisions:
        """See `Mixed`."""
        return self._low_precision.decide(*asked, advance)

    def exact_answers(self, asked: _Sentences, rows: NDArray[np.int64]) -> Decisions:
        """See `Mixed`."""
        ids, mask_position, expected = asked
        return self._reference.decide(ids[rows], mask_position[rows], expected[rows])

    def certainty(self, found: Decisions, asked: _Sentences) -> NDArray[np.float32]:
        """How far the corrected margin is from zero; 0 where the correction changes the sign, and for some tokens."""
        expected = asked[2]
        margin = found.margin(expected)
        corrected = margin - np.asarray(self.calibration.bias, np.float32)
        trusted = (margin * corrected > 0) & ~np.isin(main_token(expected), self._never)
        certainty: NDArray[np.float32] = np.where(trusted, np.abs(corrected), 0)
        return certainty

    def decided(self, found: Decisions, asked: _Sentences) -> NDArray[np.bool_]:
        """See `Mixed`."""
        return found.repeated(asked[2])

    def even(self, asked: _Sentences) -> NDArray[np.float64]:
        """See `Mixed`."""
        return even_numbers(asked[0], self.calibration.seed)


Opened = TypeVar("Opened", bound=OpenedModel)


@dataclass(frozen=True, eq=False)
class ModelPair(Generic[Opened]):
    """The reference model and, where the export holds one for the device, its low-precision model.

    Attributes:
        reference: The reference model.
        open_low_precision: Opens the low-precision model; None where there is none.
    """

    reference: Opened
    open_low_precision: Callable[[], Opened] | None = None

    @cached_property
    def low_precision(self) -> Opened | None:
        """The low-precision model, opened when it is asked for first: a short run does not need it.

        Raises:
            InputError: A file of it is damaged, or its graph does not load on the device.
        """
        return self.open_low_precision() if self.open_low_precision else None


Models = ModelPair[LanguageModel]


def open_pair(
    opening: Callable[..., Opened],
    exported: ExportedModel,
    device: Device,
    precision: Precision,
    *,
    batch_tokens: int | None = None,
    threads: int | None = None,
) -> ModelPair[Opened]:
    """Open the reference model; the low-precision model is opened when a pattern needs it.

    Args:
        opening: Opens a graph of the export, with the arguments of `OpenedModel`.
        exported: The model.
        device: Where it runs.
        precision: What was asked for.
        batch_tokens: See `OpenedModel`.
        threads: See `OpenedModel`.

    Raises:
        InputError: `mixed` is asked for and the export has no low-precision model for the device.
    """
    graph = exported.low_precision(device.kind)
    if precision is Precision.MIXED and graph is None:
        raise InputError(
            f"--precision mixed: {exported.folder} has no {LOW_PRECISION[device.kind]}: export the model again, or "
            "give --precision fp32"
        )
    reference = opening(exported, device, batch_tokens=batch_tokens, threads=threads)
    if precision is Precision.FP32 or graph is None:
        return ModelPair(reference)
    return ModelPair(
        reference, partial(opening, exported, device, graph=graph, batch_tokens=batch_tokens, threads=threads)
    )


open_models = partial(open_pair, open_language_model)
"""Opens a language model; see `open_pair`."""
