"""How a language writes sentences: first letters, what stands between two, and the rules that a lexicon may have.

The rules are those of its `agreement.toml` (`docs/languages.md`).
Elisions change the sentences (French `de` is `d'` before a vowel), and so do capitals (Turkish `i` is `İ`), and
articles in the contexts of `diagnostics`. Letters decide, not sounds: of `before` and `unless`, the longest beginning
that fits. Where letters do not tell how a word is spoken (UN, 18-year-old), the sentence stays as it is written.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from ..basics.errors import InputError
from ..basics.reading import exists
from .toml_file import TomlFile

Capitals = tuple[tuple[str, str], ...]
"""A language's own first letters: how a word begins, and how it begins a sentence; the longest first."""

_ENDS = ".!?…。．！？｡؟۔।॥։።፧။‼⁇⁈⁉‽⸮"
_MARKS = "\"'¿¡‐‑‒–—―-*_"  # beside quotes, brackets and spaces: they stand before a sentence, or behind its end
_ABBREVIATIONS = re.compile(
    r"(?i)abb|approx|bzw|ca|capt|cf|dept|dipl|dott|dra?|dña|eds|eg|etc|evtl|excl|figs|ggf|hr|ibid|ie|incl|ing|jr|ltd?|mlle|"
    r"mme|mrs?|ms|nr|núm|orig|pp|prof|pág|resp|sgt|sig|sra?|srta|sta?|tel|univ|usw|vgl|viz|vs|zb|zzgl"
)
_LAST_WORD = re.compile(r"([\w.]*\w)\.\Z")
_FIRST_LETTERS = re.compile(r"[^\W\d_]*")


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


class Beginnings(msgspec.Struct, frozen=True, array_like=True):
    """A set of words, by how they begin."""

    before: tuple[str, ...]
    unless: tuple[str, ...] = ()

    @classmethod
    def of(cls, rule: "_Elisions | Article") -> "Beginnings":
        return cls(*(tuple(word.lower() for word in words) for words in (rule.before, rule.unless)))

    def __contains__(self, word: str) -> bool:
        return is_told(word) and _longest(word.lower(), self.before) > _longest(word.lower(), self.unless)

    def is_doubtful(self, word: str) -> bool:
        """Whether the rule does not know how a word is spoken: a number, UN, or an accent that is not listed."""
        initial = word[:1].lower()
        plain = unicodedata.normalize("NFD", initial)[:1]
        initials = {beginning[0] for beginning in (*self.before, *self.unless)}
        return not is_told(word) or (initial not in initials and plain != initial and plain in initials)


def is_told(word: str) -> bool:
    """Whether letters tell how a word is spoken: not of digits, initials (UN, iOS), one letter (X; but x-ray)."""
    letters = _FIRST_LETTERS.match(word)[0]  # type: ignore[index]  # it matches the empty text
    if len(letters) == 1:
        return word[1:2] in {"-", "‐", ""} and (word[1:2] != "" or letters.islower())
    return bool(letters) and not any(letter.isupper() for letter in letters[1:])


class Elision(msgspec.Struct, frozen=True, array_like=True):
    """One word with several forms."""

    word: str
    # Another form with its apostrophe (`l'`, `lo`), and the words before which it stands. The first that fits is taken.
    forms: tuple[tuple[str, Beginnings], ...]

    def spell(self, filler: str, *, capital: bool) -> str:
        """Word and filler together: `de fumer`, `d'aimer`."""
        form = next((form for form, following in self.forms if filler in following), self.word)
        return before(form, capital=capital) + filler


def before(form: str, *, capital: bool) -> str:
    """A form as it stands before the next word: with a space, unless it ends in an apostrophe."""
    spaced = form if form.endswith(("'", "’")) else f"{form} "
    return title(spaced) if capital else spaced


def _longest(word: str, beginnings: Sequence[str]) -> int:
    return max((len(beginning) for beginning in beginnings if word.startswith(beginning)), default=0)


_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Texts = Annotated[tuple[_Text, ...], msgspec.Meta(max_length=2000)]


class _Elisions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    words: Annotated[dict[str, _Text], msgspec.Meta(min_length=1)]
    before: Annotated[Texts, msgspec.Meta(min_length=1)]
    unless: Texts = ()


class Article(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The article of a profession."""

    form: str
    gender: str = ""  # as in pronouns.txt; empty for all genders
    before: Texts = ()  # how the next word begins; empty for all words
    unless: Texts = ()
    also: Texts = ()  # how the next word begins where this form is right beside the one that fits: an historian

    def fits(self, gender: str, word: str) -> bool:
        return self.gender in {"", gender} and (not self.before or word in Beginnings.of(self))


def article_of(rules: Sequence[Article], gender: str, noun: str, given: str) -> str:
    """The article that belongs before a noun: the given one where it is right, or where letters do not tell."""
    own = [rule for rule in rules if rule.gender in {"", gender}]
    if any(rule.before and Beginnings.of(rule).is_doubtful(noun) for rule in own):
        return given
    if any(rule.form == given and rule.also and noun.lower().startswith(rule.also) for rule in own):
        return given
    return next((rule.form for rule in own if rule.fits(gender, noun)), given)


@dataclass(frozen=True)
class Agreement:
    """The rules of a language; none where a lexicon does not have the file."""

    elisions: tuple[Elision, ...] = ()
    articles: tuple[Article, ...] = ()
    capitals: Capitals = ()


class _Rules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of the file."""

    elision: tuple[_Elisions, ...] = ()
    article: tuple[Article, ...] = ()
    capitals: dict[_Text, _Text] = {}


def read_agreement(folder: Path, genders: tuple[str, ...]) -> Agreement:
    """The rules of a lexicon, none without the file; InputError for a bad rule, or a gender that is not there."""
    path = folder / "agreement.toml"
    if not exists(path):
        return Agreement()
    file = TomlFile.read(path)
    told = file.whole(_Rules)
    for number, article in enumerate(told.article):
        if article.gender and article.gender not in genders:
            raise InputError(
                f"{file.line('article', number, 'gender')}: pronouns.txt has no gender {article.gender!r}, it has "
                f"{', '.join(genders)}"
            )
    found: dict[str, tuple[tuple[str, Beginnings], ...]] = {}
    for number, rule in enumerate(told.elision):
        for word, form in rule.words.items():
            if not word.isalpha() or word != word.lower() or " " in form or not form.isprintable():
                where = file.line("elision", number, "words")
                raise InputError(f'{where}: {word} = {form!r} must be one word in lower case, and its form: de = "d\'"')
            found[word] = (*found.get(word, ()), (form, Beginnings.of(rule)))
    elisions = tuple(Elision(word, forms) for word, forms in found.items())
    capitals = tuple(sorted(told.capitals.items(), key=lambda own: -len(own[0])))
    return Agreement(elisions, told.article, capitals)
