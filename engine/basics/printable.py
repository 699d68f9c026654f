r"""Texts without characters that control a terminal: they are shown as escapes, such as `\x1b`."""

import re
from collections.abc import Callable, Sequence

# C0 and C1 control characters and DEL; line and paragraph separators; marks that reverse the reading order; lone
# surrogates, which stand for bytes of a file name that are not UTF-8 and which no encoding can write.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_FIRST, _END = "\u2068", "\u2069"  # between them stands a text with a direction of its own, which changes no other text
_ISOLATED = re.compile(f"{_FIRST}([^\u2066-\u2069\u202a-\u202e]*){_END}")
_LETTER = "[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]"  # from right to left
_RUN = re.compile(f"{_LETTER}+(?: +{_LETTER}+)*")
_IN_SENTENCE = re.compile(f"`[^`]*`|{_RUN.pattern}")
_DIRECTED = re.compile(r"[^\W\d_]")  # a letter: digits and signs have the direction of what is around them
_CELL = re.compile("[^│┃]+")
_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def printable(text: str) -> str:
    r"""One line that is safe to print: control characters are shown as escapes (`\n`, `\x1b`, `\u202e`)."""
    return _safe(text, _escape)


def printable_lines(text: str) -> str:
    """The same for a text of several lines: line breaks and tabs stay."""
    return _safe(text, lambda match: match[0] if match[0] in "\n\t" else _escape(match))


def is_right_to_left(text: str) -> bool:
    """Whether any letter of a text is read from right to left, and the text is not isolated yet."""
    return bool(_RUN.search(text)) and _FIRST not in text


def isolated(text: str) -> str:
    """A name that stands in another text: letters from right to left do not change the order of what is around it."""
    return f"{_FIRST}{text}{_END}" if is_right_to_left(text) else text


def isolated_runs(text: str) -> str:
    """A sentence of our own, from left to right, in which the names that it holds do not change the order.

    A command in it, such as `negengine show runs/a`, stays as it is: it can be copied.
    """
    if not is_right_to_left(text):
        return text
    return _IN_SENTENCE.sub(lambda own: own[0] if own[0][0] == "`" else f"{_FIRST}{own[0]}{_END}", text)


def as_label(text: str) -> str:
    """A name in a picture, which is read in the direction of its first letter; nothing is added that it does not need.

    What a picture shows can be copied, with the marks that isolate a part of it.
    """
    first = _DIRECTED.search(text)
    if first is None or not _RUN.match(first[0]):
        return isolated_runs(text)
    return text if _RUN.fullmatch(text) else isolated(text)


def isolated_lines(text: str) -> str:
    """What a terminal shows: each cell of a table has a direction of its own, and each name in a sentence."""
    if not _RUN.search(text):
        return text
    return "\n".join(map(_isolated_line, text.split("\n")))


def _isolated_line(line: str) -> str:
    return _CELL.sub(_isolated_cell, line) if "│" in line or "┃" in line else isolated_runs(line)


def _isolated_cell(cell: re.Match[str]) -> str:
    inner = cell[0].strip(" ")
    return cell[0].replace(inner, isolated(inner), 1) if inner else cell[0]


def _safe(text: str, escape: Callable[[re.Match[str]], str]) -> str:
    """Pairs of isolates stay: they are the one kind of mark of direction that changes nothing outside."""
    parts = _ISOLATED.split(text)  # outside, inside, outside …
    safe = [_UNSAFE.sub(escape, part) for part in parts]
    return "".join(f"{_FIRST}{part}{_END}" if place % 2 else part for place, part in enumerate(safe))


def json_safe(document: str) -> str:
    r"""A JSON document without characters that control a terminal; a reader of JSON gets the same strings."""
    return _UNSAFE.sub(lambda match: "\n" if match[0] == "\n" else f"\\u{ord(match[0]):04x}", document)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return _SHORT.get(match[0]) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


def some(words: Sequence[str], most: int = 5) -> str:
    """The first words, and how many more there are: `a, b and 3 more`."""
    more = f" and {len(words) - most:,} more" if len(words) > most else ""
    return f"{', '.join(words[:most])}{more}"


def counted(n: float, one: str, several: str = "") -> str:
    """A number and what is counted: `1 row`, `2,000 rows`."""
    return f"{n:,} {one if n == 1 else several or f'{one}s'}"
