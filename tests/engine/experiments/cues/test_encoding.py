"""Words as the tokens of a model: the first token of each word, long sentences, and what a text could hold."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from negengine.engine.experiments.cues.cue_detector import NO_TOKEN, WordEncoder
from tokenizers import Tokenizer

WORDS = ["Anna", "does", "n't", "like", "to", "smoke", ",", "she", "is", "happy", "."]


def encoder(tokenizer, longest=512):
    return WordEncoder(Tokenizer.from_str(tokenizer.backend.to_str()), longest)


def test_the_first_token_of_a_word_begins_it(small_tokenizer):
    """The tokens from one word's first token to the next one's are the tokens of that word."""
    made = encoder(small_tokenizer)
    ((window,),) = made.encode([WORDS])
    assert (np.diff(window.first) > 0).all()
    tokenizer = small_tokenizer.backend
    bounds = [*window.first.tolist(), len(window.ids) - 1]
    for word, start, stop in zip(WORDS, bounds, bounds[1:], strict=False):
        text = tokenizer.decode(window.ids[start:stop].tolist())
        assert text.replace(" ", "").lower() == word.lower()


def test_sentences_are_those_of_the_tokenizer(small_tokenizer):
    ((window,),) = encoder(small_tokenizer).encode([WORDS])
    assert window.ids.dtype == np.int32
    assert window.ids.tolist() == small_tokenizer.backend.encode(" ".join(WORDS)).ids


def test_special_tokens_in_a_text_are_ordinary_text(small_tokenizer):
    """A text that writes [PAD] must not hold the token, which the model would ignore."""
    special = [token.content for token in small_tokenizer.backend.get_added_tokens_decoder().values()]
    made = encoder(small_tokenizer)
    ((window,),) = made.encode([[*special, "is"]])
    plain = set(small_tokenizer.backend.encode("x").special_tokens_mask)
    assert plain == {0, 1}
    ids = {small_tokenizer.backend.token_to_id(token) for token in special}
    unknown = small_tokenizer.unknown_id
    assert set(window.ids[1:-1].tolist()) & (ids - {unknown}) == set()


@pytest.mark.parametrize("longest", [8, 13, 40])
def test_a_long_sentence_is_divided_and_no_word_is_lost(longest, small_tokenizer):
    (windows,) = encoder(small_tokenizer, longest).encode([WORDS * 6])
    assert all(len(window.ids) <= longest for window in windows)
    assert sum(len(window.first) for window in windows) == len(WORDS) * 6
    assert all((window.first != NO_TOKEN).all() for window in windows)


def test_a_word_of_more_tokens_than_the_model_takes_is_shortened(small_tokenizer):
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
