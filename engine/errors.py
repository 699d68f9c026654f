"""The one exception for what the user can fix."""

from enum import StrEnum
from typing import TypeVar

Kind = TypeVar("Kind", bound=StrEnum)


class InputError(Exception):
    """Bad input: the message is one line that says what, where, and what would be right.

    The command line prints it without a traceback and exits with status 2.
    """


def choice(kind: type[Kind], option: str, word: str) -> Kind:
    """The member of an enumeration that a word names.

    Args:
        kind: The enumeration.
        option: What the word was given for, as in `--precision`.
        word: The word.

    Raises:
        InputError: The enumeration has no such member.
    """
    try:
        return kind(word)
    except ValueError:
        raise InputError(f"{option} {word}: give {', '.join(kind)}") from None
