"""Every causal family, exported and run by the engine, gives what PyTorch gives on the same sentence; or is refused."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from causal_checkpoints import FAMILIES, write_causal
from few import few
from negengine.engine.basics.errors import InputError
from negengine.engine.inference.causal import CausalLM
from negengine.engine.inference.exported import load_exported
from negengine.engine.text.lexicon import load_lexicon
from negengine.engine.text.pattern_files import load_patterns
from negengine.export import checkpoint as reading
from negengine.export import families, needs
from negengine.export.build import _Traced, _without_wrong_sharing, build
from negengine.export.families import longest_input
from negengine.export.graph import Graph
from negengine.export.samples import Sample
from transformers import AutoModelForCausalLM, AutoTokenizer


@pytest.fixture(scope="module", params=few(FAMILIES, "gpt2"))
def both(request, causal, causal_checkpoint):
    """The export of a family, and PyTorch's model and tokenizer."""
    folder = causal_checkpoint(request.param)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    return causal(request.param), model, AutoTokenizer.from_pretrained(folder)


def sentences(exported):
    lexicon = load_lexicon()
    for i, pattern in enumerate(load_patterns().all):
        for j in range(3):
            fillers = {
                "NAME": lexicon.names[31 * j + i],
                "PROF": lexicon.professions[13 * j + i],
                "ACT": lexicon.verbs[201 * j + i],
                "PRON": "she",
            }
            yield pattern.text(fillers, exported.tokenizer.mask_token)


def logits_of(model, ids):
    with torch.inference_mode():
        return model(input_ids=torch.from_numpy(ids.astype(np.int64))[None]).logits[0]


def test_decisions_equal_pytorch_sentence_by_sentence(both):
    exported, reference, tokenizer = both
    engine, expected = CausalLM(exported), np.array([7], np.int32)
    texts = list(sentences(exported))
    for text, ids in zip(texts, exported.tokenizer.encode(texts), strict=True):
        before = text.partition(" [MASK]")[0]
        assert ids[:-1].tolist() == tokenizer(before)["input_ids"]
        wanted = logits_of(reference, ids[:-1])[-1]
        position = np.array([len(ids) - 1], np.int32)
        decision = engine.decide(ids[None], position, expected)
        scale = float(wanted.abs().max())
        np.testing.assert_allclose(engine.logits(ids[None], position)[0], wanted, atol=2e-5 * scale, rtol=0)
        assert decision.top1[0] == wanted.argmax()
        ties = int(((wanted - wanted[7]).abs() < 2e-5 * scale).sum()) - 1
        assert abs(decision.expected_rank[0] - 1 - int((wanted > wanted[7]).sum())) <= ties
        assert abs(decision.expected_logprob[0] - wanted.log_softmax(-1)[7]) < 2e-5 * scale
    assert len(texts) > 10


def test_log_probabilities_of_all_tokens_equal_pytorch(both):
    exported, reference, _ = both
    random = np.random.default_rng(3)
    for length in (2, 9, exported.max_length):
        ids = random.integers(5, exported.vocab_size, (3, length)).astype(np.int32)
        found = CausalLM(exported, batch_tokens=50).token_logprobs(ids)
        for own, row in zip(found, ids, strict=True):
            wanted = logits_of(reference, row)[:-1].log_softmax(-1)
            wanted = wanted.gather(1, torch.from_numpy(row[1:, None].astype(np.int64)))[:, 0]
            np.testing.assert_allclose(own, wanted, atol=1e-4)


def test_any_row_can_be_asked_for(both):
    exported, reference, _ = both
    random = np.random.default_rng(4)
    ids = random.integers(5, exported.vocab_size, (4, 30)).astype(np.int32)
    position = np.array([1, 9, 29, 17], np.int32)
    found = CausalLM(exported).logits(ids, position)
    for own, row, mask in zip(found, ids, position, strict=True):
        wanted = logits_of(reference, row[:mask])[-1]
        np.testing.assert_allclose(own, wanted, atol=2e-5 * float(wanted.abs().max()))


@pytest.mark.parametrize("family", few(FAMILIES, "gpt2", "llama"))
def test_attention_is_fused_where_an_operator_for_it_exists(family, causal):
    assert causal(family).info["fused"]["attention"] == FAMILIES[family].fused


@pytest.mark.parametrize("family", few(FAMILIES, "gpt2", "llama"))
def test_one_row_alone_reaches_the_vocabulary(family, causal):
    info = causal(family).info
    of_a_row = 2 * info["vocab_size"] * info["hidden_size"]
    assert info["flops"]["optimum"] - info["flops"]["hoisted"] > (info["flops"]["length"] - 1) * of_a_row


