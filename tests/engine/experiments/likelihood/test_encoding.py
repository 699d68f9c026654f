"""Sentences as tokens: what is scored, and masked copies as in the papers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from negengine.engine.experiments.likelihood.likelihood_scores import NO_WORD, Encoder, Method, queries

TEXTS = ["Anna likes to smoke.", "She is happy to smoker dance.", "He doesn't like to."]


def test_all_tokens_but_the_special_ones_are_scored_once(small_tokenizer):
    encoder = Encoder(small_tokenizer)
    sentences = encoder.encode(TEXTS)
    for text, sentence in zip(TEXTS, sentences, strict=True):
        alone = small_tokenizer.backend.encode(text, add_special_tokens=False)
        assert sentence.tokens.tolist() == alone.ids
        assert sentence.ids.tolist() == small_tokenizer.backend.encode(text).ids
        assert sentence.content == slice(1, 1 + len(alone.ids))
        assert (sentence.word == NO_WORD).tolist() == [True, *[False] * len(alone.ids), True]
    places = {}
    for group in encoder.groups(sentences, longest=99):
        scored = group.slot >= 0
        places |= dict(zip(group.slot[scored].tolist(), group.ids[scored].tolist(), strict=True))
    assert [places[slot] for slot in sorted(places)] == [
        int(token) for sentence in sentences for token in sentence.tokens
    ]
    assert sorted(places) == list(range(len(places)))


def test_a_causal_model_scores_the_first_token_only_behind_another_one(small_tokenizers):
    tokenizer = small_tokenizers["WordPiece cased"]
    [with_begin] = Encoder(tokenizer, is_causal=True).encode(["Anna likes to smoke"])
    assert with_begin.scored.tolist() == [1, 2, 3, 4]  # [CLS] stands before them
    post = tokenizer.backend.post_processor
    tokenizer.backend.post_processor = None
    try:
        [without] = Encoder(tokenizer, is_causal=True).encode(["Anna likes to smoke"])
    finally:
        tokenizer.backend.post_processor = post
    assert without.scored.tolist() == [1, 2, 3]
    [pieces] = Encoder(tokenizer).encode(["Anna smoker."])  # the pieces of a word share its number
    assert [tokenizer.token_text(token) for token in pieces.tokens.tolist()] == ["Anna", "smoke", "##r", "."]
    assert pieces.word[pieces.scored].tolist() == [0, 1, 1, 2]


WORDS = ["Anna", "smoker", "isn't", "happying", "to", "Maria's", "dance.", "like"]


def plain(sentence, method, mask):
    """The copies as the definition has them: masked ids, position, token."""
    for position in sentence.scored.tolist():
        ids = sentence.ids.tolist()
        for later in range(position + 1, len(ids)):
            if method is Method.WITHIN_WORD and sentence.word[later] == sentence.word[position]:
                ids[later] = mask
        token, ids[position] = ids[position], mask
        yield tuple(ids), position, token


@pytest.mark.parametrize("method", list(Method))
@given(
    texts=st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=5), min_size=1, max_size=5),
    at_once=st.integers(1, 9),
)
def test_copies_are_those_of_the_definition(small_tokenizers, method, texts, at_once):
    for tokenizer in small_tokenizers.values():
        encoder = Encoder(tokenizer)
        sentences = encoder.encode([" ".join(words) for words in texts])
        found = {}
        for group in encoder.groups(sentences, longest=999):
            before = group.ids.copy()
            for asked in queries(group, method, tokenizer.mask_id, at_once):
                assert len(asked.ids) <= at_once
                rows = zip(asked.ids, asked.position, asked.expected, asked.slot, strict=True)
                found |= {int(slot): (tuple(ids.tolist()), int(at), int(token)) for ids, at, token, slot in rows}
            assert np.array_equal(group.ids, before)
        wanted = [copy for sentence in sentences for copy in plain(sentence, method, tokenizer.mask_id)]
        assert [found[slot] for slot in range(len(found))] == wanted
