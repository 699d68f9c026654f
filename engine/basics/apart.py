"""Short forms of texts that stay different: names of files, labels of a picture, names of tables."""

import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, count, dropwhile

import regex as re  # its \X is what people call a letter, and its \w holds the marks on letters
from rich.cells import cell_len

_STEM = 180  # bytes of the beginning of a file's name, of 255: room for the names of two models


def apart(texts: Iterable[str], forms: Callable[[str], Iterator[str]], same: Callable[[str], str] = str) -> list[str]:
    """For each text, the first of its short forms that no text before it has; `same` gives equal keys to equal forms.

    `forms` must not end before one of them is free.
    """
    taken: set[str] = set()
    found = []
    for text in texts:
        own = next(form for form in forms(text) if same(form) not in taken)
        taken.add(same(own))
        found.append(own)
    return found


def numbered(text: str) -> Iterator[str]:
    """`text`, `text-2`, `text-3` …."""
    yield text
    yield from (f"{text}-{number}" for number in count(2))


def one_file(name: str) -> str:
    """The same text for names that are one file where a file system knows no case, or one form of an accent."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def as_seen(text: str) -> str:
    """The same text for names that a reader cannot tell apart: forms of an accent, kinds of spaces."""
    seen: str = re.sub(r"\s", " ", unicodedata.normalize("NFC", text))
    return seen


def stem(text: str) -> str:
    """A text as the beginning of a file's name: letters and digits of any script, and hyphens between them."""
    words = re.findall(r"[^\W_]+", unicodedata.normalize("NFC", text))
    return "".join(_fitting(re.findall(r"\X", "-".join(words)), _STEM, _bytes)).strip("-") or "run"


def _bytes(text: str) -> int:
    return len(text.encode())


def stems(texts: Sequence[str]) -> list[str]:
    """Texts as the beginnings of files' names, which are different on every file system."""
    return apart(texts, lambda text: numbered(stem(text)), one_file)


def labels(texts: Sequence[str], most: int) -> list[str]:
    """Different texts as different labels of at most so many columns of a terminal; long ones are cut in the middle.

    Texts that would look the same are all cut before the place from which they differ.
    """
    alike = defaultdict(list)
    for text in texts:
        alike[cut(text, most)].append(text)

    def forms(text: str) -> Iterator[str]:
        same = alike[cut(text, most)]
        if len(same) == 1 or cell_len(text) <= most:
            yield cut(text, most)
        others = [other for other in (same if len(same) > 1 else texts) if other != text and cell_len(text) > most]
        beginnings = {_common(text, other) for other in others}
        for end in sorted(beginnings, reverse=True):
            yield cut("…" + text[max(0, end - 3) :], most)
        for number in count(2):
            yield f"{cut(text, max(3, most - 2 - len(str(number))))} {number}"

    return apart(texts, forms, as_seen)


def _common(one: str, other: str) -> int:
    """How many letters two different texts have in common at their beginnings."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def cut(text: str, most: int) -> str:
    """A text of at most so many columns of a terminal, with `…` in its middle if it is longer."""
    if cell_len(text) <= most:
        return text
    letters, end = re.findall(r"\X", text), (most - 1) // 2
    beginning = "".join(_fitting(letters, most - 1 - end, cell_len)).rstrip()
    ending = dropwhile(str.isspace, _fitting(letters[::-1], end, cell_len)[::-1])
    return f"{beginning}…{''.join(ending).rstrip()}"


def wrapped(text: str, most: int) -> str:
    """A text in lines of at most so many columns of a terminal, which end at a space, hyphen or underscore if any."""
    if cell_len(text) <= most:
        return text
    first = "".join(_fitting(re.findall(r"\X", text), most, cell_len))
    places = [at for at in range(1, len(first) + 1) if text[at - 1] in "-_ " or at == len(first)]
    whole = [at for at in places if text[:at].count("\u2068") == text[:at].count("\u2069")]  # isolates stay in one line
    line = text[: max(whole[:-1] or whole, default=len(text))]
    return f"{line.rstrip()}\n{wrapped(text[len(line) :].lstrip(), most)}"


def _fitting(letters: Sequence[str], most: int, size: Callable[[str], int]) -> Sequence[str]:
    """As many of the first letters as have this size together; each has its marks."""
    sizes = accumulate(map(size, letters))
    return letters[: sum(own <= most for own in sizes)]
