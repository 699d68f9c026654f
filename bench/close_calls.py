"""Close calls: how often mixed precision asks the reference model, and what that makes of its speed.

The logits of random weights lie close together, so their close calls say nothing. For them the share of the bundled
model counts.
"""

from pathlib import Path

from ..engine.choices import Precision
from ..engine.inference.device import Device
from ..engine.inference.mixed import SENTENCES, Mixed, calibrate
from ..engine.inference.precision import Models, open_models
from .shapes import MINI, prepare
from .systems.mask.own import AUDIT_SHARE
from .workload import Sentences, candidates, main_job


def mixed_decider(models: Models, sentences: Sentences) -> Mixed | None:
    """Both models together, calibrated on some sentences; None without a low-precision model."""
    if models.low_precision is None:
        return None
    pair = models.low_precision, models.reference
    return Mixed(SENTENCES, *pair, calibrate(SENTENCES, *pair, sentences.encoded, audit_share=AUDIT_SHARE))


def close_calls(device: Device, cache: Path, n: int) -> float | None:
    """Share of close calls of the bundled model among n sentences; None without a low-precision model."""
    exported = prepare(MINI, cache).exported
    mixed = mixed_decider(open_models(exported, device, Precision.AUTO), candidates(main_job(exported), n))
    return None if mixed is None else mixed.calibration.close


def expected_rate(exact: float, low_precision: float, close: float) -> float:
    """Sentences a second of mixed precision that is as fast as its two models."""
    return 1 / (1 / low_precision + (close + AUDIT_SHARE) / exact)
