"""Checkpoints as save_pretrained writes them, with random weights."""

from pathlib import Path
from typing import Any

import torch
from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase


def random_model(loader: Any, config: PretrainedConfig, weights: float = 0.25) -> PreTrainedModel:
    """A model whose weights (with this spread), biases and normalisations are random: nothing is neutral by chance."""
    torch.manual_seed(0)
    model = loader.from_config(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            spread = 0.1 if "norm" in name.lower() or "ln_" in name or name.endswith("bias") else weights
            parameter.add_(torch.randn_like(parameter) * spread)
    return model


def save(folder: Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Path:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
