"""Stages that run an exported model, with decisions for each pattern; and where fp32 runs."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

from ..basics.choices import Precision
from ..basics.errors import InputError
from ..basics.option import Opening
from ..inference import tally
from ..inference.device import choose_device
from ..inference.exported import ExportedModel
from ..inference.mixed import SENTENCES, Method
from ..inference.model import Decider, LanguageModel, OpenedModel
from ..inference.precision import (
    USUAL_BATCHES,
    ModelPair,
    Workload,
    choose_precisions,
    open_decider,
    open_pair,
)
from ..inference.session import Device
from .stage import LOW_PRECISION_SHA256, Model, Stage, changed

Opened = TypeVar("Opened", bound=OpenedModel)
Deciding = TypeVar("Deciding")
Prepared = TypeVar("Prepared")

TAKEN_FROM = "taken_from"  # the key of a recorded choice with the stage that the pattern's decisions are taken from
_MODEL = "model"


class ExportedStage(Stage[Model, Prepared]):
    """A stage that reads an exported model's folder."""

    exported: ExportedModel  # the model

    def files(self) -> Mapping[str, Path]:
        return {_MODEL: self.exported.folder}

    def with_files(self, places: Mapping[str, Path]) -> Self:
        return changed(self, exported=replace(self.exported, folder=places[_MODEL]))


@dataclass(frozen=True, eq=False)
class Deciders(Generic[Opened, Deciding]):
    """Opened models, and how each pattern is decided."""

    models: ModelPair[Opened]  # the reference model and its low-precision model
    precision: Precision  # what was asked for
    # Pattern → its decider; empty before a calibration is used
    deciders: Mapping[str, Deciding] = field(default_factory=dict)
    # Pattern whose decisions come from an earlier stage → what the run has recorded of that
    taken: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


PatternDeciders = Deciders[LanguageModel, Decider]


class MixedStage(ExportedStage[Deciders[Opened, Deciding], Prepared], Generic[Opened, Deciding, Prepared]):
    """A stage with a choice of the precision, pattern by pattern."""

    calibrates: ClassVar[bool] = True
    lanes: ClassVar[int] = 2
    method: ClassVar[Method]  # what mixed precision is for the stage's decisions

    @property
    @abstractmethod
    def seed(self) -> int:
        """Seed of the audit's hash."""

    @abstractmethod
    def workloads(self) -> Sequence[Workload]:
        """The sentences of each pattern that the whole run will decide."""

    def open(self, options: Opening) -> Deciders[Opened, Deciding]:
        device = choose_device(options.device)
        models = open_pair(self.method.opening, self.exported, device, options.precision, **options.session)
        return Deciders(models, options.precision)

    def describe(self, model: Deciders[Opened, Deciding]) -> Mapping[str, Any]:
        return description(self.exported, model.models.reference) | {"device": str(model.models.device)}

    def calibrate(self, model: Deciders[Opened, Deciding], say: Callable[[str], None]) -> dict[str, Any]:
        known = self.known(model, say)
        workloads = [workload for workload in self.workloads() if workload.pattern not in known]
        chosen = choose_precisions(
            model.models, model.precision, workloads, seed=self.seed, method=self.method, say=say
        )
        for choice in chosen.values():
            if "low_precision" in choice:
                choice[LOW_PRECISION_SHA256] = self.exported.low_precision_sha256(choice["low_precision"])
        return {**known, **chosen}

    def known(self, model: Deciders[Opened, Deciding], say: Callable[[str], None]) -> dict[str, dict[str, Any]]:  # noqa: ARG002
        """Pattern → a choice as `choose_precisions` gives it, with `TAKEN_FROM`, where an earlier stage has decided."""
        return {}

    def use(self, model: Deciders[Opened, Deciding], calibration: Mapping[str, Any]) -> Deciders[Opened, Deciding]:
        for choice in calibration.values():
            recorded = choice.get(LOW_PRECISION_SHA256)
            if recorded not in {None, self.exported.low_precision_sha256(str(choice.get("low_precision")))}:
                raise InputError(
                    f"this run was started with another {choice['low_precision']} model than {self.exported.folder} "
                    "holds now: choose another --output, or give the export with which it was started"
                )
        deciders = {
            pattern: open_decider(model.models, model.precision, choice, self.method)
            for pattern, choice in calibration.items()
            if TAKEN_FROM not in choice
        }
        taken = {pattern: choice for pattern, choice in calibration.items() if TAKEN_FROM in choice}
        return Deciders(model.models, model.precision, deciders, taken)


class DecidingStage(MixedStage[LanguageModel, Decider, Prepared]):
    """A stage whose sentences have a mask and belong to patterns."""

    method: ClassVar[Method] = SENTENCES


def fp32_session(options: Opening) -> tuple[Device, dict[str, Any]]:
    """Where fp32 runs, and what its session takes: where a device's fp32 is another one, its reference's."""
    device = choose_device(options.device)
    if device.is_reference:
        return device, options.session
    tally.say(f"{device.reference} decides, in fp32, as {device} rounds otherwise")
    return device.reference, options.session | USUAL_BATCHES


def needs_fp32(stage: str) -> str:
    """What an error says of mixed precision for a stage or a probe with this name."""
    return (
        f"--precision mixed: {stage} reports ranks and probabilities, which only fp32 gives exactly; "
        "use --precision fp32 or auto"
    )


def description(exported: ExportedModel, model: OpenedModel) -> dict[str, Any]:
    """What the run's record says about an opened model."""
    return {"model": exported.name, "device": str(model.device), "batch tokens": model.batch_tokens}
