"""A model's own tokenizer: how it is loaded, and how tokens are shown."""

import numpy as np
import pytest
from negengine.engine.errors import InputError
from negengine.engine.text.pattern_files import load_patterns
from negengine.engine.text.tokenizer import MaskTokenizer
from tokenizers import Tokenizer

PATTERNS = load_patterns()


BASE = {"NAME": "Jessica", "PROF": "a dancer", "ACT": "smoke", "PRON": "she"}


def tokenized(tokenizer, texts):
    return [ids.tolist() for ids in tokenizer.encode(texts)]


READABLE = [
    ("WordPiece cased", "##ing", "##ing"),
    ("WordPiece cased", "smoke", "smoke"),
    ("WordPiece cased", "[SEP]", "[SEP]"),
    ("byte-level BPE", "Ġsmoke", "smoke"),
    ("byte-level BPE", "Ġ", "Ġ"),
    ("byte-level BPE", "Ã", "Ã"),
    ("byte-level BPE", "</s>", "</s>"),
    ("Unigram", "▁smoke", "smoke"),
    ("Unigram", "ing", "ing"),
    ("Unigram", "▁", "▁"),
]


@pytest.mark.parametrize(("kind", "token", "text"), READABLE)
def test_a_token_is_shown_as_a_person_reads_it(small_tokenizers, kind, token, text):
    tokenizer = small_tokenizers[kind]
    assert tokenizer.token_text(tokenizer.backend.token_to_id(token)) == text


def ids_of(tokenizer, *tokens):
    return np.array([tokenizer.backend.token_to_id(token) for token in tokens], np.int32)


@pytest.mark.parametrize(
    ("kind", "top1", "expected", "same"),
    [
        ("byte-level BPE", "like", "Ġlike", True),
        ("byte-level BPE", "Ġlike", "Ġlike", False),
        ("byte-level BPE", "like", "Ġsmoke", False),
        ("WordPiece cased", "##er", "s", False),
        ("WordPiece cased", "##s", "s", False),
    ],
)
def test_tokens_that_read_the_same_but_differ(small_tokenizers, kind, top1, expected, same):
    tokenizer = small_tokenizers[kind]
    found = tokenizer.same_text(ids_of(tokenizer, top1), ids_of(tokenizer, expected))
    assert found.tolist() == [same]


def test_same_text_answers_row_by_row(small_tokenizers):
    tokenizer = small_tokenizers["byte-level BPE"]
    top1 = ids_of(tokenizer, "Ġlike", "like", "Ġsmoke", "like")
    expected = ids_of(tokenizer, "Ġlike", "Ġlike", "Ġlike", "Ġlike")
    assert tokenizer.same_text(top1, expected).tolist() == [False, True, False, True]


def test_no_row_has_no_same_text(small_tokenizer):
    none = np.empty(0, np.int32)
    assert small_tokenizer.same_text(none, none).tolist() == []


def test_special_tokens_in_words_are_found(small_tokenizers):
    tokenizer = small_tokenizers["WordPiece cased"]
    words = ["smoke", "[PAD]", "a [SEP] dancer", "漢", "[MASK]"]
    assert tokenizer.special_token_in(words) == [None, "[PAD]", "[SEP]", None, "[MASK]"]


@pytest.mark.parametrize("text", ["smoke", "Jean-Luc O'Hara", "漢字 é", "ﬃ ﷺ", "a  b"])
def test_a_text_has_at_most_so_many_tokens(small_tokenizer, text):
    [ids] = small_tokenizer.encode([text])
    assert len(ids) <= small_tokenizer.most_tokens([text, "x"]) + small_tokenizer.n_special_tokens()


def test_an_id_without_a_token_is_shown_by_its_number(mini_tokenizer):
    assert mini_tokenizer.token_text(20_000) == "#20000"


def test_a_word_that_looks_like_a_mark_is_shown(published_tokenizer):
    tokenizer = published_tokenizer("roberta-base")
    assert tokenizer.token_text(tokenizer.backend.token_to_id("##")) == "##"


