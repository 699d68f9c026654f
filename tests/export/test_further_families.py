"""Further families, of both kinds: they decide as PyTorch. PyTorch's exporter alone exports all but one of them."""

import numpy as np
import pytest
import torch
from few import few
from negengine.engine.basics.errors import InputError
from negengine.engine.inference.causal import CausalLM
from negengine.engine.inference.exported import load_exported
from negengine.engine.inference.model import MaskedLM
from negengine.export.build import build
from negengine.export.check import check
from negengine.export.known_keys import refuse_unread
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
OF_OPTIMUM = {"gemma3_text"}
# Attentions that one operator computes, where the types of layers do not tell.
FUSED = {"gpt_oss": 0, "mamba2": 0, **dict.fromkeys(("bamba", "nemotron_h", "zamba2"), 1)}


def checkpoint(folder, family, sizes, loader):
    tokenizer = word_tokenizer(WORDS.split())
    special = {f"{role}_token_id": getattr(tokenizer, f"{role}_token_id") for role in ("bos", "eos", "pad")}
    special = {role: number for role, number in special.items() if number is not None}
    config = CONFIG_MAPPING[family](vocab_size=len(tokenizer) + 40, **special | sizes)
    return save(folder / family, random_model(loader, config), tokenizer)


def test_the_small_models_say_only_what_their_classes_read():
    for family, sizes in (MASKED | CAUSAL).items():
        config = CONFIG_MAPPING[family](**sizes)
        refuse_unread(family, config, config.to_dict())


@pytest.mark.parametrize("family", few([*MASKED, *CAUSAL], "eurobert", "qwen3_next", "mamba2", "nemotron_h"))
def test_a_family_decides_as_pytorch(family, tmp_path):
    is_causal = family in CAUSAL
    loader = AutoModelForCausalLM if is_causal else AutoModelForMaskedLM
    source = checkpoint(tmp_path, family, (MASKED | CAUSAL)[family], loader)
    assert check(str(source)).possible
    exported = load_exported(build(str(source), tmp_path / "out"))
    assert exported.info["exporter"] == ("Optimum" if family in OF_OPTIMUM else "PyTorch")
    kinds = (MASKED | CAUSAL)[family].get("layer_types", ())
    attentions = FUSED.get(family, 2 - kinds.count("linear_attention") - kinds.count("mamba"))
    assert exported.info["fused"]["attention"] == attentions
    if "mamba_chunk_size" in (MASKED | CAUSAL)[family]:  # PyTorch begins another chunk there
        assert {8, 9, 512} <= {*exported.info["compared_lengths"]}
    engine = (CausalLM if is_causal else MaskedLM)(exported)
    model = loader.from_pretrained(source, dtype=torch.float32).eval()
    for length in (2, 9, exported.max_length):
        ids = np.random.default_rng(length).integers(10, 30, (3, length)).astype(np.int32)
        position = np.array([length - 1] * 3 if is_causal else [0, length // 2, length - 1], np.int32)
        with torch.inference_mode():
            logits = model(input_ids=torch.from_numpy(ids.astype(np.int64))).logits.numpy()
        wanted = logits[range(3), position - is_causal]
        np.testing.assert_allclose(engine.logits(ids, position), wanted, atol=5e-5 * np.abs(wanted).max())


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


@pytest.mark.parametrize("family", few(REFUSED, "llama4_text", "xlnet"))
def test_a_family_is_refused_with_the_reason(family, tmp_path):
    sizes, said = REFUSED[family]
    source = checkpoint(tmp_path, family, sizes, AutoModelForCausalLM)
    with pytest.raises(InputError, match=said) as caught:
        build(str(source), tmp_path / "out")
    (against,) = [finding for finding in check(str(source)).findings if not finding.possible]
    assert str(caught.value).endswith(against.said)
