"""Classifiers of XLNet: padded at the left; the last token, which the head reads, is in a third segment."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from classifier_checkpoints import PAIRS
from negengine.engine.inference.classifier import PairClassifier, encode_pairs
from transformers import AutoModelForSequenceClassification, AutoTokenizer

pytestmark = pytest.mark.everything


@pytest.fixture
def xlnet(classifier):
    """Checkpoint and exported model."""
    return classifier("text-classification", "xlnet")


def test_the_engine_equals_transformers(xlnet):
    checkpoint, exported = xlnet
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


def test_the_third_segment_is_an_input(xlnet):
    _, exported = xlnet
    assert exported.info["segments"]
    encoded = encode_pairs(exported, PAIRS[:1])
    (bucket,) = encoded.buckets
    assert bucket.segments[0, -1] == 2
    assert set(bucket.segments[0]) == {0, 1, 2}
    without = replace(encoded, buckets=(replace(bucket, segments=np.zeros_like(bucket.segments)),))
    classifier = PairClassifier(exported)
    assert np.abs(classifier.classify(encoded).logits - classifier.classify(without).logits).max() > 1e-3
