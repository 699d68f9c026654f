"""Families that PyTorch's exporter alone exports, of both kinds: they decide as PyTorch."""

import numpy as np
import pytest
import torch
from few import few
from negengine.engine.basics.errors import InputError
from negengine.engine.inference.causal import CausalLM
from negengine.engine.inference.exported import load_exported
from negengine.engine.inference.model import MaskedLM
from negengine.export.build import build
from tiny_checkpoints import random_model, save, word_tokenizer
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, AutoModelForMaskedLM

WORDS = "Jessica John is was a an dancer architect who likes to smoke dance she he happy not ."
SIZES = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
SIZES |= {"max_position_embeddings": 130}
SHARED = SIZES | {"num_key_value_heads": 2, "head_dim": 16}
WINDOWS = {"sliding_window": 40, "layer_types": ["sliding_attention", "full_attention"]}
LINEAR = {"layer_types": ["linear_attention", "full_attention"], "linear_num_key_heads": 2, "linear_num_value_heads": 4}
LINEAR |= {"linear_key_head_dim": 16, "linear_value_head_dim": 16}
EXPERTS = {"num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64}
WITH_A_SHARED_ONE = EXPERTS | {"shared_expert_intermediate_size": 32}
MASKED = {"eurobert": SHARED, "nomic_bert": SIZES}
CAUSAL = {
    "gemma3_text": SHARED | WINDOWS | {"query_pre_attn_scalar": 16},
    "gemma4_text": SHARED | WINDOWS | {"global_head_dim": 32, "hidden_size_per_layer_input": 16},
    "gpt_oss": SHARED | WINDOWS | EXPERTS,
    "mixtral": SHARED | EXPERTS,
    "olmoe": SHARED | EXPERTS,
    "olmo_hybrid": SHARED | LINEAR | {"linear_num_key_heads": 4},
    "qwen2_moe": SHARED | WITH_A_SHARED_ONE,
    "qwen3_5_moe_text": SHARED | LINEAR | WITH_A_SHARED_ONE,
    "qwen3_5_text": SHARED | LINEAR,
    "qwen3_moe": SHARED | EXPERTS,
    "qwen3_next": SHARED | LINEAR | WITH_A_SHARED_ONE,
}
PLAIN = {"gpt_oss"}  # attentions that one operator does not compute


def checkpoint(folder, family, sizes, loader):
    tokenizer = word_tokenizer(WORDS.split())
    special = {f"{role}_token_id": getattr(tokenizer, f"{role}_token_id") for role in ("bos", "eos", "pad")}
    special = {role: number for role, number in special.items() if number is not None}
    config = CONFIG_MAPPING[family](vocab_size=len(tokenizer) + 40, **special | sizes)
    return save(folder / family, random_model(loader, config), tokenizer)


@pytest.mark.parametrize("family", few([*MASKED, *CAUSAL], "eurobert", "qwen3_next"))
def test_a_family_decides_as_pytorch(family, tmp_path):
    is_causal = family in CAUSAL
    loader = AutoModelForCausalLM if is_causal else AutoModelForMaskedLM
    source = checkpoint(tmp_path, family, (MASKED | CAUSAL)[family], loader)
    exported = load_exported(build(str(source), tmp_path / "out"))
    assert exported.info["exporter"] == "PyTorch"
    kinds = (MASKED | CAUSAL)[family].get("layer_types", ())
    attentions = 0 if family in PLAIN else 2 - kinds.count("linear_attention")
    assert exported.info["fused"]["attention"] == attentions
    engine = (CausalLM if is_causal else MaskedLM)(exported)
    model = loader.from_pretrained(source, dtype=torch.float32).eval()
    for length in (2, 9, exported.max_length):
        ids = np.random.default_rng(length).integers(10, 30, (3, length)).astype(np.int32)
        position = np.array([length - 1] * 3 if is_causal else [0, length // 2, length - 1], np.int32)
        with torch.inference_mode():
            logits = model(input_ids=torch.from_numpy(ids.astype(np.int64))).logits.numpy()
        wanted = logits[range(3), position - is_causal]
        np.testing.assert_allclose(engine.logits(ids, position), wanted, atol=5e-5 * np.abs(wanted).max())


def test_state_spaces_are_refused(tmp_path):
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "state_size": 4}
    source = checkpoint(tmp_path, "mamba", sizes, AutoModelForCausalLM)
    said = "^mamba cannot be exported: PyTorch can trace it for texts of one length only$"
    with pytest.raises(InputError, match=said):
        build(str(source), tmp_path / "out")