@pytest.mark.parametrize("right", [True, False])
def test_graphs_that_share_beginnings_wrongly_are_left_out(right, causal, tmp_path):
    exported = causal("llama")
    folder = Path(shutil.copytree(exported.folder, tmp_path / "llama"))
    ids = np.random.default_rng(0).integers(5, exported.vocab_size, (4, 9)).astype(np.int32)
    logits = CausalLM(exported).logits(ids, np.full(4, 8, np.int32))  # of the row before
    samples = [Sample(row, 7) for row in ids]
    said = []
    files = _without_wrong_sharing(
        sorted(folder.iterdir()),
        ["model.prefix.onnx", "model.cpu.prefix.onnx"],
        _Traced(Graph.open(folder / "model.onnx"), samples, logits if right else logits + 1, {}, 0),
        said.append,
    )
    assert sorted(folder.iterdir()) == files
    assert sum("prefix" in path.name for path in files) == (3 if right else 0)
    assert len(said) == (0 if right else 1)


def test_a_family_whose_attention_is_not_recognised_is_exported_without_them(causal):
    exported = causal("bloom")
    assert exported.sharing_prefixes(exported.graph) is None
    assert exported.info["shares_prefixes"] is False


def test_what_the_manifest_says_of_a_causal_model(causal):
    exported = causal("opt")
    assert (exported.task, exported.is_causal, exported.mask_token) == ("text-generation", True, "[MASK]")
    assert exported.padding_id is None  # nothing is padded, so nothing is ignored
    assert exported.info["before_text"] == ["</s>"]


def test_layers_that_see_a_window_of_tokens_take_no_longer_texts(causal):
    assert (causal("mistral").max_length, causal("llama").max_length) == (40, 130)


def test_a_table_of_rotations_for_long_texts_is_not_traced_so_they_are_refused(causal):
    assert causal("phi3").max_length == 70


def test_the_longest_input_is_compared_with_pytorch(monkeypatch, tmp_path):
    """As if the rule for LongRoPE were missing: its second table begins beyond all other samples."""
    checkpoint = write_causal(
        tmp_path / "phi", "phi3", max_position_embeddings=1100, original_max_position_embeddings=600
    )
    monkeypatch.setattr(families, "longest_of", lambda config, is_causal: longest_input(config))
    monkeypatch.setattr(reading, "longest_of", families.longest_of)
    with pytest.raises(InputError, match=r"disagree.* on an input of 1100 tokens"):
        build(str(checkpoint), tmp_path / "out")


def test_an_input_that_memory_does_not_suffice_to_compare_is_refused(monkeypatch, tmp_path):
    checkpoint = write_causal(tmp_path / "llama", "llama", max_position_embeddings=3000)
    monkeypatch.setattr(needs, "free_memory", lambda: 1e9)
    said = []
    exported = load_exported(build(str(checkpoint), tmp_path / "out", say=said.append))
    assert exported.max_length == 750
    assert "memory suffices to compare inputs of 750 tokens: longer ones will be refused" in said


def test_a_bos_token_is_added_on_request(causal, causal_checkpoint, tmp_path):
    exported = load_exported(build(str(causal_checkpoint("gpt2")), tmp_path / "bos", bos=True))
    assert [ids.tolist()[0] for ids in exported.tokenizer.encode(["a dancer", "[MASK]"])] == [0, 0]
    assert exported.sha256 != causal("gpt2").sha256
    assert build(str(causal_checkpoint("gpt2")), tmp_path / "bos", bos=True) == tmp_path / "bos"  # it is up to date
    assert exported.begins_with_added_bos
    assert not causal("gpt2").begins_with_added_bos


def test_a_bos_token_is_for_causal_models(tmp_path):
    with pytest.raises(InputError, match="--bos is for causal models; mini is exported for fill-mask"):
        build("mini", tmp_path / "out", bos=True)


def test_an_encoder_is_not_a_causal_model(tmp_path):
    with pytest.raises(InputError, match="mini is configured as an encoder"):
        build("mini", tmp_path / "out", task="text-generation")
    assert not (tmp_path / "out").exists()


def test_a_family_that_optimum_does_not_export_is_refused_by_name(tmp_path, causal_checkpoint):
    shutil.copytree(causal_checkpoint("gpt2"), tmp_path / "ctrl")
    config = {"model_type": "ctrl", "architectures": ["CTRLLMHeadModel"], "vocab_size": 420}
    (tmp_path / "ctrl" / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match=r"ctrl"):
        build(str(tmp_path / "ctrl"), tmp_path / "out")
    assert not (tmp_path / "out").exists()
