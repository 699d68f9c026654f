"""PyTorch with its head at the mask alone gives the logits that the whole model gives there."""

import numpy as np
import pytest
import torch
from negengine.bench.systems.torch_models import MaskRow, head_at
from transformers import (
    AlbertConfig,
    AutoModelForMaskedLM,
    BertConfig,
    DebertaV2Config,
    DistilBertConfig,
    ElectraConfig,
    MPNetConfig,
    RobertaConfig,
)

SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32, "vocab_size": 50}
CONFIGS = [
    AlbertConfig(**SIZES, embedding_size=8),
    BertConfig(**SIZES),
    DebertaV2Config(**SIZES),
    DistilBertConfig(dim=16, n_layers=2, n_heads=2, hidden_dim=32, vocab_size=50),
    ElectraConfig(**SIZES, embedding_size=8),
    MPNetConfig(**SIZES),
    RobertaConfig(**SIZES),
]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.model_type)
def test_the_head_at_the_mask_gives_the_same_logits(config):
    torch.manual_seed(0)
    model = AutoModelForMaskedLM.from_config(config).eval()
    ids = torch.randint(3, 50, (4, 6))
    position = np.array([0, 5, 2, 2], np.int32)
    with torch.inference_mode():
        whole = model(ids).logits
        with head_at(model, position):
            cut = model(ids).logits
        again = model(ids).logits
    assert cut.shape == (4, 1, 50)
    torch.testing.assert_close(cut[:, 0], whole[torch.arange(4), position.astype(np.int64)], atol=1e-5, rtol=1e-4)
    assert again.shape == whole.shape


@pytest.mark.parametrize("config", CONFIGS[1:2], ids=lambda config: config.model_type)
def test_the_module_for_tracing_gives_the_same_logits(config):
    torch.manual_seed(0)
    model = AutoModelForMaskedLM.from_config(config).eval()
    ids, position = torch.randint(3, 50, (4, 6)), torch.tensor([0, 5, 2, 2])
    with torch.inference_mode():
        whole = model(ids).logits
        cut = MaskRow(model)(ids, position)
    torch.testing.assert_close(cut, whole[torch.arange(4), position], atol=1e-5, rtol=1e-4)
