"""The libraries of the extra `report`: if one is missing, one line says what to install."""

from collections.abc import Iterator
from contextlib import contextmanager

from ...errors import InputError


@contextmanager
def needs_libraries() -> Iterator[None]:
    """Turn a missing library into an error for the user.

    Raises:
        InputError: A library other than negengine is missing.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("negengine"):
            raise
        raise InputError(f"reports and figures need {error.name}: pip install 'negengine[report]'") from None
