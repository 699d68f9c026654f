"""The mono-token verbs, with tokenizers of every kind."""

import pytest
from negengine.engine.basics.choices import VerbConvention
from negengine.engine.basics.errors import InputError
from negengine.engine.text.lexicon import load_lexicon
from negengine.engine.text.pattern_files import load_patterns
from negengine.engine.text.verbs import mask_fillers

PATTERNS, LEXICON = load_patterns(), load_lexicon()
BASE = {"NAME": "Jessica", "PROF": "a dancer", "ACT": "smoke", "PRON": "she"}

COUNTS = [
    ("bert-base-cased", VerbConvention.IN_CONTEXT, 632),
    ("bert-base-cased", VerbConvention.BARE, 632),
    ("bert-base-uncased", VerbConvention.IN_CONTEXT, 763),
    ("roberta-base", VerbConvention.IN_CONTEXT, 792),
    ("roberta-base", VerbConvention.BARE, 297),
]


@pytest.mark.parametrize(("name", "convention", "count"), COUNTS)
def test_mono_token_verbs_of_published_models(published_tokenizer, name, convention, count):
    # Counted in another way, from the vocabularies alone: see the README of the lexicon.
    index, _ = mask_fillers(published_tokenizer(name), PATTERNS.selecting, LEXICON.verbs, BASE, convention)
    assert len(index) == count


def test_the_expected_token_is_the_one_within_the_sentence(published_tokenizer):
    _, token = mask_fillers(published_tokenizer("roberta-base"), PATTERNS.selecting, ["say"], BASE, VerbConvention.BARE)
    assert token.tolist() == [224]  # "Ġsay" in RoBERTa's vocabulary; "say" is 28357


def test_only_verbs_of_one_token_count_and_their_token_is_that_of_the_filled_sentence(small_tokenizer):
    verbs = ["smoke", "disagree", "dance", "oversleep"]
    index, token = mask_fillers(small_tokenizer, PATTERNS.selecting, verbs, BASE, VerbConvention.IN_CONTEXT)
    assert index.tolist() == [0, 2]
    assert [small_tokenizer.token_text(i) for i in token.tolist()] == ["smoke", "dance"]


@pytest.mark.parametrize(
    ("kind", "convention", "verb"),
    [
        ("byte-level BPE", VerbConvention.BARE, "smoke"),  # its entries: "Ġsmoke", "Ġlike" and "like", but not "smoke"
        ("byte-level BPE", VerbConvention.IN_CONTEXT, "é"),  # two bytes, each of which covers the whole character
        ("WordPiece cased", VerbConvention.IN_CONTEXT, "[UNK]"),
        ("WordPiece cased", VerbConvention.IN_CONTEXT, "[SEP]"),
    ],
)
def test_a_word_that_the_model_cannot_predict_is_no_verb(small_tokenizers, kind, convention, verb):
    index, _ = mask_fillers(small_tokenizers[kind], PATTERNS.selecting, [verb, "like"], BASE, convention)
    assert index.tolist() == [1]


def test_a_lexicon_without_mono_token_verbs_is_refused(small_tokenizer):
    with pytest.raises(InputError, match=r"none of 2 verbs is one token \(in-context\) in place of the mask in 'Jess"):
        mask_fillers(small_tokenizer, PATTERNS.selecting, ["disagree", "xyz"], BASE, VerbConvention.IN_CONTEXT)


def test_further_forms_that_are_one_token_are_accepted_beside_the_main_one(small_tokenizers):
    tokenizer = small_tokenizers["WordPiece cased"]
    main, further = ["smoke", "dance", "unheardof", "like"], [("dance", "unheardof"), ("unheardof",), ("smoke",), ()]
    index, token = mask_fillers(tokenizer, PATTERNS.selecting, main, BASE, VerbConvention.IN_CONTEXT, further)
    smoke, dance, like = (tokenizer.backend.token_to_id(word) for word in ("smoke", "dance", "like"))
    assert index.tolist() == [0, 1, 3]  # the main form of the third is several tokens
    assert [set(row) for row in token.tolist()] == [{smoke, dance}, {dance}, {like}]
    assert token[:, 0].tolist() == [smoke, dance, like]
