"""Tiny checkpoints of families that are known to fail."""

from pathlib import Path

from transformers import (
    LongformerConfig,
    LongformerForMaskedLM,
    NystromformerConfig,
    NystromformerForMaskedLM,
    PerceiverConfig,
    PerceiverForMaskedLM,
)

from .families import SIZES
from .tokenizer_files import tokenizer_json

SHALLOW = SIZES | {"num_hidden_layers": 1, "vocab_size": 200, "max_position_embeddings": 130}
UNSUITABLE = {  # family → its class, a configuration, what is said without the entry that refuses it
    # Traced with 16 tokens, it pads to a multiple of its window, and knows no other length after that.
    "longformer": (
        LongformerForMaskedLM,
        LongformerConfig(attention_window=16, **SHALLOW),
        "longformer cannot be exported: running the graph on input of shape .* failed",
    ),
    "nystromformer": (
        NystromformerForMaskedLM,
        NystromformerConfig(num_landmarks=8, **SHALLOW),
        "nystromformer cannot be exported: running it in PyTorch on .* tokens failed",
    ),
    "perceiver": (
        PerceiverForMaskedLM,
        PerceiverConfig(
            vocab_size=200, max_position_embeddings=130, d_model=64, d_latents=48, num_latents=8, num_blocks=1,
            num_self_attends_per_block=1,
        ),
        "",
    ),
}  # fmt: skip


def save_unsuitable(family: str, folder: Path) -> str:
    make, config, _ = UNSUITABLE[family]
    tokenizer_json(folder / family, family)
    make(config).save_pretrained(folder / family)
    return str(folder / family)
