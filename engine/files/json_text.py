"""JSON from elsewhere: its depth is bounded, and its strings are text."""

import json
import re
from collections.abc import Iterator
from typing import Any

from ..errors import InputError

DEEPEST = 32
"""Levels of lists and objects. The data sets that are read have three."""

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_NOT_TEXT = re.compile(r"[\x00-\x08\x0e-\x1f\x7f\ud800-\udfff]")


def parse_json(text: str, location: str) -> Any:
    """The value of a JSON text.

    Args:
        text: The text.
        location: File and line, for the message.

    Raises:
        InputError: It is not JSON, it is nested too deeply, or a string has a control character or half a character.
    """
    if text.count("[") + text.count("{") > DEEPEST and _depth(text) > DEEPEST:
        raise InputError(f"{location}: lists or objects in more than {DEEPEST} levels; give plain values")
    try:
        value = json.loads(text)
    except ValueError as error:
        raise InputError(f"{location}: not JSON ({error})") from error
    if "\\u" in text:  # only an escape can stand for such a character: the lines themselves are checked as text
        for string in _strings(value):
            if odd := _NOT_TEXT.search(string):
                raise InputError(f"{location}: the character U+{ord(odd[0]):04X} in a string is not text; remove it")
    return value


def _depth(text: str) -> int:
    depth = deepest = 0
    for bracket in re.finditer(r"[\[\]{}]", _STRING.sub("", text)):
        depth += 1 if bracket[0] in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from _strings(inner)
