"""Classifiers of XLNet: padded at the left; the last token, which the head reads, is in a third segment."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from negengine.engine.inference.classifier import PairClassifier, encode_pairs
from negengine.engine.inference.exported import load_exported
from negengine.export.build import build
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import AutoModelForSequenceClassification, AutoTokenizer, PreTrainedTokenizerFast, XLNetConfig

SPECIAL = ["<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>"]
WORDS = "a the man woman dog is are not never sleeping running outside . , in park two no one who likes to".split()  # noqa: SIM905
PAIRS = [
    ("a man is sleeping .", "a man is not sleeping ."),
    ("two dog are running in the park", "no one is outside"),
    ("the woman who likes to , never , outside . " * 4, "the dog ."),
    ("a", "the"),
]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    vocabulary = {token: number for number, token in enumerate([*SPECIAL, *WORDS])}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.post_processor = processors.TemplateProcessing(
        single="$A:0 <sep>:0 <cls>:2",
        pair="$A:0 <sep>:0 $B:1 <sep>:1 <cls>:2",
        special_tokens=[("<sep>", 4), ("<cls>", 3)],
    )
    backend.add_special_tokens(SPECIAL)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="<pad>",
        mask_token="<mask>",
        padding_side="left",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )
    names = ("entailment", "neutral", "contradiction")
    config = XLNetConfig(
        vocab_size=len(vocabulary), d_model=32, n_layer=2, n_head=4, d_inner=64, pad_token_id=5,
        id2label=dict(enumerate(names)), label2id={name: i for i, name in enumerate(names)},
    )  # fmt: skip
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_config(config).eval()
    with torch.no_grad():  # biases and normalisations too, so that nothing is neutral by chance
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    folder = tmp_path_factory.mktemp("xlnet") / "xlnet"
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def exported(checkpoint, tmp_path_factory):
    folder = build(str(checkpoint), tmp_path_factory.mktemp("exported") / "out", task="text-classification")
    return load_exported(folder, task="text-classification")


def test_the_engine_equals_transformers(checkpoint, exported):
    model = AutoModelForSequenceClassification.from_pretrained(checkpoint, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    found = PairClassifier(exported, batch_tokens=64).classify(encode_pairs(exported, PAIRS)).logits
    # Pair by pair without padding, and all at once, padded at the left.
    padded = tokenizer(*map(list, zip(*PAIRS, strict=True)), padding=True, return_tensors="pt")
    with torch.inference_mode():
        one_by_one = [model(**tokenizer(*pair, return_tensors="pt")).logits[0].numpy() for pair in PAIRS]
        together = model(**padded).logits.numpy()
    scale = 1e-5 * max(1, np.abs(one_by_one).max())
    np.testing.assert_allclose(found, one_by_one, atol=scale)
    np.testing.assert_allclose(found, together, atol=10 * scale)


def test_the_third_segment_is_an_input(exported):
    assert exported.info["segments"]
    encoded = encode_pairs(exported, PAIRS[:1])
    (bucket,) = encoded.buckets
    assert bucket.segments[0, -1] == 2
    assert set(bucket.segments[0]) == {0, 1, 2}
    without = replace(encoded, buckets=(replace(bucket, segments=np.zeros_like(bucket.segments)),))
    classifier = PairClassifier(exported)
    assert np.abs(classifier.classify(encoded).logits - classifier.classify(without).logits).max() > 1e-3
