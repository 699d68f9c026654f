"""White space and Unicode: ends of texts, joins, masks that swallow a space, what a word is."""

import sys

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from negengine.engine.text.spelling import WHITE_SPACE, is_word, joiner, otherwise, repeats, trimmed, with_mask
from negengine.engine.text.tokenizer import MaskTokenizer
from tokenizers import Tokenizer, models, pre_tokenizers

SPACES = st.text(" \t\n\N{NO-BREAK SPACE}\N{IDEOGRAPHIC SPACE}\N{THIN SPACE}", max_size=4)


@pytest.mark.parametrize(
    ("before", "after", "between"),
    [
        ("彼は", "笑った。", ""),
        ("问题：是吗？回答:", "是。", ""),
        ("他说", "（笑）", ""),
        ("กาแฟ", "ร้อน", ""),
        ("ភាសា", "ខ្មែរ", ""),
        ("コーヒー", "を飲む", ""),
        ("나는", "학생이다.", " "),
        ("Anna says", "你好", " "),
        ("वह", "खुश है", " "),
        ("Answer:", "yes.", " "),
        ("I love you", "❤️", " "),
    ],
)
def test_a_space_joins_two_texts_but_in_scripts_without_spaces(before, after, between):
    assert joiner(before, after) == between


@pytest.mark.parametrize(
    ("word", "text", "truth"),
    [
        ("हो", "वह ही आया है", False),
        ("ही", "वह ही आया है", True),
        ("की", "यह किताब है", False),
        ("苹果", "我不喜欢吃苹果，我喜欢", True),
        ("苹果", "我喜欢米饭", False),
        ("パン", "パンダが好き", False),
        ("กาแฟ", "ฉันไม่ชอบกาแฟ", True),
        ("كتاب", "كتابي هنا", False),
        ("می‌خواهم", "من می‌خواهم", True),
        ("cafe\N{COMBINING ACUTE ACCENT}", "Le CAFÉ est", True),
        ("dan\N{SOFT HYPHEN}cer", "a dancer", True),
        ("New York", "in new york.", True),
        ("art", "she is smart", False),
        ("❤", "I love you", False),
        ("❤", "I ❤️ you", True),
        ("👩", "a 👨‍👩‍👧 here", False),
        ("ışık", "IŞIK yanıyor", True),  # capital letters of Turkish
        ("istanbul", "İSTANBUL büyük", True),
        ("ILIK", "su ılık", True),
        ("ılık", "kan ve ilik", False),
        ("Iris", "the iris", True),
        (".", "Anna is a dancer", False),
        ("!", "Stop!", True),
    ],
)
def test_a_word_repeats_where_a_reader_finds_it(word, text, truth):
    assert repeats(word, [text, ""]) is truth
    assert not repeats(word, ["", ""])


def test_a_column_is_trimmed_as_each_of_its_texts():
    texts = [f"{chr(number)}a b{chr(number)}" for number in range(sys.maxunicode + 1) if not 0xD800 <= number < 0xE000]
    assert pl.Series(texts).str.strip_chars(WHITE_SPACE).to_list() == [trimmed(text) for text in texts]


def test_a_sign_that_nobody_sees_is_told_but_no_joiner_and_no_emoji():
    unseen = ["a\u200bb", "a\u00adb", "\u200fab", "\ufeffab"]
    seen = ["\u0645\u06cc\u200c\u0631\u0648\u0645", "\U0001f468\u200d\U0001f469", "\u2764\ufe0f", "ab"]
    is_told = otherwise("text", "[MASK]", ())["invisible signs are read as they stand"]
    found = pl.DataFrame({"text": [*unseen, *seen]}).select(is_told).to_series()
    assert found.to_list() == [True] * 4 + [False] * 4


def test_words_of_letters_have_marks():
    assert all(map(is_word, ("नहीं", "café", "می‌خواهم", "ไม่", "dancer")))
    assert not any(map(is_word, ("", "a b", "1st", "❤", "##ing", "\N{DEVANAGARI VOWEL SIGN AA}")))


