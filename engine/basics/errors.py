"""The exception for errors that the user can fix; quick to import."""

import difflib
import errno
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import PurePath
from typing import TypeVar

from .versions import requirement

Kind = TypeVar("Kind", bound=StrEnum)
LARGEST = 2**63 - 1  # the largest whole number that run.json holds

# Errors of the operating system that say something about the machine, and nothing about this program.
OF_THE_MACHINE = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOLCK})
OF_THE_MACHINE |= {errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC}


class InputError(Exception):
    """Bad input: one line that says what, where, and what would be right; exit status 2, without a traceback.

    A message often quotes what it is about: a long quotation loses its middle, and a line break is an escape.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(shortened(message.replace("\n", "\\n")))


class StoppedError(InputError):
    """A run ends early for a cause outside of its input, which the message tells; run again, it goes on."""

    def __str__(self) -> str:
        return f"{super().__str__()}; finished parts are kept, run the same command again to resume"

    @property
    def cause(self) -> str:
        return super().__str__()


def shortened(message: str) -> str:
    """A message of a length that a person reads: at most 600 characters, no word of more than 160."""
    return _without_middle(re.sub(r"\S{161,}", lambda word: _without_middle(word[0], 160), message), 600)


def refuse_other_than_utf8(*given: object) -> None:
    """Raise InputError for a text or a path, also inside lists, with bytes that are not UTF-8: no file can name it."""
    for one in given:
        if isinstance(one, list | tuple):
            refuse_other_than_utf8(*one)
        elif not is_utf8(text := str(one) if isinstance(one, str | PurePath) else ""):
            told = text.encode("utf-8", "backslashreplace").decode()
            raise InputError(f"{told}: this is not UTF-8; rename the file, or write the text in UTF-8")


def is_utf8(text: str) -> bool:
    """Whether a text holds no byte of a name that is not UTF-8, which Python reads as a lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def first_line(error: BaseException) -> str:
    """What another library says of an error, in one line: its first one, or the error's name if it says nothing."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _without_middle(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    start = most * 2 // 3
    return f"{text[:start]}…{text[start + 1 - most :]}"


def choice(kind: type[Kind], option: str, word: str) -> Kind:
    """The member of this name; InputError if there is none. `option` is such as `--precision`."""
    try:
        return kind(word)
    except ValueError:
        near = did_you_mean(word, kind)
        raise InputError(f"{option} {word}: {near}{'Give' if near else 'give'} {', '.join(kind)}") from None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A question about the known word that looks most like this one, with a space after it; empty if none does."""
    by_spelling = {str(name).lower(): str(name) for name in reversed(list(known))}  # the first of equal spellings
    near = difflib.get_close_matches(word.lower(), by_spelling, n=1)
    return f"did you mean {by_spelling[near[0]]!r}? " if near else ""


def check_number(option: str, value: float | None, least: float, most: int) -> None:
    """Raise InputError for a number that is too small or too large; None passes. `option` is such as `--seed`."""
    if value is not None and not least <= value <= most:
        given = "of more than 20 digits" if abs(value) >= 10**20 else str(value)  # Python refuses to print thousands
        limits = f"from {least:,} to {most:,}" if most < LARGEST else f"of at least {least:,}"
        raise InputError(f"{option} {given}: give a number {limits}")


@contextmanager
def needs_extra(extra: str, what: str) -> Iterator[None]:
    """Around imports: a missing package is told in one line (InputError), with the extra that installs it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("negengine"):
            raise
        raise InputError(f"{what} needs {error.name}: pip install {requirement(extra)}") from None
