"""A tiny model learns a synthetic task to over 90 %, and its export finds what was learned."""

import json
from dataclasses import astuple

import numpy as np
import pytest
import synthetic_cues
import torch
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.cues.cue_words import LABELS, TEST_FILES, Kind
from negengine.engine.library.training_options import CueOptions
from negengine.export.training.cue_scores import read_columns
from negengine.export.training.cues import IGNORED, Corpus, collate_with, examples, score_with
from negengine.export.training.folder import read_training
from transformers import AutoModelForTokenClassification, AutoTokenizer

pytestmark = pytest.mark.long


def found_by_transformers(folder, sentences):
    """The cues that the trained checkpoint finds in each sentence, one sentence at a time, as the columns have them."""
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForTokenClassification.from_pretrained(folder)
    found = []
    for words in sentences:
        read = tokenizer(words, is_split_into_words=True, return_tensors="pt")
        with torch.inference_mode():
            best = model.eval()(**read).logits[0].argmax(-1).tolist()
        first = [read.word_ids().index(place) for place in range(len(words))]
        labels = [model.config.id2label[best[at]] for at in first]
        cues, phrase = [], None
        for place, (word, label) in enumerate(zip(words, labels, strict=True)):
            if label.startswith("MULTI"):
                if label == "MULTI-B" or phrase is None:
                    cues.append(phrase := {})
                phrase[place] = word
            elif label != "O":
                cues.append({place: word if label == "SINGLE" else synthetic_cues.AFFIXES.get(word, word)})
        found.append(cues)
    return found


@pytest.mark.everything
def test_the_export_of_a_tiny_model_finds_over_90_percent_of_a_synthetic_task(once, train):
    """Not a result about language: see `synthetic_cues`. A finished training is evaluated again, not trained again."""
    trained = once("trained-cues", train)
    result = train(trained)
    found = result.evaluated
    assert list(found) == ["all", *Kind]
    assert found["all"].gold > 60
    assert all(counts.gold > 10 and counts.figures()["f1"] > 0.9 for counts in found.values())
    record = read_training(trained).result
    assert (record["score"] > 0.9, {"F1", "precision", "recall"} <= set(record["history"][0])) == (True, True)
    chosen = ["the epoch was chosen by its F1 on dev, so this F1 on dev is on average too high"]
    assert [table.notes for table in result.tables()] == [chosen, []]  # the second one is of the test part
    document = json.loads(json.dumps(result.document()))
    assert document["sentences"] == {"train": 204, "dev": 36, "test": 120}
    assert document["cues"]["all"]["gold"] == found["all"].gold
    gold, words = [], []
    for name in TEST_FILES:
        gold += synthetic_cues.columns(path := trained.parent / "synthetic-cues" / name)
        words += [list(own.words) for own in read_columns(path)]
    assert astuple(found["all"]) == synthetic_cues.counted(gold, found_by_transformers(trained, words))


def test_files_without_cues_or_of_another_task_are_refused_and_cues_that_labels_cannot_express_told(train, tmp_path):
    path = tmp_path / "train.txt"
    for content, message in (
        ("made\t0\t0\tman\tman\tX\t*\t***\n\n" * 3, "no cue in the 2 sentences of the train part"),
        ("Sentence1\tSentence2\tlabel\n", "train.txt:1: 3 columns; a word has 7 columns"),
    ):
        path.write_text(content)
        with pytest.raises(InputError, match=message):
            train(tmp_path / "out", files=[path])
    assert not (tmp_path / "out").exists()
    path.write_text("a\t0\t0\tman\tman\tX\t*\tman\t_\t_\tm\t_\t_\n\na\t1\t0\tnot\tnot\tX\t*\tnot\t_\t_\n\n")
    assert Corpus.read(CueOptions(output=tmp_path, files=[path], dev=[path])).lost() == [f"{path}:1: m-"]


@pytest.mark.parametrize("longest", [6, 16])
def test_the_right_labels_have_the_full_score_and_batches_are_filled_up(longest, tmp_path):
    """Also where sentences are divided: their pieces are put together again. First tokens alone are learned."""
    sentences = read_columns(synthetic_cues.write_corpus(tmp_path / "corpus.txt", 30))
    made = examples(sentences, synthetic_cues.tokenizer(), longest)
    assert (len(made) > len(sentences)) == (longest == 6)
    batch = {name: own.numpy() for name, own in collate_with(0)(made).items()}
    lengths = [len(example.ids) for example in made]
    assert batch["attention_mask"].sum(axis=1).tolist() == lengths
    for example, ids, labels in zip(made, batch["input_ids"], batch["labels"], strict=True):
        inner = len(example.ids) - 1
        assert ids[: inner + 1].tolist() == example.ids.tolist()
        assert ((labels != IGNORED) == [0 < at < inner for at in range(len(labels))]).all()
    right, score = np.eye(len(LABELS))[np.maximum(batch["labels"], 0)], score_with(sentences, made)
    assert score(right, None) == {"F1": 1, "precision": 1, "recall": 1}
    assert score(np.zeros_like(right), None)["F1"] == 0  # no cue is found
