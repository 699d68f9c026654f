"""Which tokens begin a word: with every kind of vocabulary."""

import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.text.tokenizer import MaskTokenizer
from negengine.engine.text.word_marks import Mark, WordClass, WordMarks
from tokenizers import Tokenizer, models

BEGINS, CONTINUES, OTHER, SPECIAL = WordClass.BEGINS, WordClass.CONTINUES, WordClass.OTHER, WordClass.SPECIAL

CLASSES = {
    "WordPiece cased": {"smoke": BEGINS, "##er": CONTINUES, ".": BEGINS, "[MASK]": SPECIAL, "[UNK]": SPECIAL},
    "byte-level BPE": {"Ġsmoke": BEGINS, "a": CONTINUES, "7": CONTINUES, "Ã": CONTINUES, ".": OTHER, "<s>": SPECIAL},
    "Unigram": {"▁smoke": BEGINS, "er": CONTINUES, ".": OTHER, "▁": BEGINS, "</s>": SPECIAL},
}


@pytest.mark.parametrize("kind", CLASSES)
def test_each_token_has_its_class(kind, small_tokenizers):
    tokenizer = small_tokenizers[kind]
    marks = WordMarks.of(tokenizer, tokenizer.vocab_size + 5)
    assert (marks.classes[-5:] == WordClass.UNUSED).all()  # outputs without a token
    assert not marks.breaks[-5:].any()
    found = {token: WordClass(marks.classes[tokenizer.backend.token_to_id(token)]) for token in CLASSES[kind]}
    assert found == CLASSES[kind]
    assert marks.mark is (Mark.CONTINUATION if kind.startswith("WordPiece") else Mark.BEGINNING)


def test_ends_of_words_and_single_bytes_of_sentencepiece():
    ends = Tokenizer(models.BPE({"a": 0, "b": 1, "a</w>": 2, "[MASK]": 3}, [], end_of_word_suffix="</w>"))
    bytes_too = [("<unk>", 0.0), ("▁a", -1.0), ("<0xC3>", -2.0), ("[MASK]", -9.0)]
    pieces = Tokenizer(models.Unigram(bytes_too, unk_id=0, byte_fallback=False))
    for made, mark, classes in [
        (ends, Mark.END, [BEGINS, BEGINS, OTHER, SPECIAL]),
        (pieces, Mark.BEGINNING, [SPECIAL, BEGINS, CONTINUES, SPECIAL]),
    ]:
        made.add_special_tokens(["[MASK]"])
        marks = WordMarks.of(MaskTokenizer(made, "[MASK]"), 4)
        assert (marks.mark, marks.classes.tolist()) == (mark, classes)


def test_a_vocabulary_without_marks_is_refused():
    words = Tokenizer(models.WordLevel({"a": 0, "b": 1, "[MASK]": 2, "[UNK]": 3}, unk_token="[UNK]"))
    with pytest.raises(InputError, match="does not mark where words begin or end"):
        WordMarks.of(MaskTokenizer(words, "[MASK]"), 4)
