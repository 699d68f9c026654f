"""Exported classifiers of pairs against PyTorch, for families with segments and without; what is refused, and how."""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from classifier_checkpoints import FAMILIES, LABELS, PAIRS, SEGMENTED, WORDS, save_classifier
from few import few
from negengine.engine.basics.errors import InputError
from negengine.engine.inference.classifier import PairClassifier, encode_pairs, labels
from negengine.export import build as building
from negengine.export.build import build as build_for
from transformers import AutoModelForSequenceClassification, AutoTokenizer, FNetConfig
from word_tokenizer import word_tokenizer

build = partial(build_for, task="text-classification")


@pytest.fixture(scope="module")
def made(classifier):
    """Family → checkpoint and exported model."""
    return partial(classifier, "text-classification")


@pytest.mark.parametrize("family", few(FAMILIES, "bert"))
def test_engine_equals_transformers_on_text_pairs(family, made):
    """The whole way: transformers' own tokenizer and model, pair by pair, against our encoding and graph in batches."""
    checkpoint, exported = made(family)
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    model = AutoModelForSequenceClassification.from_pretrained(checkpoint, dtype=torch.float32).eval()
    logits = PairClassifier(exported, batch_tokens=64).classify(encode_pairs(exported, PAIRS)).logits
    for pair, found in zip(PAIRS, logits, strict=True):
        with torch.inference_mode():
            wanted = model(**tokenizer(*pair, return_tensors="pt")).logits[0].numpy()
        np.testing.assert_allclose(found, wanted, atol=1e-5 * max(1, np.abs(wanted).max()))


@pytest.mark.parametrize("family", few(FAMILIES, "bert"))
def test_segments_are_an_input_where_the_family_has_them(family, made):
    _, exported = made(family)
    assert (family in SEGMENTED) == exported.info["segments"]


@pytest.mark.parametrize("family", sorted(SEGMENTED))
def test_segments_change_the_answer(family, made):
    """An input that the graph ignored would pass every other test with equal segments."""
    _, exported = made(family)
    encoded = encode_pairs(exported, PAIRS[:1])
    (pair,) = encoded.buckets
    swapped = replace(encoded, buckets=(replace(pair, segments=1 - pair.segments),))
    classifier = PairClassifier(exported)
    assert np.abs(classifier.classify(encoded).logits - classifier.classify(swapped).logits).max() > 1e-3


@pytest.mark.parametrize("family", few(FAMILIES, "bert"))
def test_the_last_layer_is_computed_for_the_first_token_alone(family, made):
    info = made(family)[1].info
    assert info["hoisted"]
    assert info["fused"]["attention"] == 2
    assert info["flops"]["hoisted"] < 0.8 * info["flops"]["optimum"]


def test_labels_are_those_of_the_head_in_order(made):
    assert labels(made("bert")[1]) == LABELS


def test_a_second_export_of_the_same_checkpoint_does_nothing(made):
    checkpoint, exported = made("bert")
    before = (exported.folder / "export.json").stat().st_mtime_ns
    said = []
    build(str(checkpoint), exported.folder, say=said.append)
    assert (exported.folder / "export.json").stat().st_mtime_ns == before
    assert "up to date" in said[-1]


def test_an_export_for_another_task_is_not_replaced(tmp_path, made):
    (tmp_path / "export.json").write_text(json.dumps({"format": 2, "task": "fill-mask"}))
    with pytest.raises(InputError, match=r"was exported for fill-mask: give another --output"):
        build(str(made("bert")[0]), tmp_path)


def test_a_classifier_is_not_a_masked_language_model(tmp_path, made):
    with pytest.raises(InputError, match=r"bert is not a masked language model: its weights lack"):
        build_for(str(made("bert")[0]), tmp_path / "out", task="fill-mask")


def test_a_masked_language_model_is_not_a_classifier(tmp_path):
    with pytest.raises(InputError, match=r"mini is not a sequence classifier: its weights lack"):
        build("mini", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_head_with_one_output_is_refused(tmp_path):
    save_classifier(tmp_path / "scorer", "bert", names=("score",))
    with pytest.raises(InputError, match=r"scorer has 1 label: it gives a score"):
        build(str(tmp_path / "scorer"), tmp_path / "out")


def test_several_labels_at_once_are_refused(tmp_path):
    save_classifier(tmp_path / "multi", "bert", problem_type="multi_label_classification")
    with pytest.raises(InputError, match="multi gives several labels at once"):
        build(str(tmp_path / "multi"), tmp_path / "out")


def test_a_family_that_optimum_does_not_export_is_refused_with_the_versions_that_were_tried(tmp_path):
    config = FNetConfig(vocab_size=60, hidden_size=16, num_hidden_layers=1, intermediate_size=16, num_labels=3)
    AutoModelForSequenceClassification.from_config(config).save_pretrained(tmp_path / "fnet")
    word_tokenizer(WORDS).save_pretrained(tmp_path / "fnet")
    said = (
        r"fnet: Optimum has no text-classification export for the family fnet \(tried: optimum-onnx [0-9.]+, "
        r"transformers [0-9.]+, torch [^ ]+\)"
    )
    with pytest.raises(InputError, match=said):
        build(str(tmp_path / "fnet"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_graph_that_disagrees_with_pytorch_is_not_published(tmp_path, made, monkeypatch):
    reference = building.reference_logits
    monkeypatch.setattr(building, "reference_logits", lambda *args: reference(*args) + 0.1)
    with pytest.raises(InputError, match="the exported graph disagrees with PyTorch"):
        build(str(made("bert")[0]), tmp_path / "out")
    assert not (tmp_path / "out").exists()
