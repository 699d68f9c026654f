"""The steps of `make gpu`, and what they are given: the device, the exported models, how much is measured."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from ...engine.inference.device import CPU, Device
from ...engine.inference.exported import ExportedModel, load_exported


class NotHere(Exception):  # noqa: N818 - it is not an error
    """A step has nothing to measure here. The message says why, in one line."""


class Amount(msgspec.Struct, frozen=True):
    """How much is measured."""

    compared: int = 4_096  # sentences whose decisions are compared with those of the CPU
    timed: int = 65_536  # sentences of a round of the sweeps
    rounds: int = 5  # how often each of their points is timed
    candidates: int = 1_000_000  # candidates of the selection
    lazy_pairs: int | None = None  # pairs of the lazy selection; None for all
    # tokens of a batch that are tried
    batch_tokens: tuple[int, ...] = (4_096, 8_192, 16_384, 32_768, 65_536, 131_072)
    streams: tuple[int, ...] = (1, 2, 3, 4)  # how many batches at the same time are tried
    baseline_seconds: float = 4.0  # about how long a round of the authors' program takes
    baseline_sentences: int = 2_000  # fewest sentences of such a round


REHEARSAL = Amount(
    compared=32,
    timed=32,
    rounds=1,
    candidates=100,
    lazy_pairs=1,
    batch_tokens=(256, 512),
    streams=(1, 2),
    baseline_seconds=0.1,
    baseline_sentences=16,
)
"""So little that all steps end in a few minutes on two cores."""


class Model(msgspec.Struct, frozen=True):
    """An exported model."""

    name: str  # what it is called
    checkpoint: str  # the folder or hub id that transformers loads
    folder: str  # of its export
    is_random: bool  # whether its weights are random

    @property
    def exported(self) -> ExportedModel:
        return load_exported(Path(self.folder))


class Setting(msgspec.Struct, frozen=True):
    """What a step is given."""

    kind: str  # of the device, `cuda` or `cpu`
    index: int  # of the device
    names: tuple[str, ...]  # the models, as `negengine bench` takes them
    cache: str  # a folder for checkpoints, exports, and files that baselines make
    amount: Amount  # how much is measured
    models: tuple[Model, ...] = ()  # those that are exported; empty before the step `export`

    @property
    def device(self) -> Device:
        return CPU if self.kind == CPU.kind else Device(self.kind, self.index)


Found = dict[str, Any]
"""What a step gives: JSON values, whose keys say what they are and in which unit."""


@dataclass(frozen=True)
class Step:
    """One step."""

    name: str  # what it is called in the JSON file
    function: str  # `module:function`, from `Setting` to JSON values
    about: str  # what it shows, in a line
    minutes: float  # when it is stopped
    needs_models: bool = True  # whether it needs exported models


EXPORT = "export"
_HERE = "negengine.bench.gpu"
STEPS = (
    Step("environment", f"{_HERE}.checks:environment", "device, driver, versions", 1, needs_models=False),
    Step(EXPORT, f"{_HERE}.checks:export", "the models, exported", 6, needs_models=False),
    Step("placement", f"{_HERE}.checks:placement", "where each operator runs, and which kernel attention takes", 2),
    Step("parity", f"{_HERE}.checks:parity", "decisions in fp32, fp16 and mixed beside fp32 on the CPU", 3),
    Step("selection", f"{_HERE}.selection:selection", "a million candidates, selected", 4),
    Step("lazy", f"{_HERE}.selection:lazy", "the whole lazy test set", 3),
    Step("sweep", f"{_HERE}.points:sweep", "sizes of batches and streams", 3),
    Step("attention", f"{_HERE}.points:attention", "kernels of attention", 2),
    Step("baselines", f"{_HERE}.baselines:baselines", "PyTorch, torch.compile, Optimum, TensorRT", 6),
)
"""The limits exceed 25 minutes together; `run` stops each step at the end of the whole time, too."""
