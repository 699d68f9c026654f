"""What the result of a training depends on, beside the model and the data; and where it runs."""

from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any

import torch

from ...engine.choices import Precision
from ...engine.errors import InputError, check_number
from ...engine.inference.device import cpu_threads

_MOST = {"epochs": 10_000, "batch_size": 65_536, "patience": 10_000, "save_steps": 10**9, "limit": 10**9}
_LARGEST_SEED = 2**32 - 1  # NumPy takes no larger one


@dataclass(frozen=True)
class Settings:
    """The hyperparameters of a training. The rest is as in transformers' Trainer.

    That is: AdamW with β = (0.9, 0.999) and ε = 1e-8, a rate that rises over the warm-up and then falls linearly to
    zero, gradients clipped at a norm of 1.

    Attributes:
        epochs: How often each example is seen.
        batch_size: Examples of a step.
        learning_rate: The largest rate of AdamW.
        weight_decay: Of all weights but biases and normalisations.
        warmup: The share of the steps over which the rate rises.
        max_length: The largest number of tokens of an example.
        seed: Of the new layer's weights, of dropout, and of the order of the examples.
        patience: Stop if the score on the dev set has not risen for so many epochs, and keep the best epoch; None to
            train all epochs and keep the last one.
        precision: `fp32`, `bf16` or `fp16`: what the products of matrices are computed in. Weights are fp32.
    """

    epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float = 0.0
    warmup: float = 0.0
    max_length: int = 128
    seed: int = 42
    patience: int | None = None
    precision: str = "fp32"

    def __post_init__(self) -> None:
        """Refuse what no training has.

        Raises:
            InputError: A number is too small, too large, or not a number.
        """
        check_number("--epochs", self.epochs, 1, _MOST["epochs"])
        check_number("--batch-size", self.batch_size, 1, _MOST["batch_size"])
        check_number("--patience", self.patience, 1, _MOST["patience"])
        check_number("--seed", self.seed, 0, _LARGEST_SEED)
        if not (isfinite(self.learning_rate) and 0 < self.learning_rate <= 1):
            raise InputError(f"--lr {self.learning_rate}: give a number above 0 and at most 1, such as 2e-5")

    def document(self) -> dict[str, Any]:
        """As JSON values, for the identity of a training."""
        return asdict(self)


@dataclass(frozen=True)
class Place:
    """Where a training runs.

    Attributes:
        device: `cpu` or `cuda`, the first GPU that the process sees.
        threads: CPU threads.
    """

    device: str
    threads: int

    @classmethod
    def find(cls, device: str = "auto", threads: int | None = None) -> "Place":
        """Choose where to train.

        Args:
            device: `auto` (a GPU if there is one), `cpu` or `cuda`.
            threads: CPU threads; one for each core by default.

        Raises:
            InputError: Another word, or no GPU.
        """
        if device not in {"auto", "cpu", "cuda", "cuda:0"}:
            raise InputError(
                f"--device {device}: give auto, cpu or cuda; a training runs on the first GPU that it sees, and the "
                "variable CUDA_VISIBLE_DEVICES says which GPUs a process sees"
            )
        has_gpu = torch.cuda.is_available()
        if device.startswith("cuda") and not has_gpu:
            raise InputError(
                f"--device {device}: PyTorch {torch.__version__} finds no CUDA device: use --device cpu, or install "
                "PyTorch for CUDA"
            )
        chosen = "cuda" if has_gpu and device != "cpu" else "cpu"
        return cls(chosen, threads or cpu_threads())

    def precision(self, wanted: Precision) -> str:
        """The precision in which this device computes products.

        Args:
            wanted: `fp32`; `mixed`, for GPUs; `auto`, which is mixed on a GPU and fp32 elsewhere.

        Returns:
            `fp32`, or on a GPU `bf16` where it has that, else `fp16`.

        Raises:
            InputError: Mixed precision without a GPU.
        """
        if wanted == Precision.MIXED and self.device == "cpu":
            raise InputError(
                "--precision mixed: a training computes in mixed precision on a GPU only; give --precision fp32"
            )
        if wanted == Precision.FP32 or self.device == "cpu":
            return "fp32"
        return "bf16" if torch.cuda.is_bf16_supported() else "fp16"
