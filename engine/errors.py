"""The exception for errors that the user can fix."""

import difflib
import errno
from collections.abc import Iterable
from enum import StrEnum
from typing import TypeVar

Kind = TypeVar("Kind", bound=StrEnum)

OF_THE_MACHINE = frozenset(
    {
        errno.EACCES,
        errno.EDQUOT,
        errno.EIO,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOLCK,
        errno.ENOMEM,
        errno.ENOSPC,
        errno.EPERM,
        errno.EROFS,
    }
)
"""Errors of the operating system that say something about the machine, and nothing about this program."""


class InputError(Exception):
    """Bad input: the message is one line that says what, where, and what would be right.

    The command line prints it without a traceback and exits with status 2.
    """


def choice(kind: type[Kind], option: str, word: str) -> Kind:
    """Find the member of an enumeration with this name.

    Args:
        kind: The enumeration.
        option: The option that the word was given for, such as `--precision`.
        word: The word.

    Raises:
        InputError: The enumeration does not have such a member.
    """
    try:
        return kind(word)
    except ValueError:
        near = did_you_mean(word, kind)
        raise InputError(f"{option} {word}: {near}{'Give' if near else 'give'} {', '.join(kind)}") from None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A question about the known word that looks most like this one, with a space after it; empty if none does.

    Args:
        word: What the user wrote.
        known: What there is.
    """
    by_spelling = {str(name).lower(): str(name) for name in reversed(list(known))}  # the first of equal spellings
    near = difflib.get_close_matches(word.lower(), by_spelling, n=1)
    return f"did you mean {by_spelling[near[0]]!r}? " if near else ""
