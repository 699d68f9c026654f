"""Models to measure: exported ones, or random weights in the shapes of well-known checkpoints, without a download.

How long a model takes does not depend on its weights, but the share of close calls does: mixed precision on random
weights says nothing, and its figures come from the bundled model or a real one.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    GPT2Config,
    GPTNeoXConfig,
    LlamaConfig,
    RobertaConfig,
    XLMRobertaConfig,
)

from ..engine.basics.choices import Task
from ..engine.basics.errors import InputError
from ..engine.inference.exported import ExportedModel, load_exported
from ..export.build import build
from ..export.checkpoint import BUNDLED, locate
from ..export.quiet import quiet

MINI = "mini"  # the bundled model, as `negengine export` calls it
LABELS = ("entailment", "neutral", "contradiction")  # of classifiers with random weights
_BASE = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}
_LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
Shape = tuple[Any, dict[str, int]]  # configuration class, its sizes
SHAPES: dict[str, Shape] = {
    "bert-base-shape": (BertConfig, _BASE | {"vocab_size": 28996}),
    "bert-large-shape": (BertConfig, _LARGE | {"vocab_size": 28996}),
    "roberta-base-shape": (
        RobertaConfig,
        _BASE | {"vocab_size": 50265, "max_position_embeddings": 514, "type_vocab_size": 1},
    ),
    "roberta-large-shape": (
        RobertaConfig,
        _LARGE | {"vocab_size": 50265, "max_position_embeddings": 514, "type_vocab_size": 1},
    ),
    "gpt2-shape": (GPT2Config, {"vocab_size": 50257}),
    "pythia-160m-shape": (GPTNeoXConfig, _BASE | {"vocab_size": 50304, "max_position_embeddings": 2048}),
    # Three heads share one head of keys and values.
    "smollm-135m-shape": (
        LlamaConfig,
        {"hidden_size": 576, "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3}
        | {"intermediate_size": 1536, "vocab_size": 49152, "max_position_embeddings": 2048},
    ),
    # 2.24 GB: more than protobuf can serialise.
    "xlm-roberta-large-shape": (
        XLMRobertaConfig,
        _LARGE | {"vocab_size": 250002, "max_position_embeddings": 514, "type_vocab_size": 1},
    ),
}
_CAUSAL = (GPT2Config, GPTNeoXConfig, LlamaConfig)


@dataclass(frozen=True)
class Measured:
    """A model to measure."""

    name: str  # what it is called
    checkpoint: str  # the folder or hub id that transformers loads
    exported: ExportedModel  # the same, exported
    is_random: bool  # whether its weights are


def cache_folder() -> Path:
    """Where checkpoints with random weights and exports made for measuring are kept."""
    return platformdirs.user_cache_path("negengine", appauthor=False) / "bench"


def prepare(name: str, folder: Path, shapes: Mapping[str, Shape] = SHAPES) -> Measured:
    """Make a model to measure, or find it in the cache. Raises InputError as `export.build` does."""
    if name not in shapes:
        source = locate(name)
        exported = build(name, folder / "exported" / source.name)
        return Measured(name, source.location, load_exported(exported), is_random=False)
    checkpoint = random_checkpoint(name, folder, shapes)
    return Measured(name, str(checkpoint), load_exported(build(str(checkpoint), folder / "exported" / name)), True)


def prepare_classifier(name: str, folder: Path, shapes: Mapping[str, Shape] = SHAPES) -> Measured:
    """The same for a classifier of pairs of texts with three labels; shapes and the bundled model get a random head."""
    is_random = name in shapes or name == MINI
    checkpoint = str(_random_classifier(name, folder, shapes)) if is_random else name
    source = locate(checkpoint)
    exported = build(checkpoint, folder / "exported" / source.name, task=Task.TEXT_CLASSIFICATION)
    return Measured(name, source.location, load_exported(exported, task=Task.TEXT_CLASSIFICATION), is_random)


def _random_classifier(name: str, folder: Path, shapes: Mapping[str, Shape]) -> Path:
    checkpoint = folder / "checkpoints" / f"{name}-classifier"
    if (checkpoint / "complete").is_file():
        return checkpoint
    base = BUNDLED if name == MINI else random_checkpoint(name, folder, shapes)
    torch.manual_seed(0)
    names = {"id2label": dict(enumerate(LABELS)), "label2id": {label: number for number, label in enumerate(LABELS)}}
    with quiet():
        model = AutoModelForSequenceClassification.from_pretrained(base, **names)
    try:
        model.save_pretrained(checkpoint)
        AutoTokenizer.from_pretrained(base).save_pretrained(checkpoint)
        (checkpoint / "complete").touch()
    except OSError as error:
        raise InputError(f"{checkpoint} cannot be written: {error.strerror or error}") from error
    return checkpoint


def random_checkpoint(name: str, folder: Path, shapes: Mapping[str, Shape] = SHAPES) -> Path:
    """A checkpoint with random weights, new or from the cache. Raises InputError if it cannot be written."""
    checkpoint = folder / "checkpoints" / name
    if not (checkpoint / "complete").is_file():
        _write_random(name, shapes[name], checkpoint)
    return checkpoint


def _write_random(name: str, shape: Shape, folder: Path) -> None:
    """Save a checkpoint with random weights; the bundled model's tokenizer stands in, its ids are below any V here."""
    shutil.rmtree(folder, ignore_errors=True)
    tokenizer = AutoTokenizer.from_pretrained(BUNDLED)
    make, sizes = shape
    if len(tokenizer) > sizes["vocab_size"]:
        raise InputError(f"{name}: its vocabulary is smaller than the bundled tokenizer's")
    torch.manual_seed(0)
    config = make(**sizes, pad_token_id=tokenizer.pad_token_id)
    try:
        head = AutoModelForCausalLM if make in _CAUSAL else AutoModelForMaskedLM
        head.from_config(config).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        (folder / "complete").touch()
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {error.strerror or error}") from error
