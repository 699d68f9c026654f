"""Further families, of both kinds, and those that are refused as a causal model: how a tiny model of each is made."""

from pathlib import Path

from tiny_checkpoints import random_model, save, word_tokenizer
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, AutoModelForMaskedLM

WORDS = "Jessica John is was a an dancer architect who likes to smoke dance she he happy not ."
SIZES = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
SIZES |= {"max_position_embeddings": 130}
SHARED = SIZES | {"num_key_value_heads": 2, "head_dim": 16}
WINDOWS = {"sliding_window": 40, "layer_types": ["sliding_attention", "full_attention"]}
LINEAR = {"layer_types": ["linear_attention", "full_attention"], "linear_num_key_heads": 2, "linear_num_value_heads": 4}
LINEAR |= {"linear_key_head_dim": 16, "linear_value_head_dim": 16}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2}
OF_A_WIDTH = EXPERTS | {"moe_intermediate_size": 64}
WITH_A_SHARED_ONE = OF_A_WIDTH | {"shared_expert_intermediate_size": 32}
STATES = {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_state": 16, "mamba_chunk_size": 8}
MASKED = {"eurobert": SHARED, "nomic_bert": SIZES}
CAUSAL = {
    "bamba": SHARED | STATES | {"attn_layer_indices": [1]},
    "falcon_h1": SHARED | STATES | {"mamba_d_ssm": 128, "mamba_n_groups": 2},
    "gemma3_text": SHARED | WINDOWS | {"query_pre_attn_scalar": 16},
    "gemma4_text": SHARED | WINDOWS | {"global_head_dim": 32, "hidden_size_per_layer_input": 16},
    "gpt_oss": SHARED | WINDOWS | EXPERTS,
    "granitemoe": SHARED | {"num_local_experts": 4, "num_experts_per_tok": 2},
    "granitemoehybrid": SHARED
    | STATES
    | {"layer_types": ["mamba", "attention"], "shared_intermediate_size": 64, "num_local_experts": 4}
    | {"num_experts_per_tok": 2},
    "mamba2": SIZES | {"num_heads": 8, "head_dim": 16, "state_size": 16, "n_groups": 2, "chunk_size": 8},
    "mixtral": SHARED | EXPERTS,
    "nemotron_h": SHARED
    | {"layers_block_type": ["mamba", "attention"], "mamba_num_heads": 8, "mamba_head_dim": 16, "ssm_state_size": 16}
    | {"n_groups": 2, "chunk_size": 8},
    "olmoe": SHARED | EXPERTS,
    "olmo_hybrid": SHARED | LINEAR | {"linear_num_key_heads": 4},
    "qwen2_moe": SHARED | WITH_A_SHARED_ONE,
    "qwen3_5_moe_text": SHARED | LINEAR | WITH_A_SHARED_ONE,
    "qwen3_5_text": SHARED | LINEAR,
    "qwen3_moe": SHARED | OF_A_WIDTH,
    "qwen3_next": SHARED | LINEAR | WITH_A_SHARED_ONE,
    "zamba2": SHARED
    | {"layers_block_type": ["mamba", "hybrid"], "mamba_headdim": 16, "mamba_ngroups": 2, "n_mamba_heads": 8}
    | {"mamba_d_state": 16, "chunk_size": 8, "num_mem_blocks": 1},
}
REFUSED = {
    "llama4_text": (SHARED | {"moe_layers": []}, "it computes with complex numbers"),
    "mamba": (SIZES | {"state_size": 4}, "PyTorch can trace it for texts of one length only"),
    "minimax": (
        SHARED | {"layer_types": LINEAR["layer_types"]},
        "with linear attention, it goes through a text block by block",
    ),
    "xlnet": (
        {"d_model": 64, "n_layer": 2, "n_head": 4, "d_inner": 64},
        "as a causal model, the family xlnet reads a text in both directions",
    ),
}


def save_further(family: str, folder: Path) -> None:
    tokenizer = word_tokenizer(WORDS.split())
    special = {f"{role}_token_id": getattr(tokenizer, f"{role}_token_id") for role in ("bos", "eos", "pad")}
    special = {role: number for role, number in special.items() if number is not None}
    sizes = (MASKED | CAUSAL).get(family) or REFUSED[family][0]
    config = CONFIG_MAPPING[family](vocab_size=len(tokenizer) + 40, **special | sizes)
    save(folder, random_model(AutoModelForMaskedLM if family in MASKED else AutoModelForCausalLM, config), tokenizer)
