"""Messages on stderr that never end or delay a run.

A terminal may be closed, the disk of a log may be full, or the reader of a pipe may have gone or stopped reading. Then
the text is dropped and the run continues. Python's own stream would raise an error, or keep the text and turn the exit
status of a finished run into 120. So the text is written to the file descriptor directly, and only if it accepts the
text at once.
"""

import io
import os
import select
import sys
import threading
from contextlib import suppress
from typing import TextIO

_AT_ONCE = 512  # bytes that a pipe which takes any takes whole (POSIX: PIPE_BUF is no less)


class Stderr(io.TextIOBase):
    """A text stream whose writes always succeed, for one process; several threads may write."""

    def __init__(self, stream: TextIO | None = None, *, patience: float = 0.5) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._descriptor = _descriptor(self._stream)
        self._lock = threading.RLock()
        self._patience, self._stalled = patience, False

    @property
    def encoding(self) -> str:  # type: ignore[override]  # io's own is an annotation only
        return getattr(self._stream, "encoding", None) or "utf-8"

    def isatty(self) -> bool:
        with suppress(OSError, ValueError):
            return self._stream is not None and self._stream.isatty()
        return False

    def write(self, text: str) -> int:
        with self._lock, suppress(OSError, ValueError):  # broken or full; closed
            if self._descriptor is not None:
                self._write_bytes(self._descriptor, text.encode(self.encoding, "backslashreplace"))
            elif self._stream is not None:
                self._stream.write(text)
                self._stream.flush()
        return len(text)

    def flush(self) -> None:
        """Do nothing: every write is complete at once."""

    def _write_bytes(self, descriptor: int, content: bytes) -> None:
        while content and self._takes_more(descriptor):
            content = content[os.write(descriptor, content[:_AT_ONCE]) :]

    def _takes_more(self, descriptor: int) -> bool:
        try:
            ready = bool(select.select([], [descriptor], [], 0 if self._stalled else self._patience)[1])
        except (OSError, ValueError):  # select does not know this kind of file
            return True
        self._stalled = not ready
        return ready


def _descriptor(stream: TextIO | None) -> int | None:
    """The file behind the stream; None for what only looks like a file, such as a notebook's stderr.

    On Windows a console has an encoding that only Python's own stream knows.
    """
    if os.name != "posix" or not isinstance(stream, io.TextIOWrapper):
        return None
    with suppress(OSError, ValueError):
        return stream.fileno()
    return None
