"""Every family, exported and run by the engine, gives what PyTorch gives on the same sentence; or is refused."""

import shutil

import numpy as np
import pytest
import torch
from negengine.engine.errors import InputError
from negengine.engine.inference.exported import load_exported
from negengine.engine.inference.model import MaskedLM
from negengine.engine.sentences.lexicon import load_lexicon
from negengine.engine.sentences.patterns import load_patterns
from negengine.engine.sentences.tokenizer import MaskTokenizer
from negengine.export.build import build
from transformers import (
    AutoModelForMaskedLM,
    FNetConfig,
    FNetForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    LongformerConfig,
    LongformerForMaskedLM,
    NystromformerConfig,
    NystromformerForMaskedLM,
)

from .conftest import FAMILIES, SIZES


def sentences(tokenizer):
    lexicon = load_lexicon()
    for i, pattern in enumerate(load_patterns().all):
        for j in range(6):
            fillers = {
                "NAME": lexicon.names[31 * j + i],
                "PROF": lexicon.professions[13 * j + i],
                "ACT": lexicon.verbs[201 * j + i],
                "PRON": "she" if lexicon.genders[31 * j + i] == "f" else "he",
            }
            (ids,) = tokenizer.encode([pattern.text(fillers, tokenizer.mask_token)])
            yield ids[:128]
    random = np.random.default_rng(5)
    for length in (3, 40, 128):  # 128 is the longest that all the tiny models take
        ids = random.integers(5, tokenizer.vocab_size - 1, length).astype(np.int32)  # the last one is the mask
        ids[ids == tokenizer.mask_id] = 5
        ids[length // 3] = tokenizer.mask_id
        yield ids


@pytest.mark.parametrize("family", FAMILIES)
def test_engine_equals_pytorch_sentence_by_sentence(family, checkpoint, exported):
    model = load_exported(exported(family))
    engine = MaskedLM(model)
    reference = AutoModelForMaskedLM.from_pretrained(checkpoint(family), dtype=torch.float32).eval()
    tokenizer = MaskTokenizer.load(model.folder, model.mask_token)
    expected = np.array([7], np.int32)
    compared = 0
    for ids in sentences(tokenizer):
        (masks,) = np.nonzero(ids == tokenizer.mask_id)
        if len(masks) == 0:
            continue
        position = masks[:1].astype(np.int32)
        with torch.inference_mode():
            wanted = reference(input_ids=torch.from_numpy(ids.astype(np.int64))[None]).logits[0, position[0]].numpy()
        decision = engine.decide(ids[None], position, expected)
        scale = np.abs(wanted).max()
        np.testing.assert_allclose(engine.logits(ids[None], position)[0], wanted, atol=2e-5 * scale, rtol=0)
        assert decision.top1[0] == wanted.argmax()
        assert decision.expected_rank[0] == 1 + (wanted > wanted[7]).sum()
        own = [np.sort(wanted)[-1], np.sort(wanted)[-2], wanted[7], torch.logsumexp(torch.from_numpy(wanted), 0).item()]
        np.testing.assert_allclose(decision.logits[0], own, atol=2e-5 * scale, rtol=0)
        compared += 1
    assert compared > 20


@pytest.mark.parametrize("family", FAMILIES)
def test_attention_is_fused_in_every_layer_where_an_operator_for_it_exists(family, exported):
    assert load_exported(exported(family)).info["fused"]["attention"] == FAMILIES[family][-1]


@pytest.mark.parametrize("family", FAMILIES)
def test_hoisting_saves_most_of_the_last_layer_and_of_the_vocabulary_projection(family, exported):
    flops = load_exported(exported(family)).info["flops"]
    assert flops["hoisted"] < 0.8 * flops["optimum"]


def test_a_decoder_is_refused_as_a_masked_language_model(tmp_path):
    GPT2LMHeadModel(GPT2Config(n_embd=8, n_layer=1, n_head=1, vocab_size=11)).save_pretrained(tmp_path / "gpt")
    with pytest.raises(InputError, match="gpt2 model, which has no masked-LM head"):
        build(str(tmp_path / "gpt"), tmp_path / "out", task="fill-mask")
    assert not (tmp_path / "out").exists()


def test_a_family_that_optimum_does_not_know_is_refused_by_name(tmp_path, checkpoint):
    shutil.copytree(checkpoint("bert"), tmp_path / "fnet")
    FNetForMaskedLM(FNetConfig(vocab_size=200, hidden_size=16, num_hidden_layers=1)).save_pretrained(tmp_path / "fnet")
    with pytest.raises(InputError, match=r"fnet: Optimum has no fill-mask export for the family fnet"):
        build(str(tmp_path / "fnet"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


UNSUITABLE = {
    # Traced with 16 tokens, it pads to a multiple of its window, and knows no other length after that.
    "longformer": (
        LongformerForMaskedLM,
        LongformerConfig(vocab_size=200, max_position_embeddings=130, attention_window=16, **SIZES),
        "longformer cannot be exported: running the graph on input of shape .* failed",
    ),
    "nystromformer": (
        NystromformerForMaskedLM,
        NystromformerConfig(vocab_size=200, max_position_embeddings=130, num_landmarks=8, **SIZES),
        "nystromformer cannot be exported: running it in PyTorch on .* tokens failed",
    ),
}


@pytest.mark.parametrize("family", UNSUITABLE)
def test_what_a_library_cannot_run_is_told_in_one_line(family, tmp_path, checkpoint):
    make, config, said = UNSUITABLE[family]
    shutil.copytree(checkpoint("bert"), tmp_path / family)
    make(config).save_pretrained(tmp_path / family)
    with pytest.raises(InputError, match=said) as caught:
        build(str(tmp_path / family), tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()
