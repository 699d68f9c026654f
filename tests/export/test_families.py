"""Every family of every task, exported and run by the engine, gives what PyTorch gives; the page lists them."""

import json
import shutil
import tomllib
from dataclasses import replace
from pathlib import Path

import causal_checkpoints
import numpy as np
import onnx
import onnxruntime as ort
import pytest
import tiny_checkpoints
import torch
import transformers as hf
from few import few
from negengine.engine.inference.causal import CausalLM
from negengine.engine.inference.classifier import PairClassifier, TokenClassifier, encode_pairs, labels
from negengine.engine.inference.exported import CONVOLVED, load_exported
from negengine.engine.inference.model import MaskedLM
from negengine.engine.text.pattern_files import load_patterns
from negengine.engine.text.tokenizer import MaskTokenizer
from negengine.export import trace
from negengine.export.build import build
from negengine.export.check import check
from negengine.export.families import FAMILIES
from negengine.export.graph import Graph
from negengine.export.known_keys import refuse_unread
from negengine.export.observe import open_session
from optimum.exporters.tasks import TasksManager
from plain_calls import logits_at, token_logprobs
from safetensors.torch import load_file
from scipy.special import logsumexp
from tiny_checkpoints import LABELS, PAIRS, SEGMENTED

from .conftest import operators
from .families import ROWS
from .further import CAUSAL, MASKED

pytestmark = pytest.mark.long

PAGE = tomllib.loads((Path(__file__).parents[2] / "docs" / "families.toml").read_text("utf-8"))
KINDS = {"fill-mask": "masked", "text-generation": "causal"}  # of rows of the page; others are of classifiers
FILLERS = (
    {"NAME": "Anna", "PROF": "a dancer", "ACT": "smoke", "PRON": "she"},
    {"NAME": "Giovanni", "PROF": "an architect", "ACT": "argue", "PRON": "he"},
)


def texts(mask):
    return [pattern.text(fillers, mask) for pattern in load_patterns().all for fillers in FILLERS]


def logits_of(model, ids):
    """PyTorch's logits of one sentence, float32 [L, K]."""
    with torch.inference_mode():
        return model(input_ids=torch.from_numpy(ids.astype(np.int64))[None]).logits[0]


def assert_decides(engine, ids, position, wanted):
    """The logits at a position and the decision are PyTorch's; a logit beside the expected one may have its rank."""
    at, close = np.array([position], np.int32), {"atol": 2e-5 * np.abs(wanted).max(), "rtol": 0}
    np.testing.assert_allclose(logits_at(engine, ids[None], at)[0], wanted, **close)
    decision = engine.decide(ids[None], at, np.array([7], np.int32))
    assert decision.top1[0] == wanted.argmax()
    ties = (np.abs(wanted - wanted[7]) < close["atol"]).sum() - 1
    assert abs(decision.expected_rank[0] - 1 - (wanted > wanted[7]).sum()) <= ties
    best, second = np.sort(wanted)[:-3:-1]
    np.testing.assert_allclose(decision.logits[0], [best, second, wanted[7], logsumexp(wanted)], **close)


def opened(kind, checkpoint):
    return kind.from_pretrained(checkpoint, dtype=torch.float32).eval(), hf.AutoTokenizer.from_pretrained(checkpoint)


def is_listed(name, exported) -> bool:
    """Whether the row of a family says what is exported."""
    written = [word for word in ("int8", "fp16") if (exported.folder / f"model.{word}.onnx").is_file()]
    assert written == ([] if exported.task == "token-classification" else ["int8", "fp16"])
    table = PAGE[KINDS.get(exported.task, "classifiers")]
    row = dict(zip(table["heads"][1:], table[name], strict=True))
    pairs = exported.task == "text-classification"
    attention = "one operator" if exported.info["fused"]["attention"] else "plain operators"
    assert not pairs or row["segments"] == ("yes" if exported.info.get("segments") else "no")
    assert "classifies" not in row or ("pairs" if pairs else "tokens") in row["classifies"]
    return (row["attention"], row["exporter"]) == (attention, exported.info["exporter"])


