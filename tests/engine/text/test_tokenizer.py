"""A model's own tokenizer: how it is loaded, how tokens are shown, and what a causal model reads."""

import numpy as np
import pytest
from causal_checkpoints import byte_level, llama_like
from negengine.engine.basics.errors import InputError
from negengine.engine.text.composition import composer
from negengine.engine.text.pattern import Pattern
from negengine.engine.text.pattern_files import load_patterns
from negengine.engine.text.tokenizer import NOT_ONE_TOKEN, CausalTokenizer, MaskTokenizer
from tokenizers import Tokenizer, processors

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


KINDS = {"GPT-2": byte_level, "OPT": lambda: byte_level("</s>"), "Llama": llama_like}
PATTERN = Pattern("CpTp", "{NAME} is {PROF} who likes to {ACT}.", "{PRON} is happy to {MASK}.")
FILLERS = {
    "NAME": ["Jessica", "John", "Zoë"],
    "PROF": ["a dancer", "an architect"],
    "ACT": ["smoke", "dance", "quarrel"],
    "PRON": ["she", "he"],
}


@pytest.fixture(params=KINDS)
def tokenizer(request):
    return CausalTokenizer(KINDS[request.param]().backend_tokenizer, 430)


def texts_of(tokenizer, ids):
    return [tokenizer.token_text(token) for token in ids.tolist()]


def test_a_sentence_ends_in_a_mask_outside_the_vocabulary(tokenizer):
    [ids] = tokenizer.encode_masked(["She is happy to [MASK]."])
    assert ids[-1] == tokenizer.mask_id == 430
    assert texts_of(tokenizer, ids)[-5:] == ["She", "is", "happy", "to", "[MASK]"]


def test_the_space_before_the_mask_belongs_to_the_next_token(tokenizer):
    first, second = tokenizer.encode(["She is happy to [MASK].", "She is happy to[MASK]"])
    assert first.tolist() == second.tolist()


def test_a_text_without_a_mask_is_encoded_whole(tokenizer):
    [ids] = tokenizer.encode(["She is happy to smoke."])
    assert ids.tolist()[: len(tokenizer.prefix)] == tokenizer.prefix.tolist()
    assert texts_of(tokenizer, ids)[-2:] == ["smoke", "."]


def test_what_stands_before_every_text_is_kept():
    assert CausalTokenizer(byte_level().backend_tokenizer, 9).prefix.tolist() == []
    assert CausalTokenizer(byte_level("</s>").backend_tokenizer, 9).prefix.tolist() == [2]
    assert CausalTokenizer(llama_like().backend_tokenizer, 9).prefix.tolist() == [1]


def test_what_stands_behind_every_text_is_dropped():
    backend = llama_like().backend_tokenizer
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    [ids] = CausalTokenizer(backend, 430).encode(["She is happy to [MASK]."])
    assert 2 not in ids


def test_words_behind_the_mask_are_refused(tokenizer):
    assert tokenizer.reads("Paris is [MASK].")
    assert not tokenizer.reads("[MASK] is the capital of France.")
    with pytest.raises(InputError, match=r"words follow the mask in 'Paris is \[MASK\] 3'"):
        tokenizer.encode(["Paris is [MASK] 3"])


def test_a_mask_with_nothing_before_it_is_refused():
    with pytest.raises(InputError, match=r"nothing stands before the mask in '\[MASK\]'.*--bos"):
        CausalTokenizer(byte_level().backend_tokenizer, 430).encode(["[MASK]"])
    [ids] = CausalTokenizer(llama_like().backend_tokenizer, 430).encode(["[MASK]"])
    assert ids.tolist() == [1, 430]


def test_two_masks_are_refused(tokenizer):
    with pytest.raises(InputError, match="2 mask tokens"):
        tokenizer.encode_masked(["She is [MASK] [MASK]."])


def test_the_token_of_a_word_has_the_leading_space(tokenizer):
    contexts = [("She is happy to ", ".")] * 3
    smoke, unknown, two = tokenizer.word_tokens(contexts, ["smoke", "qwxz", "smoke dance"]).tolist()
    [ids] = tokenizer.encode(["She is happy to smoke"])
    assert smoke == ids[-1]
    assert (unknown, two) == (NOT_ONE_TOKEN, NOT_ONE_TOKEN)


def test_without_a_space_before_the_mask_the_word_is_another_token(tokenizer):
    assert tokenizer.word_tokens([("She is happy to", ".")], ["smoke"]).tolist() == [NOT_ONE_TOKEN]


def test_sentences_are_composed_as_the_tokenizer_encodes_them(tokenizer):
    made = composer(tokenizer, PATTERN, FILLERS, seed=0, random_combinations=50)
    assert made.slotwise
    rows = {slot: np.array([0, 1, len(words) - 1]) for slot, words in FILLERS.items()}
    texts = [
        PATTERN.text({slot: FILLERS[slot][rows[slot][row]] for slot in FILLERS}, tokenizer.mask_token)
        for row in range(3)
    ]
    wanted = tokenizer.encode_masked(texts)
    for bucket in made.compose(rows):
        for row, ids, mask in zip(bucket.rows, bucket.ids, bucket.mask_position, strict=True):
            assert ids.tolist() == wanted[row].tolist()
            assert mask == len(ids) - 1
            assert len(ids) <= made.longest()
