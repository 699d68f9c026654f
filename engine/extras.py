"""Packages that only some commands need, in the extras of pyproject.toml. Quick to import."""

from collections.abc import Iterator
from contextlib import contextmanager

from .errors import InputError


@contextmanager
def needs_extra(extra: str, what: str) -> Iterator[None]:
    """Around imports: a missing package is told in one line, with the extra that installs it.

    Args:
        extra: Such as `export`.
        what: The command or option that needs it.

    Raises:
        InputError: A package is missing.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("negengine"):
            raise
        raise InputError(f"{what} needs {error.name}: pip install 'negengine[{extra}]'") from None
