"""Words that are one token at the mask, with tokenizers of every kind."""

import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.requests.vocabulary import Ranked, target_ids, word_ids
from negengine.engine.text.tokenizer import NOT_ONE_TOKEN

WORDS = ["dance", "smoke", "happy", "dancer", "unspeakable", "z", "doesn", "☃", "like to"]
TEXTS = ["She is happy to [MASK].", "[MASK] is happy.", "he (likes [MASK])."]


@pytest.mark.parametrize("text", TEXTS)
def test_a_target_is_the_one_token_that_is_the_word_after_the_same_tokens(text, small_tokenizer):
    """After the mask tokens may differ: with some tokenizers a word starts anew there."""
    (masked,) = small_tokenizer.encode([text.replace("[MASK]", small_tokenizer.mask_token)])
    position = masked.tolist().index(small_tokenizer.mask_id)
    found = target_ids(small_tokenizer, [text] * len(WORDS), WORDS)
    assert NOT_ONE_TOKEN in found.tolist()
    for word, target in zip(WORDS, found.tolist(), strict=True):
        (filled,) = small_tokenizer.encode([text.replace("[MASK]", word)])
        same_before = filled[:position].tolist() == masked[:position].tolist()
        one = same_before and small_tokenizer.token_text(int(filled[position])) == word
        assert target == (filled[position] if one else NOT_ONE_TOKEN)


def test_words_are_letters_that_stand_alone(small_tokenizer, mini_tokenizer):
    ids = word_ids(small_tokenizer, small_tokenizer.vocab_size).tolist()
    texts = [small_tokenizer.token_text(i) for i in ids]
    assert {"dance", "smoke", "happy"} <= set(texts)
    assert all(text.isalpha() for text in texts)
    assert not set(ids) & small_tokenizer.special_ids()
    for i, text in zip(ids, texts, strict=True):
        assert i in small_tokenizer.encode([f"This is the {text} ."])[0]
    # No continued word, and none beyond the model's outputs.
    (pieces,) = mini_tokenizer.encode(["unspeakableness"])
    assert not set(word_ids(mini_tokenizer, 10**6).tolist()) & set(pieces[2:-1].tolist())
    assert max(word_ids(mini_tokenizer, 1000)) < 1000


def test_a_list_of_words_gives_ids_in_ascending_order_once_each(mini_tokenizer, tmp_path):
    (tmp_path / "words.txt").write_text("rome\n\n france \r\nunspeakableness\nrome\n", "utf-8")
    assert Ranked.of(str(tmp_path / "words.txt")).ids(mini_tokenizer, 12_704).tolist() == [680, 2197]
    (tmp_path / "words.txt").write_text("rome\nunspeakableness\n", "utf-8")
    with pytest.raises(InputError, match=r"words\.txt: 1 of 2 words are one token of the model; at least two are"):
        Ranked.of(str(tmp_path / "words.txt")).ids(mini_tokenizer, 12_704)
