r"""The one rule for white space and Unicode in what a model reads (`docs/own-stimuli.md#white-space-and-words`).

`regex` knows the properties of Unicode that `re` does not: its `\w` holds the vowel signs and joiners of Hindi and
Persian words, and `\X` is what a reader takes for one sign.
"""

import unicodedata
from collections.abc import Collection

import polars as pl
import regex

# Scripts without spaces between words: a word of them is found sign by sign. A run of Katakana is one word (UAX 29).
_BY_SIGN = r"\p{Script=Han}\p{Script=Hiragana}\p{Line_Break=Complex_Context}"
_UNSPACED = rf"[{_BY_SIGN}\p{{Script=Katakana}}ー\u3001-\u303f\uff01-\uff65]"
_ENDS_UNSPACED = regex.compile(rf"{_UNSPACED}\P{{L}}*\Z")
_BEGINS_UNSPACED = regex.compile(rf"\P{{L}}*?{_UNSPACED}")
_SPACE_AT_END = regex.compile(r"\s+\Z")
_WORD = regex.compile(rf"(?V1)[{_BY_SIGN}]\p{{M}}*|[\w--[{_BY_SIGN}]]+")
_SIGN = regex.compile(r"\X")
_ONE_WORD = regex.compile(r"\p{L}[\p{L}\p{M}\u200c\u200d]*")
# What a reader does not see: soft hyphens, spaces without width, selectors of a variant. A joiner can join an emoji.
_UNSEEN = regex.compile(r"(?V1)[\p{Default_Ignorable_Code_Point}--\u200d]")


SPECIAL = (
    *("<mask>", "<s>", "</s>", "<unk>", "<pad>", "<cls>", "<sep>", "<bos>", "<eos>", "<extra_id_0>"),
    *("[CLS]", "[SEP]", "[PAD]", "[UNK]", "[BOS]", "[EOS]"),
    *("<|endoftext|>", "<|begin_of_text|>", "<|end_of_text|>", "<|im_start|>", "<|im_end|>"),
)
"""Special tokens of widely used tokenizers; any other tokenizer takes them for letters."""
_SPACES = (*range(9, 14), *range(28, 33), 133, 160, 5760, *range(8192, 8203), 8232, 8233, 8239, 8287, 12288)
# Without joiners and selectors of a variant, which change how signs look.
_UNSEEN_SIGNS = "[\\p{Default_Ignorable_Code_Point}&&[^\u200c\u200d\ufe00-\ufe0f\U000e0000-\U000e0fff]]"
WHITE_SPACE = "".join(map(chr, _SPACES))
"""What `trimmed` takes away, for columns: `strip_chars` alone knows four characters less."""


def trimmed(text: str) -> str:
    """A text without white space at its ends."""
    return text.strip()


def otherwise(column: str, mask: str, known: Collection[str]) -> dict[str, pl.Expr]:
    """What of the texts of a column is read otherwise than a person sees it, in words → whether a text has it.

    `known` are those of `SPECIAL` that the tokenizer has.
    """
    text = pl.col(column)
    others = pl.lit([token for token in SPECIAL if token not in known], pl.List(pl.String))
    return {
        "white space at the ends is not read": text != text.str.strip_chars(),
        f"white space before {mask} is read as one space": text.str.contains(rf"(\s\s|[\s&&[^ ]]){regex.escape(mask)}"),
        "invisible signs are read as they stand": text.str.contains(_UNSEEN_SIGNS),
        "letters that are not composed (NFC) are read as they stand": text != text.str.normalize("NFC"),
        "special tokens of other models, such as <mask>, are read as letters": text.str.contains_any(others),
    }


def before_mask(text: str) -> str:
    """What stands before a mask: white space at its end is one space, because some masks swallow all of it."""
    return str(_SPACE_AT_END.sub(" ", text.lstrip()))


def with_mask(text: str, mask: str) -> str:
    """A text with masks as a model reads it: `trimmed`, with one space where white space stands before a mask."""
    *before, last = text.strip().split(mask)
    return mask.join([*(_SPACE_AT_END.sub(" ", part) for part in before), last])


def joiner(before: str, after: str) -> str:
    """What joins two texts: a space; nothing if both are in scripts without spaces where they meet."""
    return "" if _ENDS_UNSPACED.search(before) and _BEGINS_UNSPACED.match(after) else " "


def is_word(text: str) -> bool:
    """Whether a text is one word of letters, with their marks."""
    return _ONE_WORD.fullmatch(text) is not None


def repeats(word: str, parts: list[str]) -> bool:
    """Whether a word stands in one of some parts of a text, in capital or small letters; signs between words are free.

    What has no word in it, such as an emoji, must stand there sign by sign.
    """
    units = _WORD if _WORD.search(_seen(word)) else _SIGN
    # The language is not known: where one of them has a letter of Turkish, its small letters are tried, too.
    is_turkic = any(letter in text for text in (word, *parts) for letter in "ıİ")
    for small in (str, _small_in_turkish) if is_turkic else (str,):
        wanted = _units(small(word), units)
        if wanted.strip() and any(wanted in _units(small(part), units) for part in parts):
            return True
    return False


def _small_in_turkish(text: str) -> str:
    """A text whose letters I and İ are small, as Turkish, Azerbaijani and some others write them: ı and i."""
    return unicodedata.normalize("NFC", text).replace("I", "ı").replace("İ", "i")


def _units(text: str, units: "regex.Pattern[str]") -> str:
    return "".join(f"\n{unit}\n" for unit in units.findall(_seen(text)))


def _seen(text: str) -> str:
    return unicodedata.normalize("NFC", _UNSEEN.sub("", unicodedata.normalize("NFC", text)).casefold())
