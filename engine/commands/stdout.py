"""A stdout for commands: it replaces unknown characters, reports a full disk, and ends quietly on a closed pipe."""

import io
import os
from contextlib import suppress
from typing import NoReturn, TextIO

from ..basics.errors import InputError


class Stdout(io.TextIOBase):
    """A text stream that writes at once. Its failures are errors in the user's environment."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream  # None if stdout was closed before the program began

    @property
    def encoding(self) -> str:  # type: ignore[override]  # io's own is an annotation only
        return (getattr(self._stream, "encoding", None) or "utf-8").lower()

    @property
    def errors(self) -> str:  # type: ignore[override]
        return "replace"

    def isatty(self) -> bool:
        with suppress(ValueError):  # closed
            return self._stream is not None and self._stream.isatty()
        return False

    def fileno(self) -> int:
        if self._stream is None:
            raise io.UnsupportedOperation("fileno")
        return self._stream.fileno()

    def flush(self) -> None:
        """Do nothing: every write is complete at once."""

    def write(self, text: str) -> int:
        """Write the text; raises InputError if the stream is full or closed, SystemExit (0) if its reader has gone."""
        if not isinstance(text, str):
            raise TypeError(f"a text stream takes str, not {type(text).__name__}")  # Typer asks by trying
        if not text:
            return 0
        if self._stream is None:
            raise InputError("cannot write the results: stdout is closed; send them to a terminal or a file")
        try:
            self._stream.write(text.encode(self.encoding, self.errors).decode(self.encoding))
            self._stream.flush()
        except BrokenPipeError:
            self._discard()
            raise SystemExit(0) from None
        except (OSError, ValueError) as error:
            self._refuse(error)
        return len(text)

    def _refuse(self, error: Exception) -> NoReturn:
        self._discard()
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(f"cannot write the results to stdout: {reason}; send them to another place") from None

    def _discard(self) -> None:
        """Discard what the stream still holds: Python would try to write it again at the end, and fail."""
        with suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
