"""The engine: its reference model, its low-precision model alone, and both together."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ....engine.basics.choices import Precision
from ....engine.inference import mixed
from ....engine.inference.causal import open_language_model
from ....engine.inference.exported import load_exported
from ....engine.inference.model import Decider
from ....engine.inference.precision import open_models
from ...workload import Sentences
from ..system import Answers, Choice, Place, System

EXACT, LOW_PRECISION, MIXED = "fp32", "low precision alone", "mixed"
AUDIT_SHARE = 0.005  # a scoring of 1.8 million sentences audits 0.9 %, a selection of 10.9 million 0.2 %


class _Own(System[Sentences]):
    ours = True
    said: str
    _decider: Decider

    def about(self, choice: Choice) -> str:  # noqa: ARG002
        return self.said

    def run(self, work: Sentences, choice: Choice) -> Answers:  # noqa: ARG002
        found = np.empty(len(work), np.int32)
        for bucket in work.encoded.buckets:
            decisions = self._decider.decide(bucket.ids, bucket.mask_position, work.encoded.expected[bucket.rows])
            found[bucket.rows] = decisions.top1
        return found


class Reference(_Own):
    """The reference model."""

    name = EXACT
    said = "our engine, the reference"

    def open(self, place: Place) -> None:
        self._decider = open_language_model(load_exported(place.exported), place.device, threads=place.threads)


class LowPrecision(_Own):
    """The low-precision model alone; the export has one for the device."""

    name = LOW_PRECISION
    said = "our int8 or fp16 graph, decisions unchecked"

    def __init__(self, device_kind: str) -> None:
        self.arithmetic = "int8" if device_kind == "cpu" else "fp16"

    def open(self, place: Place) -> None:
        exported = load_exported(place.exported)
        graph = exported.low_precision(place.device.kind)
        self._decider = open_language_model(exported, place.device, graph=graph, threads=place.threads)


class Mixed(_Own):
    """Mixed precision; calibrated on the work before the clock starts, as in a run."""

    name = MIXED
    arithmetic = "mixed"
    said = "the low-precision model, close calls and an audit in fp32"

    def open(self, place: Place) -> None:
        exported = load_exported(place.exported)
        self._models = open_models(exported, place.device, Precision.MIXED, threads=place.threads)

    def settle(self, work: Sentences) -> None:
        low_precision, reference = self._models.low_precision, self._models.reference
        assert low_precision is not None  # noqa: S101 - Precision.MIXED: there is one, or opening fails
        calibration = mixed.calibrate(mixed.SENTENCES, low_precision, reference, work.encoded, audit_share=AUDIT_SHARE)
        self._decider, self._close = (
            mixed.Mixed(mixed.SENTENCES, low_precision, reference, calibration),
            calibration.close,
        )

    def found(self) -> Mapping[str, Any]:
        return {"close calls": self._close}
