"""Every family of every task, exported and run by the engine, gives what PyTorch gives; the page lists them."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import causal_checkpoints
import classifier_checkpoints
import numpy as np
import onnxruntime as ort
import pytest
import torch
import transformers as hf
from classifier_checkpoints import LABELS, PAIRS, SEGMENTED
from few import few
from negengine.engine.basics.errors import InputError
from negengine.engine.inference.causal import CausalLM
from negengine.engine.inference.classifier import PairClassifier, TokenClassifier, encode_pairs, labels
from negengine.engine.inference.exported import CONVOLVED, load_exported
from negengine.engine.inference.model import MaskedLM
from negengine.engine.text.pattern_files import load_patterns
from negengine.engine.text.tokenizer import MaskTokenizer
from negengine.export import trace
from negengine.export.build import build
from negengine.export.check import check, kind_of
from negengine.export.families import FAMILIES, family_of
from negengine.export.graph import Graph
from negengine.export.observe import open_session
from optimum.exporters.tasks import TasksManager
from safetensors.torch import load_file
from scipy.special import logsumexp
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_FOR_MASKED_LM_MAPPING

from .conftest import operators
from .families import ROWS, UNSUITABLE, save_unsuitable

pytestmark = pytest.mark.long

PAGE = (Path(__file__).parents[2] / "docs" / "families.md").read_text("utf-8").splitlines()


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
    np.testing.assert_allclose(engine.logits(ids[None], at)[0], wanted, **close)
    decision = engine.decide(ids[None], at, np.array([7], np.int32))
    assert decision.top1[0] == wanted.argmax()
    ties = (np.abs(wanted - wanted[7]) < close["atol"]).sum() - 1
    assert abs(decision.expected_rank[0] - 1 - (wanted > wanted[7]).sum()) <= ties
    best, second = np.sort(wanted)[:-3:-1]
    np.testing.assert_allclose(decision.logits[0], [best, second, wanted[7], logsumexp(wanted)], **close)


def opened(kind, checkpoint):
    return kind.from_pretrained(checkpoint, dtype=torch.float32).eval(), hf.AutoTokenizer.from_pretrained(checkpoint)


def on_the_page(exported, *cells) -> bool:
    """Whether a row of the page begins with these cells and with what is exported; behind them are notes."""
    written = [word for word in ("int8", "fp16") if (exported.folder / f"model.{word}.onnx").is_file()]
    attention = "one operator" if exported.info["fused"]["attention"] else "plain operators"
    row = " | ".join([*cells, attention, ", ".join(["fp32", *written]), exported.info["exporter"]])
    return any(line.startswith(f"| {row} | ") for line in PAGE)


def is_listed(name, positions, head, checkpoint, exported) -> bool:
    """Whether the page lists a language model as it was exported."""
    config = hf.AutoConfig.from_pretrained(checkpoint)
    kind = kind_of(hf.AutoTokenizer.from_pretrained(checkpoint))
    kind = f"SentencePiece {kind}" if list(checkpoint.glob("*.model")) else kind
    first, fixed = family_of(config).first_position, family_of(config).padding_id
    counted = f", from {'the one after the padding id' if isinstance(first, str) else first}" if first else ""
    padding = "none" if exported.is_causal else "from the configuration" if fixed is None else f"{fixed}, fixed"
    return on_the_page(exported, f"`{name}`", f"`{head}`", exported.task, kind, positions + counted, padding)


# ---------------------------------------------------------------- masked language models
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
    head = MODEL_FOR_MASKED_LM_MAPPING[hf.CONFIG_MAPPING[row.family]].__name__
    assert is_listed(family, row.positions, head, checkpoint(family), model)
    cpu = operators(Graph.open(model.folder / "model.cpu.onnx"))
    assert (cpu["Attention"], cpu["MultiHeadAttention"]) == (row.attentions, 0)
    verdict = check(str(checkpoint(family)))
    assert [finding.said for finding in verdict.findings if not finding.possible] == []


@pytest.mark.everything
def test_a_deberta_with_the_head_of_its_authors_is_exported_with_that_head(checkpoint, tmp_path):
    """As microsoft/deberta-base: weights named lm_predictions, and a configuration that does not say so."""
    authors = shutil.copytree(checkpoint("deberta-v3"), tmp_path / "authors")
    said = json.loads((authors / "config.json").read_text("utf-8"))
    (authors / "config.json").write_text(json.dumps(said | {"legacy": True, "tie_word_embeddings": True}), "utf-8")
    assert any(name.startswith("lm_predictions.") for name in load_file(authors / "model.safetensors"))
    assert check(str(authors)).possible
    assert load_exported(build(str(authors), tmp_path / "out")).info["parity"]["top1_agreement"] == 1


# ---------------------------------------------------------------- causal language models

CAUSAL = {
    **dict.fromkeys(("gpt2", "opt"), "learned"),
    **dict.fromkeys(("olmo3", "modernbert-decoder"), "rotary"),
    **dict.fromkeys(("gpt_neox", "llama", "mistral", "qwen2", "phi3"), "rotary"),
    **dict.fromkeys(("bloom", "mpt"), "relative"),
}


@pytest.mark.parametrize("family", few(CAUSAL, "gpt2", "llama"))
def test_a_causal_model_decides_as_pytorch_and_the_page_says_what_was_exported(family, causal, causal_checkpoint):
    assert set(CAUSAL) == set(causal_checkpoints.FAMILIES)
    exported, known = causal(family), causal_checkpoints.FAMILIES[family]
    reference, tokenizer = opened(hf.AutoModelForCausalLM, causal_checkpoint(family))
    engine, sentences = CausalLM(exported), texts(exported.tokenizer.mask_token)
    for text, ids in zip(sentences, exported.tokenizer.encode(sentences), strict=True):
        assert ids[:-1].tolist() == tokenizer(text.partition(" [MASK]")[0])["input_ids"]
        assert_decides(engine, ids, len(ids) - 1, logits_of(reference, ids[:-1])[-1].numpy())
    info = exported.info
    assert info["fused"]["attention"] == known.fused
    of_a_row = 2 * info["vocab_size"] * info["hidden_size"]  # one row alone reaches the vocabulary
    assert info["flops"]["optimum"] - info["flops"]["hoisted"] > (info["flops"]["length"] - 1) * of_a_row
    head = MODEL_FOR_CAUSAL_LM_MAPPING[known.config].__name__
    assert is_listed(family, CAUSAL[family], head, causal_checkpoint(family), exported)


@pytest.mark.parametrize("family", few(CAUSAL, "gpt2"))
def test_any_row_of_a_causal_model_and_all_its_tokens_equal_pytorch(family, causal, causal_checkpoint):
    exported, (reference, _) = causal(family), opened(hf.AutoModelForCausalLM, causal_checkpoint(family))
    random = np.random.default_rng(3)
    for length in (2, 9, exported.max_length):
        ids = random.integers(5, exported.vocab_size, (3, length)).astype(np.int32)
        found = CausalLM(exported, batch_tokens=50).token_logprobs(ids)
        for own, row in zip(found, ids, strict=True):
            wanted = logits_of(reference, row)[:-1].log_softmax(-1)
            wanted = wanted.gather(1, torch.from_numpy(row[1:, None].astype(np.int64)))[:, 0]
            np.testing.assert_allclose(own, wanted, atol=1e-4)
    ids = random.integers(5, exported.vocab_size, (4, 30)).astype(np.int32)
    position = np.array([1, 9, 29, 17], np.int32)
    for own, row, mask in zip(CausalLM(exported).logits(ids, position), ids, position, strict=True):
        wanted = logits_of(reference, row[:mask])[-1]
        np.testing.assert_allclose(own, wanted, atol=2e-5 * float(wanted.abs().max()))


def in_a_session(graph, to):
    """The operators that ONNX Runtime makes of a graph."""
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(to)
    open_session("", str(graph), options)
    return operators(Graph.open(to))


@pytest.mark.everything
def test_a_session_computes_the_same_operators_for_both_exporters(checkpoint, exported, tmp_path, monkeypatch):
    """So their exports are as fast."""
    by_optimum = exported("roberta")
    monkeypatch.setattr(trace, "Optimum", None)
    by_torch = build(str(checkpoint("roberta")), tmp_path / "out")
    for name in ("model.onnx", "model.cpu.onnx", "model.int8.onnx"):
        one, other = (in_a_session(folder / name, tmp_path / name) for folder in (by_torch, by_optimum))
        assert (name, one - other) == (name, {})


# ---------------------------------------------------------------- classifiers

CLASSIFIERS = [(family, task) for task in classifier_checkpoints.LOADERS for family in classifier_checkpoints.FAMILIES]
CLASSIFIERS += [("xlnet", "text-classification")]


@pytest.mark.parametrize(
    ("family", "task"), few(CLASSIFIERS, ("bert", "text-classification"), ("bert", "token-classification"))
)
def test_the_page_and_the_manifest_say_what_a_classifier_is(family, task, classifier):
    _, exported = classifier(task, family)
    segments = "yes" if exported.info.get("segments") else "no"
    assert on_the_page(exported, f"`{family}`", task, segments)
    assert labels(exported) == LABELS
    assert CONVOLVED in exported.info["files"]
    if family != "xlnet":
        assert exported.info["fused"]["attention"] == 2
    if task == "text-classification" and family != "xlnet":  # the last layer is computed for the first token alone
        assert exported.info["hoisted"]
        assert exported.info["flops"]["hoisted"] < 0.8 * exported.info["flops"]["optimum"]


@pytest.mark.parametrize("family", few([*classifier_checkpoints.FAMILIES, "xlnet"], "bert"))
def test_pairs_of_texts_are_judged_as_by_transformers(family, classifier):
    """The whole way: transformers' own tokenizer and model, pair by pair, against our encoding and graph in batches."""
    checkpoint, exported = classifier("text-classification", family)
    model, tokenizer = opened(hf.AutoModelForSequenceClassification, checkpoint)
    engine, encoded = PairClassifier(exported, batch_tokens=64), encode_pairs(exported, PAIRS)
    found = engine.classify(encoded).logits
    padded = tokenizer(*map(list, zip(*PAIRS, strict=True)), padding=True, return_tensors="pt")
    with torch.inference_mode():
        one_by_one = [model(**tokenizer(*pair, return_tensors="pt")).logits[0].numpy() for pair in PAIRS]
        together = model(**padded).logits.numpy()  # XLNet at the left
    scale = 1e-5 * max(1, np.abs(one_by_one).max())
    np.testing.assert_allclose(found, one_by_one, atol=scale)
    np.testing.assert_allclose(found, together, atol=10 * scale)
    assert (family in {*SEGMENTED, "xlnet"}) == exported.info["segments"]
    if exported.info["segments"]:  # an input that the graph ignored would pass all the rest
        others = tuple(replace(bucket, segments=1 - np.minimum(bucket.segments, 1)) for bucket in encoded.buckets)
        assert np.abs(engine.classify(replace(encoded, buckets=others)).logits - found).max() > 1e-3
    if family == "xlnet":  # its head reads the last token, which is in a third segment
        assert all(set(bucket.segments[0]) == {0, 1, 2} and bucket.segments[0, -1] == 2 for bucket in encoded.buckets)


