"""Exported token classifiers against PyTorch, for several families; what is refused, and how."""

from functools import partial

import numpy as np
import pytest
import torch
from classifier_checkpoints import FAMILIES, LABELS, save_classifier
from few import few
from negengine.engine.basics.errors import InputError
from negengine.engine.inference.classifier import TokenClassifier
from negengine.engine.inference.exported import CONVOLVED, load_exported
from negengine.export import build as building
from negengine.export.build import build as build_for
from negengine.export.parity import rows_of
from negengine.export.samples import Sample
from transformers import AutoModelForTokenClassification, AutoTokenizer

build = partial(build_for, task="token-classification")

TEXTS = [
    "a man is not sleeping .",
    "no one is outside",
    "the woman who likes to , never , outside . " * 4,
    "a",
    "two dog are not never sleeping",
]


@pytest.fixture(scope="module")
def made(classifier):
    """Family → checkpoint and exported model."""
    return partial(classifier, "token-classification")


@pytest.mark.parametrize("family", few(FAMILIES, "bert"))
def test_labels_equal_those_of_transformers_for_every_token(family, made):
    """The whole way: transformers' own tokenizer and model, text by text, against our graph in batches."""
    checkpoint, exported = made(family)
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    model = AutoModelForTokenClassification.from_pretrained(checkpoint, dtype=torch.float32).eval()
    sentences = [np.array(tokenizer(text)["input_ids"], np.int32) for text in TEXTS]
    done = []
    found = TokenClassifier(exported, batch_tokens=64, threads=2).labels(sentences, done.append)
    assert sum(done) == len(sentences)
    for ids, labels in zip(sentences, found, strict=True):
        with torch.inference_mode():
            wanted = model(input_ids=torch.from_numpy(ids.astype(np.int64))[None]).logits[0]
        assert labels.dtype == np.int32
        assert labels.tolist() == wanted.argmax(-1).tolist()


@pytest.mark.parametrize("family", few(FAMILIES, "bert"))
def test_the_export_says_what_it_holds(family, made):
    info = made(family)[1].info
    assert tuple(info["labels"]) == LABELS
    assert info["fused"]["attention"] == 2
    assert CONVOLVED in info["files"]
    assert info["parity"]["top1_agreement"] == 1


def test_sentences_without_a_token_classifier_are_refused(mini):
    with pytest.raises(InputError, match="is exported for fill-mask, token-classification is needed"):
        TokenClassifier(mini)


def test_no_sentences_give_no_labels(made):
    assert TokenClassifier(made("bert")[1]).labels([]) == []


def test_the_task_follows_from_the_checkpoint(made, tmp_path):
    """`export CHECKPOINT` needs no --task: the configuration names the class."""
    assert load_exported(build_for(str(made("bert")[0]), tmp_path / "out"), task="token-classification")


def test_a_head_with_one_label_is_refused(tmp_path):
    save_classifier(tmp_path / "single", "bert", names=("O",), task="token-classification")
    with pytest.raises(InputError, match="single has 1 label"):
        build(str(tmp_path / "single"), tmp_path / "out")


def test_a_masked_language_model_is_not_a_token_classifier(tmp_path):
    with pytest.raises(InputError, match=r"mini is not a token classifier: its weights lack"):
        build("mini", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_graph_that_disagrees_with_pytorch_on_one_token_is_not_published(tmp_path, made, monkeypatch):
    reference = building.reference_logits

    def wrong(*args):
        logits = reference(*args).copy()
        logits[-1, 0] += 0.1
        return logits

    monkeypatch.setattr(building, "reference_logits", wrong)
    with pytest.raises(InputError, match="the exported graph disagrees with PyTorch"):
        build(str(made("bert")[0]), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_rows_of_logits_belong_to_samples_or_to_their_tokens():
    samples = [Sample(np.zeros(length, np.int32)) for length in (3, 2)]
    assert rows_of(samples, np.zeros((2, 4), np.float32)) == [slice(0, 1), slice(1, 2)]
    assert rows_of(samples, np.zeros((5, 4), np.float32)) == [slice(0, 3), slice(3, 5)]
    with pytest.raises(ValueError, match="4 rows"):
        rows_of(samples, np.zeros((4, 4), np.float32))
