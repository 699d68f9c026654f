"""What the steps are given: the device, the exported models, and how much is measured."""

from pathlib import Path
from typing import Any

import msgspec

from ...engine.inference.device import CPU, Device
from ...engine.inference.exported import ExportedModel, load_exported


class NotHere(Exception):  # noqa: N818 - it is not an error
    """A step has nothing to measure here. The message says why, in one line."""


class Amount(msgspec.Struct, frozen=True):
    """How much is measured.

    Attributes:
        compared: Sentences whose decisions are compared with those of the CPU.
        timed: Sentences of a round of the sweeps.
        rounds: How often each of their points is timed.
        candidates: Candidates of the selection.
        lazy_pairs: Pairs of the lazy selection; None for all.
        batch_tokens: Tokens of a batch that are tried.
        replayed_tokens: The same for CUDA graphs.
        streams: How many batches at the same time are tried.
        baseline_seconds: About how long a round of the authors' program takes.
        baseline_sentences: Fewest sentences of such a round.
    """

    compared: int = 4_096
    timed: int = 65_536
    rounds: int = 5
    candidates: int = 1_000_000
    lazy_pairs: int | None = None
    batch_tokens: tuple[int, ...] = (4_096, 8_192, 16_384, 32_768, 65_536, 131_072)
    replayed_tokens: tuple[int, ...] = (512, 1_024, 2_048, 4_096)
    streams: tuple[int, ...] = (1, 2, 3, 4)
    baseline_seconds: float = 4.0
    baseline_sentences: int = 2_000


REHEARSAL = Amount(
    compared=32,
    timed=32,
    rounds=1,
    candidates=100,
    lazy_pairs=1,
    batch_tokens=(256, 512),
    replayed_tokens=(256,),
    streams=(1, 2),
    baseline_seconds=0.1,
    baseline_sentences=16,
)
"""So little that all steps end in a few minutes on two cores."""


class Model(msgspec.Struct, frozen=True):
    """An exported model.

    Attributes:
        name: What it is called.
        checkpoint: The folder or hub id that transformers loads.
        folder: Of its export.
        is_random: Whether its weights are random.
    """

    name: str
    checkpoint: str
    folder: str
    is_random: bool

    @property
    def exported(self) -> ExportedModel:
        """The export."""
        return load_exported(Path(self.folder))


class Setting(msgspec.Struct, frozen=True):
    """What a step is given.

    Attributes:
        kind: Of the device, `cuda` or `cpu`.
        index: Of the device.
        names: The models, as `negengine bench` takes them.
        models: Those that are exported; empty before the step `export`.
        cache: A folder for checkpoints, exports, and files that baselines make.
        amount: How much is measured.
    """

    kind: str
    index: int
    names: tuple[str, ...]
    cache: str
    amount: Amount
    models: tuple[Model, ...] = ()

    @property
    def device(self) -> Device:
        """The device."""
        return CPU if self.kind == CPU.kind else Device(self.kind, self.index)


Found = dict[str, Any]
"""What a step gives: JSON values, whose keys say what they are and in which unit."""