@pytest.mark.parametrize("family", few(classifier_checkpoints.FAMILIES, "bert"))
def test_every_token_gets_the_label_of_transformers(family, classifier):
    checkpoint, exported = classifier("token-classification", family)
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


# ---------------------------------------------------------------- the page
def test_the_page_has_every_family_that_optimum_exports_and_the_tested_ones_of_pytorchs_exporter():
    listed = {line.split("`")[1] for line in PAGE if line.startswith("| `")}
    known = TasksManager._SUPPORTED_MODEL_TYPE
    exporting = {family for family, by in known.items() if "fill-mask" in by.get("onnx", ())}
    assert {row.family for row in ROWS.values()} | set(UNSUITABLE) > exporting
    assert listed == {*ROWS, *CAUSAL, *(family for family, _ in CLASSIFIERS)}


@pytest.mark.parametrize("family", UNSUITABLE)
def test_the_list_says_why_a_family_is_refused_before_its_weights_are_read(family, tmp_path):
    folder = save_unsuitable(family, tmp_path)
    (reason,) = [found.said for found in check(folder).findings if found.what == "family"]
    assert reason.endswith(FAMILIES[family].refused.why)
    (tmp_path / family / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")  # no weights
    with pytest.raises(InputError, match=rf"^{family}: the family {family} cannot be exported: "):
        build(folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_graph_that_depends_on_the_tokens_is_refused(tmp_path, monkeypatch):
    monkeypatch.setitem(FAMILIES, "xmod", FAMILIES["esm"])  # positions of that kind, and no refusal
    monkeypatch.setitem(UNSUITABLE, "xmod", UNSUITABLE["xmod"] | {"default_language": "en_XX"})
    with pytest.raises(InputError, match="which operations it computes depends on the tokens of a text"):
        build(save_unsuitable("xmod", tmp_path), tmp_path / "out")
