"""The exception for errors that the user can fix."""

import errno
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
        raise InputError(f"{option} {word}: give {', '.join(kind)}") from None
