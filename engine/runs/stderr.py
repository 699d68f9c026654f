"""Messages on stderr that never end or delay a run: what a closed terminal or a full pipe does not take is dropped.

Python's own stream would raise an error, or turn the exit status into 120: this one writes to the descriptor.
"""

import io
import os
import select
import sys
import threading
from contextlib import suppress
from datetime import datetime
from typing import ClassVar, TextIO

_PATIENCE = 0.5  # seconds until a reader counts as stopped
_AT_ONCE = 512  # bytes that a pipe which takes any takes whole (POSIX: PIPE_BUF is no less)


class Messages:
    """What a command says of its messages: a file that has them, too, and whether stderr has errors alone."""

    log: ClassVar[TextIO | None] = None
    quiet: ClassVar[bool] = False

    @classmethod
    def logged(cls, text: str) -> None:
        """Write each line with the time to the log; a full disk does not end a run."""
        if cls.log is not None:
            stamp = datetime.now().astimezone().isoformat(timespec="seconds")
            with suppress(OSError, ValueError):
                cls.log.writelines(f"{stamp} {line}\n" for line in text.splitlines())
                cls.log.flush()


class Stderr(io.TextIOBase):
    """A text stream whose writes always succeed, for one process; several threads may write.

    Messages to the process's own stderr are those of `Messages`; an error is told in any case.
    """

    def __init__(self, stream: TextIO | None = None, *, is_error: bool = False) -> None:
        self._is_message, self._is_error = stream is None, is_error
        self._stream = sys.stderr if stream is None else stream
        self._descriptor = _descriptor(self._stream)
        self._lock = threading.RLock()
        self._stalled = False

    @property
    def encoding(self) -> str:  # type: ignore[override]  # io's own is an annotation only
        return getattr(self._stream, "encoding", None) or "utf-8"

    def isatty(self) -> bool:
        with suppress(OSError, ValueError):
            return self._stream is not None and self._stream.isatty()
        return False

    def write(self, text: str) -> int:
        if self._is_message:
            Messages.logged(text)
            if Messages.quiet and not self._is_error:
                return len(text)
        with self._lock, suppress(OSError, ValueError):  # broken or full; closed
            if self._descriptor is not None:
                content = text.encode(self.encoding, "backslashreplace")
                while content and self._takes_more(self._descriptor):
                    content = content[os.write(self._descriptor, content[:_AT_ONCE]) :]
            elif self._stream is not None:
                self._stream.write(text)
                self._stream.flush()
        return len(text)

    def flush(self) -> None:
        """Do nothing: every write is complete at once."""

    def _takes_more(self, descriptor: int) -> bool:
        try:
            ready = bool(select.select([], [descriptor], [], 0 if self._stalled else _PATIENCE)[1])
        except (OSError, ValueError):  # select does not know this kind of file
            return True
        self._stalled = not ready
        return ready


def _descriptor(stream: TextIO | None) -> int | None:
    """The file behind the stream; None for a notebook's stderr or a Windows console, with an encoding of its own."""
    if os.name != "posix" or not isinstance(stream, io.TextIOWrapper):
        return None
    with suppress(OSError, ValueError):
        return stream.fileno()
    return None
