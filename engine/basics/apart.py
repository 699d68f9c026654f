"""Short forms of texts that stay different: names of files, labels of a picture, names of tables."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count

from rich.cells import cell_len, set_cell_size

_STEM = 60  # characters of the beginning of a file's name: in any script, some 180 bytes of 255


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


def stem(text: str) -> str:
    """A text as the beginning of a file's name: letters and digits of any script, and hyphens between them."""
    words = re.findall(r"[^\W_]+", unicodedata.normalize("NFC", text))
    return "-".join(words)[:_STEM].strip("-") or "run"


def stems(texts: Sequence[str]) -> list[str]:
    """Texts as the beginnings of files' names, which are different on every file system."""
    return apart(texts, lambda text: numbered(stem(text)), one_file)


def labels(texts: Sequence[str], most: int) -> list[str]:
    """Different texts as different labels of at most so many columns of a terminal; long ones are cut in the middle.

    Where two would be the same, the second one is cut before the place from which the texts differ.
    """

    def forms(text: str) -> Iterator[str]:
        yield cut(text, most)
        beginnings = {_common(text, other) for other in texts if other != text}
        for same in sorted(beginnings, reverse=True):
            yield cut("…" + text[max(0, same - 3) :], most)
        for number in count(2):
            yield f"{cut(text, max(3, most - 2 - len(str(number))))} {number}"

    return apart(texts, forms)


def _common(one: str, other: str) -> int:
    """How many letters two different texts have in common at their beginnings."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def cut(text: str, most: int) -> str:
    """A text of at most so many columns of a terminal, with `…` in its middle if it is longer."""
    if cell_len(text) <= most:
        return text
    end = (most - 1) // 2
    beginning = set_cell_size(text, most - 1 - end).rstrip()
    return f"{beginning}…{set_cell_size(text[::-1], end).strip()[::-1]}"
