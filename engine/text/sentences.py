"""How a language writes a sentence: where one begins, its first letter, and what stands between two of them."""

import re
import unicodedata

Capitals = tuple[tuple[str, str], ...]
"""A language's own first letters: how a word begins, and how it begins a sentence; the longest first."""

_ENDS = ".!?…。．！？｡؟۔।॥։።፧။‼⁇⁈⁉‽⸮"
_MARKS = "\"'¿¡‐‑‒–—―-*_"  # beside quotes, brackets and spaces: they stand before a sentence, or behind its end
_ABBREVIATIONS = re.compile(
    r"(?i)abb|approx|bzw|ca|capt|cf|dept|dipl|dott|dra?|dña|eds|eg|etc|evtl|excl|figs|ggf|hr|ibid|ie|incl|ing|jr|ltd?|mlle|"
    r"mme|mrs?|ms|nr|núm|orig|pp|prof|pág|resp|sgt|sig|sra?|srta|sta?|tel|univ|usw|vgl|viz|vs|zb|zzgl"
)
_LAST_WORD = re.compile(r"([\w.]*\w)\.\Z")


def title(word: str, capitals: Capitals = ()) -> str:
    """A word as it begins a sentence: its first letter in Unicode's title case, or as the language's own rule says.

    Marks before the letter stay. A beginning in `capitals` that ends in a space is a word that stays small, as the
    Dutch "'s ": the next word has the capital.
    """
    for beginning, written in capitals:
        if word.startswith(beginning):
            rest = word[len(beginning) :]
            return written + (title(rest, capitals) if beginning.endswith(" ") else rest)
    first, rest = word[:1], word[1:]
    if first and (is_mark(first) or unicodedata.category(first) == "Lm"):  # a letter such as the ʻ of Hawaiian
        return first + title(rest, capitals)
    if rest[:1].isupper() and first.islower():  # iPhone, nGael
        return word
    return first.title() + rest


def is_mark(character: str) -> bool:
    """Whether a character may stand between the beginning of a sentence and its first word."""
    return character.isspace() or character in _MARKS or unicodedata.category(character) in {"Ps", "Pe", "Pi", "Pf"}


def begins(before: str) -> bool:
    """Whether a new sentence begins behind a text."""
    last = len(before)
    while last and is_mark(before[last - 1]):
        last -= 1
    text, marks = before[:last], before[last:]
    if not text:
        return True
    if text[-1] in ";;" and re.search(r"[\u0370-\u03ff\u1f00-\u1fff]", text):  # the question mark of Greek
        return True
    if text[-1] in ":：" and re.search(r"[\"“„«»‹「『]", marks):
        return True
    if text[-1] not in _ENDS or text.endswith(("…", "...")):
        return False
    if text[-1] == "." and (word := _LAST_WORD.search(text)):
        letters = word[1].replace(".", "")
        is_initial = len(letters) == 1 and letters.isalpha()
        return not (is_initial or "." in word[1].strip(".") or _ABBREVIATIONS.fullmatch(letters))
    return True


def between(context: str, target: str) -> str:
    """What stands between two sentences by the script of the first: nothing in Chinese and Japanese, else a space."""
    literal = re.sub(r"\{\w+\}", "", context).rstrip("\"'”’»)]") or re.sub(r"\{\w+\}", "", target)[:1]
    if not literal or unicodedata.name(literal[-1], "").startswith("HANGUL"):
        return " "
    return "" if unicodedata.east_asian_width(literal[-1]) in "WF" else " "
