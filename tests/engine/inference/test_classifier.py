"""Pairs of texts as the engine encodes, cuts and classifies them, against transformers."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from negengine.engine.basics.errors import InputError
from negengine.engine.inference.classifier import PairClassifier, encode_pairs, labels
from negengine.engine.inference.exported import load_exported
from negengine.export.build import build
from tokenizers import pre_tokenizers
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification
from word_tokenizer import UNMASKED, labelled, word_tokenizer

LONGEST = 24
WORDS = [f"w{i}" for i in range(40)]
SHORT, MIDDLE, LONG = " ".join(WORDS[:3]), " ".join(WORDS[3:15]), " ".join(WORDS * 2)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoint")
    tokenizer = word_tokenizer(WORDS, UNMASKED, pre_tokenizer=pre_tokenizers.WhitespaceSplit())
    tokenizer.save_pretrained(folder)
    torch.manual_seed(1)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=LONGEST,
        initializer_range=0.3,
        **labelled(["entailment", "not_entailment"]),
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def exported(checkpoint, tmp_path_factory):
    task = "text-classification"
    return load_exported(build(str(checkpoint), tmp_path_factory.mktemp("exported") / "tiny", task=task), task=task)


PAIRS = [(SHORT, MIDDLE), (LONG, SHORT), (SHORT, LONG), (LONG, LONG), (MIDDLE, MIDDLE), (SHORT, SHORT)]


def rows_of(encoded):
    return {
        int(row): (ids.tolist(), segments.tolist())
        for part in encoded.buckets
        for row, ids, segments in zip(part.rows, part.ids, part.segments, strict=True)
    }


@pytest.mark.parametrize("longest", [None, 24, 11, 5])
def test_ids_segments_and_cuts_are_those_of_transformers(longest, checkpoint, exported):
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    encoded = encode_pairs(exported, PAIRS, max_length=longest)
    for row, found in rows_of(encoded).items():
        wanted = tokenizer(*PAIRS[row], truncation="longest_first", max_length=longest or LONGEST)
        assert found == (wanted["input_ids"], wanted["token_type_ids"])
    lengths = [part.ids.shape[1] for part in encoded.buckets]
    assert lengths == sorted(set(lengths))
    assert sorted(np.concatenate([part.rows for part in encoded.buckets]).tolist()) == list(range(len(PAIRS)))
    if longest is None:  # 24 tokens with three special ones leave 21
        assert encoded.truncated.tolist() == [False, True, True, True, True, False]


def test_the_truncation_side_of_the_checkpoint_is_kept(checkpoint, exported):
    """Some tokenizers cut at the start; tokenizer.json alone does not say so."""
    tokenizer = AutoTokenizer.from_pretrained(checkpoint, truncation_side="left")
    assert exported.info["truncation_side"] == "right"
    left = replace(exported, info=exported.info | {"truncation_side": "left"})
    ((ids, _),) = rows_of(encode_pairs(left, [(LONG, SHORT)])).values()
    assert ids == tokenizer(LONG, SHORT, truncation=True, max_length=LONGEST)["input_ids"]


@pytest.mark.parametrize("batch_tokens", [1, 60, 100_000])
def test_logits_equal_pytorch_whatever_the_batch(batch_tokens, checkpoint, exported):
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    reference = BertForSequenceClassification.from_pretrained(checkpoint).eval()
    model = PairClassifier(exported, batch_tokens=batch_tokens)
    for pair, found in zip(PAIRS, model.classify(encode_pairs(exported, PAIRS)).logits, strict=True):
        inputs = tokenizer(*pair, truncation="longest_first", max_length=LONGEST, return_tensors="pt")
        with torch.inference_mode():
            np.testing.assert_allclose(found, reference(**inputs).logits[0].numpy(), atol=2e-5)
    assert model.classify(encode_pairs(exported, [])).logits.shape == (0, 2)
    assert labels(exported) == ("entailment", "not_entailment")


def test_what_a_classifier_does_not_take_is_refused(mini, exported):
    for longest in (4, 25):
        with pytest.raises(InputError, match=rf"--max-length {longest}: .* takes 5 to 24 tokens"):
            encode_pairs(exported, PAIRS, max_length=longest)
    with pytest.raises(InputError, match=r"RTE\.txt:7: contains the padding token"):
        encode_pairs(exported, [(SHORT, "w1 [PAD] w2")], locations=["RTE.txt:7"])
    with pytest.raises(InputError, match="is exported for fill-mask, text-classification is needed"):
        PairClassifier(mini)