def test_the_size_of_the_vocabulary_counts_added_tokens(mini_tokenizer):
    assert mini_tokenizer.vocab_size == 12_704


def test_truncation_and_padding_are_switched_off(small_tokenizers):
    tokenizer = Tokenizer.from_str(small_tokenizers["WordPiece cased"].backend.to_str())
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=99)
    [ids] = MaskTokenizer(tokenizer, "[MASK]").encode(["Anna likes to smoke and to dance."])
    assert 4 < len(ids) < 99


def test_a_saved_tokenizer_is_loaded(small_tokenizer, tmp_path):
    small_tokenizer.backend.save(str(tmp_path / "tokenizer.json"))
    loaded = MaskTokenizer.load(tmp_path, small_tokenizer.mask_token)
    text = PATTERNS.selecting.text(BASE, small_tokenizer.mask_token)
    assert tokenized(loaded, [text]) == tokenized(small_tokenizer, [text])


def test_a_missing_tokenizer_is_named(tmp_path):
    with pytest.raises(InputError, match=r"tokenizer\.json: cannot be read \(No such file or directory\)"):
        MaskTokenizer.load(tmp_path, "[MASK]")


@pytest.mark.parametrize("content", ["", "{", "{}", '{"model": {"type": "WordPiece"}}'])
def test_a_damaged_tokenizer_is_named(tmp_path, content):
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(InputError, match=r"tokenizer\.json: not a tokenizer \(.*\); export the model again$"):
        MaskTokenizer.load(tmp_path, "[MASK]")


def test_an_unknown_mask_token_is_named(small_tokenizers, tmp_path):
    small_tokenizers["Unigram"].backend.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(InputError, match=r"tokenizer\.json: the tokenizer has no token '\[MASK\]'"):
        MaskTokenizer.load(tmp_path, "[MASK]")


def test_the_tokens_of_a_word_are_those_of_the_filled_sentence(small_tokenizer):
    before, after = "She is happy to ", " there."
    for word in ("oversleep", "smoke", "dancer", "doesn", "disagree"):
        [own] = small_tokenizer.word_sequences([(before, after)], [word])
        [filled] = small_tokenizer.encode([before + word + after])
        [masked] = small_tokenizer.encode([before + small_tokenizer.mask_token + after])
        mask = masked.tolist().index(small_tokenizer.mask_id)
        assert filled[mask : mask + len(own)].tolist() == list(own)
        assert filled[:mask].tolist() == masked[:mask].tolist()
        assert small_tokenizer.backend.decode(list(own)).replace(" ##", "").strip().replace(" ", "") == word


def test_a_word_says_why_it_has_no_tokens(small_tokenizers):
    tokenizer = small_tokenizers["WordPiece cased"]
    assert tokenizer.word_sequences([("She is happy to ", ".")], ["é"]) == ["'é' holds the token [UNK]"]
    assert tokenizer.word_sequences([("She is happy to ", "e.")], ["smok"]) == [
        "the tokens of 'smok' hold more than the word"
    ]
    assert tokenizer.word_sequences([("She is happy to danc", ".")], ["e"]) == ["'e' changes the tokens before it"]


def test_a_character_of_several_tokens_is_covered_whole(small_tokenizers):
    tokenizer = small_tokenizers["byte-level BPE"]
    [own] = tokenizer.word_sequences([("She is happy to ", ".")], ["é"])
    assert tokenizer.backend.decode(list(own)) == " é"
    assert len(own) > 1


def test_same_text_knows_several_accepted_tokens(small_tokenizers):
    tokenizer = small_tokenizers["byte-level BPE"]
    top1 = ids_of(tokenizer, "Ġlike", "like", "Ġsmoke", "like")
    accepted = np.stack([ids_of(tokenizer, "Ġlike", "Ġsmoke", "Ġlike", "Ġsmoke"), ids_of(tokenizer, *["Ġlike"] * 4)], 1)
    assert tokenizer.same_text(top1, accepted).tolist() == [False, True, False, True]
    assert tokenizer.same_text(top1[:0], accepted[:0]).tolist() == []
