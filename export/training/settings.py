"""What the result of a training depends on beside the model and the data, and where it runs."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import isfinite
from typing import Any

import torch

from ...engine.basics.choices import Precision
from ...engine.basics.errors import InputError
from ...engine.basics.limits import cpu_threads
from ...engine.library.training_options import TrainingOptions


@dataclass(frozen=True)
class Settings:
    """The hyperparameters of a training, by the names of its options. The rest is as in transformers' Trainer.

    That is: AdamW with β = (0.9, 0.999) and ε = 1e-8, a rate that rises over the warm-up and then falls linearly to
    zero, gradients clipped at a norm of 1. Biases and normalisations have no weight decay.

    Raises InputError for a rate that is not one.
    """

    epochs: int
    batch_size: int
    learning_rate: float  # the largest rate
    weight_decay: float = 0.0
    warmup: float = 0.0  # the share of the steps over which the rate rises
    max_length: int = 128  # in tokens, of an example
    seed: int = 42
    # Stop if the score on the dev set has not risen for so many epochs, and keep the best epoch; None to train all
    # epochs and keep the last one.
    patience: int | None = None
    precision: str = "fp32"  # `fp32`, `bf16` or `fp16`, of the products of matrices; weights are fp32

    def __post_init__(self) -> None:
        if not (isfinite(self.learning_rate) and 0 < self.learning_rate <= 1):
            raise InputError(f"--lr {self.learning_rate}: give a number above 0 and at most 1, such as 2e-5")


@dataclass(frozen=True)
class Place:
    """Where a training runs: on `cpu` or `cuda` (the first GPU that the process sees), with so many CPU threads."""

    device: str
    threads: int

    @classmethod
    def find(cls, device: str = "auto", threads: int | None = None) -> "Place":
        """`auto` is a GPU if there is one. Raises InputError for another device, or if there is no GPU."""
        if device not in {"auto", "cpu", "cuda", "cuda:0"}:
            told = "a training runs on the first GPU that it sees, and CUDA_VISIBLE_DEVICES says which GPUs it sees"
            raise InputError(f"--device {device}: give auto, cpu or cuda; {told}")
        has_gpu = torch.cuda.is_available()
        if device.startswith("cuda") and not has_gpu:
            told = f"PyTorch {torch.__version__} finds no CUDA device"
            raise InputError(f"--device {device}: {told}: use --device cpu, or install PyTorch for CUDA")
        chosen = "cuda" if has_gpu and device != "cpu" else "cpu"
        return cls(chosen, threads or cpu_threads())


def settings_of(options: TrainingOptions, defaults: Mapping[str, Any], place: Place, longest: int) -> Settings:
    """The hyperparameters that were given, and for the rest the defaults of this kind of training.

    A default never asks for more tokens than the model takes, which is `longest`. Mixed precision is bf16, or fp16 on
    older GPUs. Raises InputError for mixed precision on a CPU.
    """
    if options.precision == Precision.MIXED and place.device == "cpu":
        told = "a training computes in mixed precision on a GPU only; give --precision fp32"
        raise InputError(f"--precision mixed: {told}")
    given = {field.name: getattr(options, field.name, None) for field in fields(Settings)}
    given["precision"] = "fp32"
    if options.precision != Precision.FP32 and place.device == "cuda":
        given["precision"] = "bf16" if torch.cuda.is_bf16_supported() else "fp16"
    known = {**defaults, "max_length": min(defaults["max_length"], longest)}
    return Settings(**known | {name: value for name, value in given.items() if value is not None})
