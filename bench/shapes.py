"""Models to measure: exported ones, or random weights in the shapes of well-known checkpoints, without a download."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs
import torch
import transformers as hf

from ..engine.basics.errors import InputError
from ..engine.inference.exported import ExportedModel, load_exported
from ..export.build import build
from ..export.source import BUNDLED, locate
from .system import once

MINI = "mini"  # the bundled model, as `negengine export` calls it
_BASE = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}
_LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
_ROBERTA = {"vocab_size": 50265, "max_position_embeddings": 514, "type_vocab_size": 1}
SHAPES: dict[str, tuple[Any, dict[str, int]]] = {  # configuration class, its sizes
    "bert-base-shape": (hf.BertConfig, _BASE | {"vocab_size": 28996}),
    "bert-large-shape": (hf.BertConfig, _LARGE | {"vocab_size": 28996}),
    "roberta-base-shape": (hf.RobertaConfig, _BASE | _ROBERTA),
    "roberta-large-shape": (hf.RobertaConfig, _LARGE | _ROBERTA),
    "gpt2-shape": (hf.GPT2Config, {"vocab_size": 50257}),
    "pythia-160m-shape": (hf.GPTNeoXConfig, _BASE | {"vocab_size": 50304, "max_position_embeddings": 2048}),
    # Three heads share one head of keys and values.
    "smollm-135m-shape": (
        hf.LlamaConfig,
        {"hidden_size": 576, "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3}
        | {"intermediate_size": 1536, "vocab_size": 49152, "max_position_embeddings": 2048},
    ),
    # 2.24 GB: more than protobuf can serialise.
    "xlm-roberta-large-shape": (hf.XLMRobertaConfig, _LARGE | _ROBERTA | {"vocab_size": 250002}),
}
_CAUSAL = (hf.GPT2Config, hf.GPTNeoXConfig, hf.LlamaConfig)


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


def prepare(name: str, folder: Path) -> Measured:
    """Make a model to measure, or find it in the cache. Raises InputError as `export.build` does."""
    is_random = name in SHAPES
    reference = str(random_checkpoint(name, folder)) if is_random else name
    source = locate(reference)
    exported = build(reference, folder / "exported" / source.name)
    return Measured(name, source.location, load_exported(exported), is_random)


def random_checkpoint(name: str, folder: Path) -> Path:
    """A checkpoint with random weights, new or from the cache. Raises InputError if it cannot be written."""

    def save(to: Path) -> None:
        tokenizer = hf.AutoTokenizer.from_pretrained(BUNDLED)  # stands in: its ids are below any vocabulary size here
        make, sizes = SHAPES[name]
        torch.manual_seed(0)
        if len(tokenizer) > sizes["vocab_size"]:
            raise InputError(f"{name}: its vocabulary is smaller than the bundled tokenizer's")
        head = hf.AutoModelForCausalLM if make in _CAUSAL else hf.AutoModelForMaskedLM
        head.from_config(make(**sizes, pad_token_id=tokenizer.pad_token_id)).save_pretrained(to)
        tokenizer.save_pretrained(to)

    return once(folder / "checkpoints" / name, save)
