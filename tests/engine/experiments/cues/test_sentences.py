"""Where sentences end, and where words end."""

import pytest
from negengine.engine.experiments.cues.cue_texts import split_sentences, split_words


@pytest.mark.parametrize(
    ("line", "sentences"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("Mr. Smith met Dr. No. He left.", ["Mr. Smith met Dr. No. He left."]),  # "No." is an abbreviation here
        ('He said "No." Then he left.', ['He said "No."', "Then he left."]),
        ("It cost 3.5 dollars, e.g. Tuesday.", ["It cost 3.5 dollars, e.g. Tuesday."]),
        ("J. R. Ewing came. 12 men left.", ["J. R. Ewing came.", "12 men left."]),
        ("no full stop", ["no full stop"]),
        ("   \n", []),
    ],
)
def test_where_sentences_end(line, sentences):
    assert split_sentences(line) == sentences


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("I don't know.", "I do n't know ."),
        ("I don’t; can't you?", "I do n't ; ca n't you ?"),
        ("DON'T", "DO N'T"),
        ("He cannot, she can not.", "He can not , she can not ."),
        ("a canny cannoneer", "a canny cannoneer"),
        ("Mr. Holmes's pipe isn't lit", "Mr. Holmes 's pipe is n't lit"),
        ("We're well-known -- to 1,000 men...", "We 're well-known -- to 1,000 men ..."),
        ('"No," said he', '" No , " said he'),
        ("", ""),
    ],
)
def test_where_words_end(sentence, words):
    assert split_words(sentence) == words.split()
