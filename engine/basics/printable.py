r"""Texts without characters that control a terminal: they are shown as escapes, such as `\x1b`."""

import re
from collections.abc import Sequence

# C0 and C1 control characters and DEL; line and paragraph separators; marks that reverse the reading order; lone
# surrogates, which stand for bytes of a file name that are not UTF-8 and which no encoding can write.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def printable(text: str) -> str:
    r"""One line that is safe to print: control characters are shown as escapes (`\n`, `\x1b`, `\u202e`)."""
    return _UNSAFE.sub(_escape, text)


def printable_lines(text: str) -> str:
    """The same for a text of several lines: line breaks and tabs stay."""
    return _UNSAFE.sub(lambda match: match[0] if match[0] in "\n\t" else _escape(match), text)


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
