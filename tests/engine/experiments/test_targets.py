"""Words that are one token at the mask, with tokenizers of every kind."""

import pytest
from negengine.engine.experiments.vocabulary import listed_ids, target_ids, word_ids
from negengine.engine.text.tokenizer import NOT_ONE_TOKEN

WORDS = ["dance", "smoke", "happy", "dancer", "unspeakable", "z", "doesn", "☃", "like to"]
TEXTS = ["She is happy to [MASK].", "[MASK] is happy.", "he (likes [MASK])."]


@pytest.mark.parametrize("text", TEXTS)
def test_a_target_is_the_one_token_that_is_the_word_after_the_same_tokens(text, small_tokenizer):
    """After the mask tokens may differ: with some tokenizers a word starts anew there."""
    (masked,) = small_tokenizer.encode([text.replace("[MASK]", small_tokenizer.mask_token)])
    position = masked.tolist().index(small_tokenizer.mask_id)
    found = target_ids(small_tokenizer, [text] * len(WORDS), WORDS)
    for word, target in zip(WORDS, found.tolist(), strict=True):
        (filled,) = small_tokenizer.encode([text.replace("[MASK]", word)])
        same_before = filled[:position].tolist() == masked[:position].tolist()
        one = same_before and small_tokenizer.token_text(int(filled[position])) == word
        assert target == (filled[position] if one else NOT_ONE_TOKEN)


def test_some_words_are_targets_and_some_are_not(small_tokenizer):
    found = target_ids(small_tokenizer, [TEXTS[0]] * 2, ["dance", "unspeakable"])
    assert (found == NOT_ONE_TOKEN).tolist() == [False, True]


@pytest.mark.parametrize("name", ["bert-base-cased", "roberta-base"])
def test_answers_of_negated_lama_are_entries_of_published_vocabularies(name, published_tokenizer):
    tokenizer = published_tokenizer(name)
    texts = ["Paris is the capital of [MASK] .", "Steve Lindsey (born [MASK]).", "Birds can [MASK]."]
    found = target_ids(tokenizer, texts, ["France", "1956", "fly"])
    assert [tokenizer.token_text(i) for i in found.tolist()] == ["France", "1956", "fly"]


def test_a_list_gives_ids_in_ascending_order_once_each(mini_tokenizer):
    ids = listed_ids(mini_tokenizer, ["rome", "france", "rome", "unspeakableness"])
    assert [mini_tokenizer.token_text(i) for i in ids.tolist()] == ["france", "rome"]
    assert ids.tolist() == sorted(ids.tolist())


def test_words_are_letters_that_stand_alone(small_tokenizer):
    ids = word_ids(small_tokenizer, small_tokenizer.vocab_size).tolist()
    texts = [small_tokenizer.token_text(i) for i in ids]
    assert {"dance", "smoke", "happy"} <= set(texts)
    assert all(text.isalpha() for text in texts)
    assert not set(ids) & small_tokenizer.special_ids()
    for i, text in zip(ids, texts, strict=True):
        assert i in small_tokenizer.encode([f"This is the {text} ."])[0]


def test_no_word_is_beyond_the_models_outputs(mini_tokenizer):
    assert max(word_ids(mini_tokenizer, 1000)) < 1000
    assert len(word_ids(mini_tokenizer, 10**6)) < mini_tokenizer.vocab_size


def test_continued_words_are_no_words(mini_tokenizer):
    whole = set(word_ids(mini_tokenizer, mini_tokenizer.vocab_size).tolist())
    (ids,) = mini_tokenizer.encode(["unspeakableness"])
    assert not whole & set(ids[2:-1].tolist())
