"""Cues of a detector whose labels are known: every kind, long sentences, and models that are not detectors."""

import pytest
from cue_detectors import LONGEST
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.cues.cue_detector import CueDetector


def found(detector, *sentences):
    words = [sentence.split() for sentence in sentences]
    return [
        [(cue.words, cue.name(own)) for cue in cues]
        for own, cues in zip(words, CueDetector(detector, threads=2).find(words), strict=True)
    ]


def test_cues_of_every_kind(detector):
    assert found(detector, "I do n't know .", "It rained", "Neither she nor you was unhappy , careless", "nobody") == [
        [((2,), "n't")],
        [],
        [((0, 2), "neither nor"), ((5,), "un-"), ((7,), "-less")],
        [((0,), "nobody")],
    ]


def test_a_sentence_longer_than_the_model_takes_has_the_cues_of_all_its_words(detector):
    sentence = "you know " * LONGEST + "never"
    assert found(detector, sentence) == [[((2 * LONGEST,), "never")]]


def test_no_sentences(detector):
    assert found(detector) == []


def test_a_model_with_other_labels_is_refused(other_labels):
    with pytest.raises(InputError, match=r"its labels are O, B-PER, I-PER; a cue detector has O, SINGLE, MULTI-B"):
        CueDetector(other_labels)
