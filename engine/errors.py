"""The exception for errors that the user can fix."""

from enum import StrEnum
from typing import TypeVar

Kind = TypeVar("Kind", bound=StrEnum)


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
        raise InputError(f"{option} {word}: give {', '.join(kind)}") from None
