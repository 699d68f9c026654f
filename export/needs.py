"""How much memory and disk an export needs, estimated from the checkpoint's size and checked before the work starts."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

from ..engine.basics.errors import InputError
from ..engine.basics.limits import control_groups
from .checkpoint import Checkpoint
from .samples import USUAL
from .source import Source
from .weight_files import weights_of

# Measured on two cores: a peak of 0.88 GB for AntiBERTy, whose weights have 0.10 GB, and of 1.72 for SmolLM2 with 0.54.
# So Python with its libraries takes 0.68 GB and each weight 1.94 times its size; a fifth more is for other models.
_MEMORY_OF_LIBRARIES = 0.7e9
_MEMORY_PER_WEIGHT = 2.4
_ELSEWHERE = "close other programs, or export on a larger machine and copy the folder"
_BYTES_OF_COPIES = 4 * 3  # of a score or a logit in fp32: before and after a softmax, and one more


@dataclass(frozen=True)
class Needs:
    """Bytes of memory and of disk."""

    memory: float
    disk: float

    def __str__(self) -> str:
        return f"needs about {self.memory / 1e9:.1f} GB of memory and {self.disk / 1e9:.1f} GB of disk"

    def check(self, work: str, folder: Path) -> str:
        """Say what is free; an InputError if a work needs more memory, or more of the disk of its folder."""
        memory, disk = free_memory(), free_disk(folder)
        if self.memory > memory:
            raise InputError(f"{work} {self}, but only {memory / 1e9:.1f} GB of memory are free: {_ELSEWHERE}")
        if self.disk > disk:
            said = f"only {disk / 1e9:.1f} GB are free in {folder}: make room or give another --output"
            raise InputError(f"{work} {self}, but {said}")
        return f"{memory / 1e9:.1f} GB and {disk / 1e9:.1f} GB are free"


def estimate(source: Source, graphs: float) -> Needs | None:
    """What writing graphs of so many times the weights in fp32 needs; None if the checkpoint's size cannot be told."""
    weights = sum((weights_of(source) or {}).values())
    return Needs(_MEMORY_OF_LIBRARIES + _MEMORY_PER_WEIGHT * weights, graphs * weights) if weights else None


def longest_that_fits(checkpoint: Checkpoint) -> int:
    """Tokens of the longest input that an export takes: each length that is to be compared up to it fits in the memory.

    An input of n tokens needs n² scores a head, of a language model n logits a token of the vocabulary, and a few
    copies of both. Inputs of up to `USUAL` tokens always fit.
    """
    needed, free = estimate(checkpoint.source, 0), free_memory()
    left = free - needed.memory if needed else free / 2
    heads = np.max(getattr(checkpoint.config, "num_attention_heads", None) or 0)  # some families have a list of them
    fitting = USUAL
    for tokens in checkpoint.compared_lengths:
        if tokens > USUAL and _BYTES_OF_COPIES * tokens * (int(heads) * tokens + checkpoint.vocabulary) > left:
            return fitting
        fitting = tokens
    return checkpoint.longest


def free_memory() -> float:
    """Bytes that this process may still take: of the machine with its swap space, and of its control group.

    The groups (version 2) hold the limits of containers and cluster jobs on Linux.
    """
    free = float(psutil.virtual_memory().available + psutil.swap_memory().free)
    for level in control_groups():
        with suppress(OSError, ValueError):
            limit = (level / "memory.max").read_text().strip()
            used = int((level / "memory.current").read_text())
            # What only caches files can be taken back at any time.
            cached = dict(line.split() for line in (level / "memory.stat").read_text().splitlines())
            free = min(free, int(limit) - used + int(cached.get("inactive_file", 0)))  # `max`: no limit
    return free


def free_disk(folder: Path) -> float:
    """Free bytes on the disk of a folder that may not exist yet."""
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    return float(psutil.disk_usage(str(there)).free)