@given(ends=st.tuples(SPACES, SPACES), before=SPACES.filter(bool), words=st.sampled_from(["smoke", "dancer", "john"]))
def test_spellings_with_the_same_masked_ids_have_the_same_tokens(small_tokenizers, ends, before, words):
    for tokenizer in small_tokenizers.values():
        plain, odd = ("she likes to ", "."), (f"{ends[0]}she likes to{before}", f".{ends[1]}")
        texts = [tokenizer.mask_token.join(context) for context in (plain, odd)]
        one, other = tokenizer.encode_any(texts)
        assert one.tolist() == other.tolist()
        tokens, same = tokenizer.word_sequences([plain, odd], [words] * 2)
        assert tokens == same
        assert isinstance(tokens, tuple)
        assert with_mask(with_mask(texts[1], "[MASK]"), "[MASK]") == with_mask(texts[1], "[MASK]")


def test_a_mask_takes_the_space_that_words_take(small_tokenizers):
    """A mask that is trained beside a vocabulary with `Ġsmoke` stood for that token, space and all."""
    trained = small_tokenizers["byte-level BPE"]
    plain = Tokenizer.from_str(trained.backend.to_str().replace('"lstrip":true', '"lstrip":false'))
    assert "Ġ" in plain.encode("likes to <mask>.").tokens
    mask = MaskTokenizer(plain, "<mask>")
    texts = ["she likes to <mask>.", "she likes to<mask>.", "<mask> likes"]
    for own, other in zip(mask.encode(texts), trained.encode(texts), strict=True):
        assert own.tolist() == other.tolist()
    contexts, words = [("she likes to ", "."), ("", " likes")], ["smoke", "Anna"]
    assert mask.word_sequences(contexts, words) == trained.word_sequences(contexts, words)
    assert not small_tokenizers["WordPiece cased"].backend.get_added_tokens_decoder()[4].lstrip


def test_a_mask_takes_the_space_also_where_the_letter_beside_it_has_one_of_its_own():
    pieces = [("<unk>", 0.0), *((piece, -2.0) for piece in "▁ a k ▁d ▁smo is".split())]  # noqa: SIM905
    own = Tokenizer(models.Unigram(pieces, unk_id=0, byte_fallback=False))
    own.pre_tokenizer = pre_tokenizers.Metaspace()
    own.add_special_tokens(["<mask>"])
    one, other = MaskTokenizer(own, "<mask>").encode(["a <mask> is", "a<mask> is"])
    assert one.tolist() == other.tolist()
    signs = Tokenizer(
        models.BPE({sign: i for i, sign in enumerate("ais k")}, [])
    )  # no token holds a space and a letter
    signs.add_special_tokens(["<mask>"])
    assert len(MaskTokenizer(signs, "<mask>").encode(["a <mask>"])[0]) == 3


def test_a_normaliser_may_drop_or_compose_the_end_of_a_word(small_tokenizers):
    uncased, nfkc = (small_tokenizers[kind] for kind in ("WordPiece uncased", "Unigram"))
    accent = "\N{COMBINING ACUTE ACCENT}"
    plain, composed, apart = uncased.word_sequences([("she is a ", ".")] * 3, ["cafe", "café", f"cafe{accent}"])
    assert plain == composed == apart
    one, other = nfkc.word_sequences([("she is a ", " .")] * 2, ["ﬁner", "finer"])
    assert one == other


def test_a_special_token_of_other_models_is_told_and_one_of_the_model_is_not():
    [is_told] = (own for what, own in otherwise("text", "[MASK]", {"<s>"}).items() if "other models" in what)
    found = pl.DataFrame({"text": ["a <mask> b", "<s>a", "[MASK] a", "[CLS]a", "a < b", None]}).select(is_told)
    assert found.to_series().to_list() == [True, False, False, True, False, None]
