"""Decisions on the device beside those of the reference model on the CPU."""

from typing import Any

import numpy as np

from ...engine.inference.device import CPU
from ...engine.inference.exported import REFERENCE
from ...engine.inference.mixed import SENTENCES, Mixed, calibrate
from ...engine.inference.model import Decisions, MaskedLM
from ...engine.text.token_ids import EncodedSentences
from ..systems.mask.own import AUDIT_SHARE
from ..workload import candidates, main_job
from .deciding import decide_all, graphs_of
from .setting import Found, Setting

_NEAR_TIE = 1e-3  # logits: closer than this, two libraries may order two tokens differently


def parity(setting: Setting) -> Found:
    """Model → precision → how far decisions and log-probabilities are from those of fp32 on the CPU."""
    found: Found = {}
    for model in setting.models:
        exported = model.exported
        encoded = candidates(main_job(exported), setting.amount.compared).encoded
        reference = decide_all(MaskedLM(exported, CPU), encoded)
        opened = {
            precision: MaskedLM(exported, setting.device, graph=graph)
            for precision, graph in graphs_of(model, setting).items()
        }
        own = {
            precision: _compared(decide_all(decider, encoded), reference, encoded)
            for precision, decider in opened.items()
        }
        low = next((decider for precision, decider in opened.items() if precision != REFERENCE), None)
        if low is not None and not model.is_random:  # random weights have almost close calls alone
            calibration = calibrate(SENTENCES, low, opened[REFERENCE], encoded, audit_share=AUDIT_SHARE)
            mixed = Mixed(SENTENCES, low, opened[REFERENCE], calibration)
            own["mixed"] = _compared(decide_all(mixed, encoded), reference, encoded) | {
                "close calls": calibration.close,
                "bound, logits": calibration.bound,
            }
        found[model.name] = own
    return found


def _compared(found: Decisions, reference: Decisions, encoded: EncodedSentences) -> dict[str, Any]:
    expected = encoded.expected
    wrong = found.repeated(expected) != reference.repeated(expected)
    near = np.abs(reference.margin(expected)) < _NEAR_TIE
    return {
        "sentences": len(expected),
        "same top-1": float(np.mean(found.top1 == reference.top1)),
        "wrong decisions": int(wrong.sum()),
        "of them near-ties": int((wrong & near).sum()),
        "largest difference of a log-probability": float(
            np.abs(found.expected_logprob - reference.expected_logprob).max()
        ),
        "same rank": float(np.mean(found.expected_rank == reference.expected_rank)),
    }
