"""Faults without a compiler: the functions of `os`, `io` and `fcntl` that Python code calls are replaced in the child.

This reaches the engine's own calls only. Kills, records of calls and a wrong clock need `faults.c`.
"""

import builtins
import fcntl
import io
import mmap
import os
import signal
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

_NUMBERS = struct.Struct("<ii")


class Injector:
    """As `faults.Injector`, with fewer calls."""

    reaches = "Python's own calls (there is no C compiler)"
    is_native = False

    def __init__(self) -> None:
        self.own_state()

    def own_state(self, scratch: Path | None = None) -> None:
        self._shared = mmap.mmap(-1, _NUMBERS.size)  # the child counts, this process reads

    def set(self, root: Path, fault: Any) -> None:
        self._root, self._fault = str(root), fault
        self._shared[:] = _NUMBERS.pack(0, 0)

    @property
    def count(self) -> int:
        return int(_NUMBERS.unpack(self._shared[:])[0])

    @property
    def fired(self) -> int:
        return int(_NUMBERS.unpack(self._shared[:])[1])

    @property
    def where(self) -> str:
        return "a call of Python"

    @property
    def calls(self) -> list[Any]:
        return []

    def arm(self) -> None:
        """Replace the functions in this process, for good."""
        from .faults import Op

        for module, name, op in (
            (os, "open", Op.OPEN), (os, "write", Op.WRITE), (os, "fsync", Op.FSYNC), (os, "replace", Op.RENAME),
            (os, "rename", Op.RENAME), (os, "mkdir", Op.MKDIR), (os, "unlink", Op.UNLINK), (os, "rmdir", Op.UNLINK),
            (os, "ftruncate", Op.TRUNCATE), (os, "listdir", Op.LIST), (fcntl, "flock", Op.LOCK),
        ):  # fmt: skip
            setattr(module, name, self._failing(getattr(module, name), op))
        opened = self._failing(io.open, Op.OPEN)

        def open_file(file: Any, mode: str = "r", *more: Any, **named: Any) -> Any:
            stream = opened(file, mode, *more, **named)
            return _Stream(stream, self._failing(stream.write, Op.WRITE, file)) if "w" in mode else stream

        io.open = builtins.open = open_file  # type: ignore[assignment]

    def _is_ours(self, target: Any) -> bool:
        """Whether a call is on a file of the run: a path below the root, or a descriptor that is not a standard one."""
        if isinstance(target, int):
            return target > 2
        return os.path.abspath(os.fspath(target)).startswith(self._root)  # noqa: PTH100 -- without a call that counts

    def _failing(self, real: Callable[..., Any], op: Any, name: Any = None) -> Callable[..., Any]:
        from .faults import Mode

        def call(*arguments: Any, **named: Any) -> Any:
            target = name if name is not None else arguments[0] if arguments else None
            if not self._is_ours(target):
                return real(*arguments, **named)
            fault = self._fault
            if not fault.ops & op:
                return real(*arguments, **named)
            count, fired = _NUMBERS.unpack(self._shared[:])
            count += 1
            due = count == fault.at or (count > fault.at and fault.mode in {Mode.LASTING, Mode.SHORT})
            happens = fault.mode is not Mode.OFF and (due or fault.mode is Mode.SLOW)
            self._shared[:] = _NUMBERS.pack(count, fired + happens)
            if happens and fault.mode is Mode.SLOW:
                time.sleep(fault.microseconds / 1e6)
            elif happens and fault.mode in {Mode.KILL_BEFORE, Mode.KILL_AFTER}:
                if fault.mode is Mode.KILL_AFTER:
                    with suppress(OSError):
                        real(*arguments, **named)
                os.kill(os.getpid(), signal.SIGKILL)
            elif happens:
                path = None if isinstance(target, int) else os.fspath(target)
                raise OSError(fault.error, os.strerror(fault.error), path)
            return real(*arguments, **named)

        return call


class _Stream:
    """A file whose `write` can fail."""

    def __init__(self, stream: Any, write: Callable[..., Any]) -> None:
        self._stream, self.write = stream, write

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __enter__(self) -> "_Stream":
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()
