"""A row for each family that is exported: a tiny model with random weights, and its real kind of tokenizer.

`docs/families.md` has the same rows, which a test compares with what the exports say.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from random_checkpoints import random_model
from transformers import CONFIG_MAPPING, AutoModelForMaskedLM, AutoTokenizer

from . import tokenizer_files as kinds

SIZES = {"hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 128}
SMALLER = SIZES | {"num_hidden_layers": 2}
RELATIVE = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]}
KEYS = {"position_embedding_type": "relative_key_query"}
NARROW = {"embedding_size": 32}
XLM = {"emb_dim": 64, "n_layers": 2, "n_heads": 4}
DEBERTA_V2 = SMALLER | RELATIVE | {"position_buckets": 32, "norm_rel_ebd": "layer_norm", "share_att_key": True}


@dataclass(frozen=True)
class Row:
    """A family, or one form of it."""

    family: str  # `model_type` in transformers
    sizes: dict[str, Any]  # what its configuration says besides the vocabulary and the positions
    tokenizer: Callable[[Path, str], None]  # writes the tokenizer's files, as such checkpoints have them
    attentions: int = 3  # how many attentions one operator computes: of all layers, or of none
    positions: str = "learned"  # how it tells positions apart, as the table says it
    weights: float = 0.25  # the spread of its random weights


BIG_BIRD = SMALLER | {"block_size": 16, "num_random_blocks": 3}
DEBERTA_V3 = DEBERTA_V2 | {"position_biased_input": False, "legacy": False, "tie_word_embeddings": False}
CONVOLUTION = {"conv_kernel_size": 3, "conv_act": "gelu", "position_biased_input": False}
ESM = SMALLER | {"mask_token_id": 4, "token_dropout": True}
MOBILE = SMALLER | {"embedding_size": 32, "intra_bottleneck_size": 32, "num_feedforward_networks": 2}
# The window of 16 tokens is shorter than the longest input: a mask that must not be taken for a neutral one.
MODERN = SIZES | {"local_attention": 16, "global_attn_every_n_layers": 3}
REMBERT = SMALLER | {"input_embedding_size": 32, "output_embedding_size": 48}
ROWS = {
    "albert": Row("albert", SIZES | NARROW, kinds.unigram),
    "bert": Row("bert", SIZES, kinds.wordpiece),
    "bert (relative)": Row("bert", SMALLER | KEYS, kinds.wordpiece, 0, "learned, relative"),
    "big_bird": Row("big_bird", BIG_BIRD, kinds.unigram, 2),
    "camembert": Row("camembert", SIZES, kinds.unigram),
    "convbert": Row("convbert", SMALLER | NARROW | {"conv_kernel_size": 3}, kinds.wordpiece, 0),
    "data2vec-text": Row("data2vec-text", SMALLER, kinds.byte_level, 2),
    "deberta": Row("deberta", SIZES | RELATIVE, kinds.byte_level, positions="learned, relative"),
    "deberta-v2": Row("deberta-v2", DEBERTA_V2 | CONVOLUTION, kinds.unigram, 0, "relative"),
    "deberta-v3": Row("deberta-v2", DEBERTA_V3, kinds.unigram, 0, "relative"),
    "distilbert": Row("distilbert", {"dim": 64, "n_layers": 3, "n_heads": 4, "hidden_dim": 128}, kinds.wordpiece),
    "electra": Row("electra", SIZES | NARROW, kinds.wordpiece),
    "ernie": Row("ernie", SMALLER | {"use_task_id": True}, kinds.tokenizer_json, 2),
    "esm": Row("esm", ESM, kinds.tokenizer_json, 2),
    "flaubert": Row("flaubert", XLM, kinds.tokenizer_json, 0),
    "ibert": Row("ibert", SMALLER, kinds.byte_level, 2),
    "layoutlm": Row("layoutlm", SMALLER, kinds.wordpiece, 2),
    "megatron-bert": Row("megatron-bert", SMALLER, kinds.wordpiece, 2),
    # Its layers are not normalised: with larger weights, values of 7,000 leave the logits two digits, in PyTorch too.
    "mobilebert": Row("mobilebert", MOBILE, kinds.wordpiece, 2, weights=0.1),
    "modernbert": Row("modernbert", MODERN, kinds.tokenizer_json_of_bytes, positions="rotary"),
    "luke": Row("luke", SMALLER | {"entity_vocab_size": 9, "entity_emb_size": 8}, kinds.tokenizer_json_of_bytes, 2),
    "mpnet": Row("mpnet", SIZES, kinds.wordpiece, positions="learned, relative"),
    "nystromformer": Row("nystromformer", SMALLER, kinds.unigram, 0),
    "rembert": Row("rembert", REMBERT, kinds.unigram, 2),
    "roberta": Row("roberta", SIZES, kinds.byte_level),
    "roberta-prelayernorm": Row("roberta-prelayernorm", SMALLER, kinds.tokenizer_json_of_bytes, 2),
    "roformer": Row("roformer", SMALLER | NARROW, kinds.tokenizer_json, 2, "rotary"),
    "squeezebert": Row("squeezebert", SMALLER | {"embedding_size": 64}, kinds.wordpiece, 0),
    "xlm": Row("xlm", XLM, kinds.tokenizer_json, 0),
    "xlm-roberta-xl": Row("xlm-roberta-xl", SMALLER, kinds.tokenizer_json_of_bytes, 2),
    "xlm-roberta": Row("xlm-roberta", SIZES, kinds.unigram),
    "xlm-roberta (BPE)": Row("xlm-roberta", SMALLER, kinds.sentencepiece_bpe, 2),
}

SHALLOW = SIZES | {"num_hidden_layers": 1}
PERCEIVER = {"d_model": 64, "d_latents": 48, "num_latents": 8, "num_blocks": 1, "num_self_attends_per_block": 1}
UNSUITABLE = {  # family → its sizes
    "longformer": SHALLOW | {"attention_window": 16},  # it would know no length but the traced one
    "nystromformer": SHALLOW | {"num_landmarks": 8},
    "perceiver": PERCEIVER,
    "xmod": SHALLOW,
}


def save_tiny(row: Row, folder: Path) -> None:
    folder.mkdir()
    row.tokenizer(folder, row.family)
    CONFIG_MAPPING[row.family]().save_pretrained(folder)  # tells which tokenizer it is
    tokenizer = AutoTokenizer.from_pretrained(folder)
    sizes = {"max_position_embeddings": 130, "pad_token_id": tokenizer.pad_token_id, **row.sizes}
    config = CONFIG_MAPPING[row.family](vocab_size=len(tokenizer), **sizes)
    random_model(AutoModelForMaskedLM, config, row.weights).save_pretrained(folder)


def save_unsuitable(family: str, folder: Path) -> str:
    save_tiny(Row(family, UNSUITABLE[family], kinds.tokenizer_json), folder / family)
    return str(folder / family)
