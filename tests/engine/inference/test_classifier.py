"""Pairs of texts as the engine encodes, cuts and classifies them, against transformers."""

from dataclasses import replace

import numpy as np
import pytest
from classifier_checkpoints import WORDS, save_classifier
from negengine.engine.basics.errors import InputError
from negengine.engine.inference.classifier import PairClassifier, encode_pairs
from negengine.engine.inference.exported import load_exported
from negengine.export.build import build
from transformers import AutoTokenizer

LONGEST = 24
SHORT, MIDDLE, LONG = " ".join(WORDS[:3]), " ".join(WORDS[3:15]), " ".join(WORDS * 4)


PAIRS = [(SHORT, MIDDLE), (LONG, SHORT), (SHORT, LONG), (LONG, LONG), (MIDDLE, MIDDLE), (SHORT, SHORT)]


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    """A checkpoint and its export."""
    folder, task, names = tmp_path_factory.mktemp("tiny"), "text-classification", ["entailment", "not_entailment"]
    checkpoint = save_classifier(folder / "checkpoint", "bert", names, max_position_embeddings=LONGEST)
    return checkpoint, load_exported(build(str(checkpoint), folder / "tiny", task=task), task=task)


def rows_of(encoded):
    return {
        int(row): (ids.tolist(), segments.tolist())
        for part in encoded.buckets
        for row, ids, segments in zip(part.rows, part.ids, part.segments, strict=True)
    }


@pytest.mark.parametrize("longest", [None, 24, 11, 5])
def test_ids_segments_and_cuts_are_those_of_transformers(longest, classifier):
    checkpoint, exported = classifier
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    encoded = encode_pairs(exported, PAIRS, max_length=longest)
    for row, found in rows_of(encoded).items():
        wanted = tokenizer(*PAIRS[row], truncation="longest_first", max_length=longest or LONGEST)
        assert found == (wanted["input_ids"], wanted["token_type_ids"])
    lengths = [part.ids.shape[1] for part in encoded.buckets]
    assert lengths == sorted(set(lengths))
    assert sorted(np.concatenate([part.rows for part in encoded.buckets]).tolist()) == list(range(len(PAIRS)))
    if longest is not None:
        return
    assert encoded.truncated.tolist() == [False, True, True, True, True, False]  # three special tokens leave 21
    # Some tokenizers cut at the start; tokenizer.json alone does not say so.
    tokenizer = AutoTokenizer.from_pretrained(checkpoint, truncation_side="left")
    assert exported.info["truncation_side"] == "right"
    left = replace(exported, info=exported.info | {"truncation_side": "left"})
    ((ids, _),) = rows_of(encode_pairs(left, [(LONG, SHORT)])).values()
    assert ids == tokenizer(LONG, SHORT, truncation=True, max_length=LONGEST)["input_ids"]


def test_what_a_classifier_does_not_take_is_refused(mini, classifier):
    _, exported = classifier
    for longest in (4, 25):
        with pytest.raises(InputError, match=rf"--max-length {longest}: .* takes 5 to 24 tokens"):
            encode_pairs(exported, PAIRS, max_length=longest)
    with pytest.raises(InputError, match=r"RTE\.txt:7: contains the padding token"):
        encode_pairs(exported, [(SHORT, "a [PAD] dog")], locations=["RTE.txt:7"])
    with pytest.raises(InputError, match="is exported for fill-mask, text-classification is needed"):
        PairClassifier(mini)
