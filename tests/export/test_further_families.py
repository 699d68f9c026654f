"""Further families, of both kinds: they decide as PyTorch. PyTorch's exporter alone exports all but one of them."""

import numpy as np
import pytest
import torch
from few import few
from negengine.engine.inference.causal import CausalLM
from negengine.engine.inference.exported import load_exported
from negengine.engine.inference.model import MaskedLM
from negengine.export.known_keys import refuse_unread
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, AutoModelForMaskedLM

from .further import CAUSAL, MASKED

OF_OPTIMUM = {"gemma3_text"}
# Attentions that one operator computes, where the types of layers do not tell.
FUSED = {"gpt_oss": 0, "mamba2": 0, **dict.fromkeys(("bamba", "nemotron_h", "zamba2"), 1)}


def test_the_small_models_say_only_what_their_classes_read():
    for family, sizes in (MASKED | CAUSAL).items():
        config = CONFIG_MAPPING[family](**sizes)
        refuse_unread(family, config, config.to_dict())


@pytest.mark.parametrize("family", few([*MASKED, *CAUSAL], "eurobert", "qwen3_next", "mamba2", "nemotron_h"))
def test_a_family_decides_as_pytorch(family, further, exported_further):
    is_causal = family in CAUSAL
    loader = AutoModelForCausalLM if is_causal else AutoModelForMaskedLM
    source, exported = further(family), load_exported(exported_further(family))
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
