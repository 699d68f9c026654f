"""Faults in the calls to the operating system: `faults.c` in this process, or a part of it in pure Python.

The library is loaded with LD_PRELOAD when this process starts, so that it also reaches the calls of Polars and ONNX
Runtime.
"""

import ctypes
import errno
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from pathlib import Path

SOURCE = Path(__file__).with_name("faults.c")
_LOADED = "NEGENGINE_TORTURE_LIBRARY"


class Op(IntFlag):
    """Calls that can fail; the numbers of `faults.c`."""

    OPEN = 1
    WRITE = 2
    FSYNC = 4
    RENAME = 8
    MKDIR = 16
    UNLINK = 32
    LOCK = 64
    READ = 128
    TRUNCATE = 256
    LIST = 512


class Mode(IntEnum):
    """What happens at a call; the numbers of `faults.c`."""

    OFF = 0
    SINGLE = 1
    LASTING = 2
    KILL_BEFORE = 3
    KILL_AFTER = 4
    SHORT = 5  # half of the bytes are written, then everything fails
    SLOW = 6
    STEP = 7  # the process stops after every call, until it is sent on


ALL = Op(1023)
CHANGING = Op.OPEN | Op.WRITE | Op.FSYNC | Op.RENAME | Op.MKDIR | Op.UNLINK | Op.LOCK | Op.TRUNCATE
ERRORS = (errno.EIO, errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EDQUOT, errno.EMFILE, errno.EPERM)


@dataclass(frozen=True)
class Fault:
    """A fault for one run."""

    mode: Mode = Mode.OFF  # what happens
    at: int = 0  # at which of the counted calls
    ops: Op = ALL  # which calls are counted
    error: int = errno.EIO  # an errno
    microseconds: int = 0  # how long a call takes, if it is slow
    # seconds by which the clock is wrong from the start, and by which it jumps at each look
    clock: tuple[int, int] = (0, 0)

    def __str__(self) -> str:
        what = errno.errorcode.get(self.error, str(self.error))
        return f"{self.mode.name.lower()} {what} at call {self.at}"


@dataclass(frozen=True)
class Call:
    """A call that changed something, in the order of calls: its kind, the file's inode or whether a rename replaced
    another file, the path."""

    op: Op
    inode: int
    name: str


class Injector:
    """The faults of `faults.c`."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(os.environ[_LOADED])
        self._library.torture_fired_name.restype = ctypes.c_char_p
        self._library.torture_record_name.restype = ctypes.c_char_p
        self._library.torture_record_inode.restype = ctypes.c_ulong
        self._library.torture_clock.argtypes = [ctypes.c_long, ctypes.c_long]

    def own_state(self, scratch: Path) -> None:
        """Do not share faults with the process that this one was forked from; the state is a file in a folder."""
        self._shared = scratch / "faults"
        if self._library.torture_share(os.fsencode(self._shared)):
            raise OSError(f"the state of the faults could not be shared in {self._shared}")

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs besides the library, if it is not forked: it is armed from its start."""
        return {"TORTURE_SHARED": str(self._shared)}

    def set(self, root: Path, fault: Fault) -> None:
        error, slow = fault.error, fault.microseconds
        self._library.torture_set(os.fsencode(root), int(fault.ops), int(fault.mode), fault.at, error, slow)
        self._library.torture_clock(*fault.clock)

    def arm(self) -> None:
        self._library.torture_arm()

    @property
    def count(self) -> int:
        return int(self._library.torture_count())

    @property
    def fired(self) -> int:
        return int(self._library.torture_fired())

    @property
    def where(self) -> str:
        name = os.fsdecode(self._library.torture_fired_name())
        op = self._library.torture_fired_op()
        return f"{Op(op).name if op else 'nothing'} {Path(name).name}"

    @property
    def recorded(self) -> int:
        return int(self._library.torture_recorded())

    @property
    def calls(self) -> list[Call]:
        op, inode = self._library.torture_record_op, self._library.torture_record_inode
        name = self._library.torture_record_name
        return [Call(Op(op(i)), int(inode(i)), os.fsdecode(name(i))) for i in range(self.recorded)]


def load(build: Path) -> "Injector":  # noqa: RET503 - the last call does not return
    """The injector of this process. The process starts again with the library, if the library can be built."""
    if _LOADED in os.environ:
        return Injector()
    compiler = next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)
    if compiler is None or not sys.platform.startswith("linux"):
        sys.exit("make torture needs Linux and a C compiler: install gcc")
    library = build / "faults.so"
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", library, SOURCE, "-ldl"], check=True)
    environment = {**os.environ, "LD_PRELOAD": str(library), _LOADED: str(library), **ONE_THREAD}
    os.execve(sys.executable, [sys.executable, "-m", "torture", *sys.argv[1:]], environment)  # noqa: S606


ONE_THREAD = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "POLARS_MAX_THREADS": "2",
    "TOKENIZERS_PARALLELISM": "false",
}


def plain_environment() -> dict[str, str]:
    """The environment of a process that must run without the library."""
    return {name: value for name, value in os.environ.items() if name not in {"LD_PRELOAD", _LOADED}}
