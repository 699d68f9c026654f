"""Sentences as tokens: what is scored, where scores belong, and which windows of long sentences are read."""

import numpy as np
import pytest
from negengine.engine.experiments.likelihood.likelihood_scores import NO_WORD, Encoder

TEXTS = ["Anna likes to smoke.", "She is happy to smoker dance.", "He doesn't like to."]


def tokens(encoder, sentence):
    return [encoder.tokenizer.backend.id_to_token(int(token)) for token in sentence.tokens]


def test_all_tokens_but_the_special_ones_are_scored(small_tokenizer):
    for text, sentence in zip(TEXTS, Encoder(small_tokenizer).encode(TEXTS), strict=True):
        alone = small_tokenizer.backend.encode(text, add_special_tokens=False)
        assert sentence.tokens.tolist() == alone.ids
        assert sentence.ids.tolist() == small_tokenizer.backend.encode(text).ids
        assert sentence.content == slice(1, 1 + len(alone.ids))
        assert (sentence.word == NO_WORD).tolist() == [True, *[False] * len(alone.ids), True]


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


def test_the_pieces_of_a_word_share_its_number(small_tokenizers):
    encoder = Encoder(small_tokenizers["WordPiece cased"])
    [sentence] = encoder.encode(["Anna smoker."])
    assert tokens(encoder, sentence) == ["Anna", "smoke", "##r", "."]
    assert sentence.word[sentence.scored].tolist() == [0, 1, 1, 2]


def test_every_score_has_one_place(small_tokenizer):
    encoder = Encoder(small_tokenizer)
    sentences = encoder.encode(TEXTS)
    slots, expected = [], []
    for group in encoder.groups(sentences, longest=99):
        rows, columns = np.nonzero(group.slot >= 0)
        slots += group.slot[rows, columns].tolist()
        expected += group.ids[rows, columns].tolist()
    in_order = [expected[i] for i in np.argsort(slots)]
    assert sorted(slots) == list(range(len(slots)))
    assert in_order == [int(token) for sentence in sentences for token in sentence.tokens]


@pytest.mark.parametrize("longest", [5, 6, 9])
def test_the_window_of_a_token_holds_those_nearest_to_it(small_tokenizers, longest):
    encoder = Encoder(small_tokenizers["WordPiece cased"])
    [sentence] = encoder.encode(["Anna likes to smoke and she is happy to dance"])
    n, room = len(sentence.scored), longest - 2
    seen = []
    for group in encoder.groups([sentence], longest):
        assert group.ids.shape[1] == longest
        for row in range(len(group.ids)):
            [place] = np.flatnonzero(group.slot[row] >= 0)
            token = int(group.slot[row, place])
            start = min(max(token - room // 2, 0), n - room)
            assert place - 1 == token - start
            assert group.ids[row, 1:-1].tolist() == sentence.tokens[start : start + room].tolist()
            assert group.ids[row, [0, -1]].tolist() == sentence.ids[[0, -1]].tolist()
            seen.append(token)
    assert seen == list(range(n))


@pytest.mark.parametrize("longest", [5, 6, 9])
def test_the_windows_of_a_causal_model_overlap_by_half(small_tokenizers, longest):
    encoder = Encoder(small_tokenizers["WordPiece cased"], is_causal=True)
    [sentence] = encoder.encode(["Anna likes to smoke and she is happy to dance"])
    n, room = len(sentence.scored), longest - 2
    seen = []
    for number, group in enumerate(encoder.groups([sentence], longest)):
        own = group.slot[group.slot >= 0].tolist()
        before = [place - 1 for place in np.flatnonzero(group.slot[0] >= 0)]
        assert number == 0 or min(before) >= room // 2
        assert group.ids.shape[1] <= longest
        seen += own
    assert seen == list(range(n))