def masked_sentences(tokenizer):
    for ids in tokenizer.encode(texts(tokenizer.mask_token)):
        if tokenizer.mask_id in ids[:128]:
            yield ids[:128]
    random = np.random.default_rng(5)
    for length in (3, 40, 128):  # 128 is the longest that all the tiny models take
        ids = random.integers(5, tokenizer.vocab_size - 1, length).astype(np.int32)  # the last one is the mask
        ids[(ids == tokenizer.mask_id) | (ids == tokenizer.backend.token_to_id("[PAD]"))] = 5
        ids[length // 3] = tokenizer.mask_id
        yield ids


@pytest.mark.parametrize("family", few(ROWS, "bert", "roberta", "mpnet", "modernbert", "ernie"))
def test_a_masked_model_decides_as_pytorch_and_the_page_says_what_was_exported(family, checkpoint, exported):
    model, row = load_exported(exported(family)), ROWS[family]
    engine, (reference, _) = MaskedLM(model), opened(hf.AutoModelForMaskedLM, checkpoint(family))
    assert reference.config.model_type == row.family
    tokenizer = MaskTokenizer.load(model.folder, model.mask_token)
    sentences = list(masked_sentences(tokenizer))
    assert len(sentences) > 10
    for ids in sentences:
        position = int(np.argmax(ids == tokenizer.mask_id))
        assert_decides(engine, ids, position, logits_of(reference, ids)[position].numpy())
    assert model.info["fused"]["attention"] == row.attentions
    assert model.info["flops"]["hoisted"] < 0.85 * model.info["flops"]["optimum"]
    assert is_listed(family, model)
    cpu = operators(Graph.open(model.folder / "model.cpu.onnx"))
    assert (cpu["Attention"], cpu["MultiHeadAttention"]) == (row.attentions, 0)


@pytest.mark.everything
def test_a_deberta_with_the_head_of_its_authors_is_exported_with_that_head(checkpoint, tmp_path):
    """As microsoft/deberta-base: weights named lm_predictions, and a configuration that does not say so."""
    authors = shutil.copytree(checkpoint("deberta-v3"), tmp_path / "authors")
    said = json.loads((authors / "config.json").read_text("utf-8"))
    (authors / "config.json").write_text(json.dumps(said | {"legacy": True, "tie_word_embeddings": True}), "utf-8")
    assert any(name.startswith("lm_predictions.") for name in load_file(authors / "model.safetensors"))
    assert check(str(authors)).possible
    assert load_exported(build(str(authors), tmp_path / "out")).info["parity"]["top1_agreement"] == 1


@pytest.mark.parametrize("family", few(causal_checkpoints.FAMILIES, "gpt2", "llama"))
def test_a_causal_model_decides_as_pytorch_and_the_page_says_what_was_exported(family, causal, causal_checkpoint):
    exported, known = causal(family), causal_checkpoints.FAMILIES[family]
    reference, tokenizer = opened(hf.AutoModelForCausalLM, causal_checkpoint(family))
    engine, sentences = CausalLM(exported), texts(exported.tokenizer.mask_token)
    for text, ids in zip(sentences, exported.tokenizer.encode(sentences), strict=True):
        assert ids[:-1].tolist() == tokenizer(text.partition(" [MASK]")[0])["input_ids"]
        assert_decides(engine, ids, len(ids) - 1, logits_of(reference, ids[:-1])[-1].numpy())
    assert exported.info["fused"]["attention"] == known.fused
    assert is_listed(family, exported)
    if (
        reference.config.to_dict().get("num_key_value_heads") == 2 and known.fused
    ):  # CPUs read shared heads where they are
        nodes = onnx.load(exported.folder / CONVOLVED, load_external_data=False).graph.node
        shared = [own.i for node in nodes for own in node.attribute if own.name == "kv_num_heads"]
        assert shared == [2] * len(shared) != []

    random = np.random.default_rng(3)
    for length in (2, exported.max_length):  # the log-probabilities of all tokens
        ids = random.integers(5, exported.vocab_size, (3, length)).astype(np.int32)
        for own, row in zip(token_logprobs(CausalLM(exported, batch_tokens=50), ids), ids, strict=True):
            wanted = logits_of(reference, row)[:-1].log_softmax(-1)[range(length - 1), row[1:].astype(np.int64)]
            np.testing.assert_allclose(own, wanted, atol=1e-4)


OF_OPTIMUM = {"gemma3_text"}
# Further families, of both kinds; PyTorch's exporter alone exports all but one of them.
# Attentions that one operator computes, where the types of layers do not tell.
OF_ONE_OPERATOR = {"gpt_oss": 0, "mamba2": 0, **dict.fromkeys(("bamba", "nemotron_h", "zamba2"), 1)}


def test_the_small_models_say_only_what_their_classes_read():
    for family, sizes in (MASKED | CAUSAL).items():
        config = hf.CONFIG_MAPPING[family](**sizes)
        refuse_unread(family, config, config.to_dict())


@pytest.mark.parametrize("family", few([*MASKED, *CAUSAL], "eurobert", "qwen3_next", "mamba2", "nemotron_h"))
def test_a_further_family_decides_as_pytorch(family, checkpoint, exported):
    is_causal = family in CAUSAL
    loader = hf.AutoModelForCausalLM if is_causal else hf.AutoModelForMaskedLM
    source, found = checkpoint(family), load_exported(exported(family))
    assert found.info["exporter"] == ("Optimum" if family in OF_OPTIMUM else "PyTorch")
    kinds = (MASKED | CAUSAL)[family].get("layer_types", ())
    attentions = OF_ONE_OPERATOR.get(family, 2 - kinds.count("linear_attention") - kinds.count("mamba"))
    assert found.info["fused"]["attention"] == attentions
    if "mamba_chunk_size" in (MASKED | CAUSAL)[family]:  # PyTorch begins another chunk there
        assert {8, 9, 512} <= {*found.info["compared_lengths"]}
    engine = (CausalLM if is_causal else MaskedLM)(found)
    model = loader.from_pretrained(source, dtype=torch.float32).eval()
    for length in (2, 9, found.max_length):
        ids = np.random.default_rng(length).integers(10, 30, (3, length)).astype(np.int32)
        position = np.array([length - 1] * 3 if is_causal else [0, length // 2, length - 1], np.int32)
        with torch.inference_mode():
            logits = model(input_ids=torch.from_numpy(ids.astype(np.int64))).logits.numpy()
        wanted = logits[range(3), position - is_causal]
        np.testing.assert_allclose(logits_at(engine, ids, position), wanted, atol=5e-5 * np.abs(wanted).max())


@pytest.mark.everything
def test_a_session_computes_the_same_operators_for_both_exporters(checkpoint, exported, tmp_path, monkeypatch):
    """So their exports are as fast."""
    monkeypatch.setattr(trace, "Optimum", None)
    by_torch, counts = build(str(checkpoint("roberta")), tmp_path / "out"), []
    for folder in (by_torch, exported("roberta")):
        options = ort.SessionOptions()
        options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
        open_session("", str(folder / "model.cpu.onnx"), options)
        counts.append(operators(Graph.open(tmp_path / "optimized.onnx")))
    assert counts[0] - counts[1] == {}


OF_PAIRS = [*tiny_checkpoints.FAMILIES, "xlnet"]


def assert_is_told(family, exported):
    assert is_listed(family, exported)
    assert labels(exported) == LABELS
    assert exported.info["fused"]["attention"] == (0 if family == "xlnet" else 2)


@pytest.mark.parametrize("family", few(OF_PAIRS, "bert"))
def test_pairs_of_texts_are_judged_as_by_transformers(family, classifier):
    """The whole way: transformers' own tokenizer and model, pair by pair, against our encoding and graph in batches."""
    checkpoint, exported = classifier("text-classification", family)
    assert_is_told(family, exported)
    if family != "xlnet":  # the last layer is computed for the first token alone
        assert exported.info["hoisted"]
        assert exported.info["flops"]["hoisted"] < 0.8 * exported.info["flops"]["optimum"]
    model, tokenizer = opened(hf.AutoModelForSequenceClassification, checkpoint)
    engine, encoded = PairClassifier(exported, batch_tokens=64), encode_pairs(exported, PAIRS)
    found = engine.classify(encoded).logits
    with torch.inference_mode():
        one_by_one = [model(**tokenizer(*pair, return_tensors="pt")).logits[0].numpy() for pair in PAIRS]
    np.testing.assert_allclose(found, one_by_one, atol=1e-5 * max(1, np.abs(one_by_one).max()))
    assert (family in {*SEGMENTED, "xlnet"}) == exported.info["segments"]
    if exported.info["segments"]:  # an input that the graph ignored would pass all the rest
        others = tuple(replace(bucket, segments=1 - np.minimum(bucket.segments, 1)) for bucket in encoded.buckets)
        assert np.abs(engine.classify(replace(encoded, buckets=others)).logits - found).max() > 1e-3
    if family == "xlnet":  # its head reads the last token, which is in a third segment
        assert all(set(bucket.segments[0]) == {0, 1, 2} and bucket.segments[0, -1] == 2 for bucket in encoded.buckets)


@pytest.mark.parametrize("family", few(tiny_checkpoints.FAMILIES, "bert"))
def test_every_token_gets_the_label_of_transformers(family, classifier):
    checkpoint, exported = classifier("token-classification", family)
    assert_is_told(family, exported)
    model, tokenizer = opened(hf.AutoModelForTokenClassification, checkpoint)
    sentences = [np.array(tokenizer(text)["input_ids"], np.int32) for pair in PAIRS for text in pair]
    done = []
    found = TokenClassifier(exported, batch_tokens=64, threads=2).labels(sentences, done.append)
    assert sum(done) == len(sentences)
    for ids, own in zip(sentences, found, strict=True):
        assert own.dtype == np.int32
        assert own.tolist() == logits_of(model, ids).argmax(-1).tolist()
    assert exported.info["parity"]["top1_agreement"] == 1
    assert TokenClassifier(exported).labels([]) == []


def test_the_page_has_every_family_that_optimum_exports_and_the_tested_ones_of_pytorchs_exporter():
    listed = {name for table in PAGE.values() for name in table if name != "heads"}
    known = TasksManager._SUPPORTED_MODEL_TYPE
    exporting = {family for family, by in known.items() if "fill-mask" in by.get("onnx", ())}
    assert {row.family for row in ROWS.values()} | {name for name, own in FAMILIES.items() if own.refused} > exporting
    assert listed == {*ROWS, *causal_checkpoints.FAMILIES, *OF_PAIRS}


# Where ONNX Runtime would run the graphs on CUDA, without a GPU: its own provider starts on stand-in libraries
# (tests/stand_in) that compute nothing. Which nodes it takes, which attention kernels it chooses is real.
CUDA, TOKENS = "CUDAExecutionProvider", 16384  # in a batch
GRAPHS = {"single": "model.onnx", "half": "model.fp16.onnx"}


@pytest.mark.parametrize("precision", GRAPHS)
def test_every_node_runs_on_cuda_and_attention_takes_the_kernel_for_short_sentences(precision, mini, place_on_cuda):
    layers, streams = mini.info["layers"], place_on_cuda(mini.folder / GRAPHS[precision], TOKENS, [18, 27])
    assert set(streams.operators) == {CUDA}
    kinds = streams.operators[CUDA]
    assert (kinds["MultiHeadAttention"], kinds["TopK"]) == (layers, 1)
    assert set(streams.kernels) == {"EFFICIENT_ATTENTION" if precision == "half" else "MATH"}
    assert len(streams.kernels) % layers == 0
    if precision == "half":  # it normalises and activates by fused kernels
        assert (kinds["SkipLayerNormalization"], kinds["BiasGelu"]) == (2 * layers, layers + 1)
    assert (streams.options["use_tf32"], streams.options["device_id"]) == ("0", "1")
    assert int(streams.options["gpu_mem_limit"]) < 64 << 30


def test_batches_that_do_not_fit_a_cuda_device_are_halved_and_the_run_goes_on(mini, place_on_cuda):
    """By the provider's own arena, whose allocations fail; two devices. Kernels compute nothing here."""
    found = place_on_cuda.host(mini.folder)
    assert found["devices"] == ["cuda:0", "cuda:1"]
    assert found["shapes"] == [[1_500, "fp16"]] * 2
    first, *others = (line.partition(";")[0] for line in found["said"])
    assert first == "cuda:1: batches of 16384 tokens do not fit its memory, so it goes on with 8192"
    assert others[-1].endswith(("goes on with 2048", "goes on with 1024"))


@pytest.mark.parametrize("precision", GRAPHS)
@pytest.mark.parametrize("family", few(["roberta", "mpnet", "deberta-v3", "modernbert"], "modernbert"))
def test_other_families_leave_no_more_than_shape_arithmetic_to_the_cpu(family, precision, exported, place_on_cuda):
    placed = place_on_cuda(exported(family) / GRAPHS[precision], TOKENS, [18])
    on_cpu = placed.operators.get("CPUExecutionProvider", {})
    assert sum(on_cpu.values()) < 25  # and not more with more layers
    assert not set(on_cpu) & {"MatMul", "Gemm", "MultiHeadAttention", "Softmax", "LayerNormalization", "Gelu", "TopK"}
    assert placed.operators[CUDA]["MatMul"] > 10
