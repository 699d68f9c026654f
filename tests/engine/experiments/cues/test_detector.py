"""Words as the tokens of a model, long sentences, and the cues of a detector whose labels are known."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from negengine.engine.experiments.cues.cue_detector import NO_TOKEN, WordEncoder
from tokenizers import Tokenizer

WORDS = ["Anna", "does", "n't", "like", "to", "smoke", ",", "she", "is", "happy", "."]


def encoder(tokenizer, longest=512):
    return WordEncoder(Tokenizer.from_str(tokenizer.backend.to_str()), longest)


def test_tokens_are_those_of_the_tokenizer_and_the_first_token_of_a_word_begins_it(small_tokenizer):
    """The tokens from one word's first token to the next one's are the tokens of that word."""
    ((window,),) = encoder(small_tokenizer).encode([WORDS])
    assert window.ids.dtype == np.int32
    assert window.ids.tolist() == small_tokenizer.backend.encode(" ".join(WORDS)).ids
    assert (np.diff(window.first) > 0).all()
    bounds = [*window.first.tolist(), len(window.ids) - 1]
    for word, start, stop in zip(WORDS, bounds, bounds[1:], strict=False):
        text = small_tokenizer.backend.decode(window.ids[start:stop].tolist())
        assert text.replace(" ", "").lower() == word.lower()


def test_special_tokens_in_a_text_are_ordinary_text(small_tokenizer):
    """A text that writes [PAD] must not hold the token, which the model would ignore."""
    known = small_tokenizer.backend.get_added_tokens_decoder()
    ((window,),) = encoder(small_tokenizer).encode([[*(token.content for token in known.values()), "is"]])
    assert not set(window.ids[1:-1].tolist()) & (set(known) - {small_tokenizer.unknown_id})


def test_a_long_sentence_is_divided_no_word_is_lost_and_a_long_word_is_shortened(small_tokenizer):
    for longest in (8, 13, 40):
        (windows,) = encoder(small_tokenizer, longest).encode([WORDS * 6])
        assert all(len(window.ids) <= longest for window in windows)
        assert sum(len(window.first) for window in windows) == len(WORDS) * 6
        assert all((window.first != NO_TOKEN).all() for window in windows)
    (windows,) = encoder(small_tokenizer, 8).encode([["a" * 50, "zzyzx" * 10_000]])
    assert sum(len(window.first) for window in windows) == 2
    assert all(len(window.ids) <= 8 for window in windows)


@given(words=st.lists(st.text(st.characters(exclude_categories=["Z", "C"]), min_size=1, max_size=6), max_size=6))
def test_any_words_have_one_position_each(words, small_tokenizers):
    (windows,) = encoder(small_tokenizers["WordPiece cased"], 16).encode([words])
    first = np.concatenate([window.first for window in windows])
    assert len(first) == len(words)
    for window in windows:
        places = window.first[window.first != NO_TOKEN]
        assert (np.diff(places) > 0).all()
        assert ((places > 0) & (places < len(window.ids) - 1)).all()
