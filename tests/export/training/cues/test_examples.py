"""Sentences as examples: labels at the first tokens of words, batches filled up, scores from logits."""

import numpy as np
import pytest
import synthetic_cues
from negengine.engine.experiments.cues.columns import read_columns
from negengine.engine.experiments.cues.labels import LABELS
from negengine.export.training.cues.examples import IGNORED, collate_with, examples, score_with


@pytest.fixture
def sentences(tmp_path):
    return read_columns(synthetic_cues.write_corpus(tmp_path / "corpus.txt", 30))


def logits_of(made):
    """Logits of a model that knows every label."""
    longest = max(len(example.ids) for example in made)
    logits = np.zeros((len(made), longest, len(LABELS)), np.float32)
    for row, example in enumerate(made):
        for at, label in enumerate(example.labels):
            logits[row, at, label if label != IGNORED else 1] = 1
    return logits


@pytest.mark.parametrize("longest", [6, 16])
def test_the_right_labels_have_the_full_score(longest, sentences):
    """Also where sentences are divided: their pieces are put together again."""
    made = examples(sentences, synthetic_cues.tokenizer(), longest)
    assert (len(made) > len(sentences)) == (longest == 6)
    assert score_with(sentences, made)(logits_of(made), None) == {"F1": 1, "precision": 1, "recall": 1}


def test_no_cue_found_has_no_score(sentences):
    made = examples(sentences, synthetic_cues.tokenizer(), 16)
    assert score_with(sentences, made)(np.zeros_like(logits_of(made)), None)["F1"] == 0


def test_special_tokens_are_not_learned(sentences):
    for example in examples(sentences, synthetic_cues.tokenizer(), 16):
        assert example.labels[0] == example.labels[-1] == IGNORED
        assert (example.labels[1:-1] != IGNORED).all()


def test_batches_are_filled_up_and_masked(sentences):
    made = examples(sentences, synthetic_cues.tokenizer(), 16)[:8]
    batch = collate_with(0)(made)
    for row, example in enumerate(made):
        length = len(example.ids)
        assert batch["input_ids"][row, :length].tolist() == example.ids.tolist()
        assert batch["attention_mask"][row].sum() == length
        assert (batch["labels"][row, length:] == IGNORED).all()
