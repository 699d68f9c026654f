"""How much memory and disk a training needs, estimated from the model's size and checked before its weights are read.

Memory for each weight: itself, its gradient, and the two moments of AdamW, all in fp32: 16 bytes. Memory for each
batch: what the layers keep for the gradients. Of b texts of s tokens, a layer of width h with a heads keeps about
s b h (34 + 5 a s / h) values of 2 bytes (Korthikanti et al. 2022, Reducing Activation Recomputation in Large
Transformer Models, section 4.1); in fp32 the values have 4 bytes.
"""

from pathlib import Path

import torch
from transformers import PretrainedConfig

from ...engine.errors import InputError
from ...engine.runs.progress import Reporter
from ..needs import Needs, free_disk, free_memory
from .settings import Place, Settings

_BYTES_PER_WEIGHT = 16  # weight, gradient, two moments
_BYTES_ON_DISK = 12  # of a checkpoint: weight, two moments
_CHECKPOINTS = 3  # on the disk at once, for an instant
_LIBRARIES = 0.9e9  # Python with PyTorch
_BYTES_OF_WEIGHT = 4


def estimate(weights: float, config: PretrainedConfig, settings: Settings) -> Needs:
    """What a training needs.

    Args:
        weights: Bytes of the model's weights in fp32.
        config: The model's configuration.
        settings: The hyperparameters.
    """
    parameters = weights / _BYTES_OF_WEIGHT
    memory = _BYTES_PER_WEIGHT * parameters + activations(config, settings)
    return Needs(memory, (_CHECKPOINTS * _BYTES_ON_DISK + _BYTES_OF_WEIGHT) * parameters)


def activations(config: PretrainedConfig, settings: Settings) -> float:
    """Bytes that the layers keep of a batch whose texts are as long as they may be."""
    layers, width = int(config.num_hidden_layers), int(config.hidden_size)
    heads = int(getattr(config, "num_attention_heads", 0))  # FNet has none
    tokens = settings.max_length
    in_half = tokens * settings.batch_size * width * (34 + 5 * heads * tokens / width)
    return layers * in_half * (2 if settings.precision == "fp32" else 1)


def check(name: str, needs: Needs, place: Place, folder: Path, settings: Settings, reporter: Reporter) -> None:
    """Say what a training needs, and refuse one that cannot fit.

    Args:
        name: What to call the model.
        needs: From `estimate`.
        place: Where it will run.
        folder: Where it is written.
        settings: The hyperparameters.
        reporter: Gets the line.

    Raises:
        InputError: Too little memory or disk is free.
    """
    if place.device == "cuda":
        wanted, free, of = needs.memory, float(torch.cuda.mem_get_info()[0]), "of the GPU's memory"
    else:
        wanted, free, of = needs.memory + _LIBRARIES, free_memory(), "of memory"
    disk = free_disk(folder)
    reporter.say(f"{name}: training it needs about {wanted / 1e9:.1f} GB {of} and {needs.disk / 1e9:.1f} GB of disk")
    if wanted > free:
        raise InputError(
            f"{name}: training it with batches of {settings.batch_size} needs about {wanted / 1e9:.1f} GB {of}, but "
            f"only {free / 1e9:.1f} GB are free: take a smaller --batch-size or --max-length, or a smaller model"
        )
    if needs.disk > disk:
        raise InputError(
            f"{name}: training it needs {needs.disk / 1e9:.1f} GB of disk, but only {disk / 1e9:.1f} GB are free in "
            f"{folder}: make room or give another --output"
        )
