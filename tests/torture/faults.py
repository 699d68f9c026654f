"""Faults in the calls to the operating system: `faults.c`, told from Python what to do.

It is loaded with LD_PRELOAD when this process starts, so that it also reaches the calls of Polars and ONNX Runtime.
"""

import ctypes
import errno
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from pathlib import Path

_LOADED = "NEGENGINE_TORTURE_LIBRARY"
# Calls that can fail, and what happens at one; the numbers of `faults.c`.
Op = IntFlag("Op", "OPEN WRITE FSYNC RENAME MKDIR UNLINK LOCK READ TRUNCATE LIST")
# SHORT: half of the bytes are written, then everything fails
Mode = IntEnum("Mode", "OFF SINGLE LASTING KILL_BEFORE KILL_AFTER SHORT", start=0)

ALL = Op(1023)
CHANGING = ALL & ~(Op.READ | Op.LIST)
ERRORS = (errno.EIO, errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EDQUOT, errno.EMFILE, errno.EPERM)


@dataclass(frozen=True)
class Fault:
    """A fault for one run."""

    mode: Mode = Mode.OFF
    at: int = 0  # at which of the counted calls
    ops: Op = ALL  # which calls are counted
    error: int = errno.EIO

    def __str__(self) -> str:
        return f"{self.mode.name.lower()} {errno.errorcode[self.error]} at call {self.at}"


@dataclass(frozen=True)
class Call:
    """A call that changed something: the file's inode, or whether a rename replaced another file."""

    op: Op
    inode: int
    name: str  # the path


class Injector:
    """The faults of `faults.c`, in this process and in its children."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(os.environ[_LOADED])
        self._library.torture_fired_name.restype = self._library.torture_record_name.restype = ctypes.c_char_p
        self._library.torture_record_inode.restype = ctypes.c_ulong
        self.arm, self.count = self._library.torture_arm, self._library.torture_count
        self.fired = self._library.torture_fired

    def own_state(self, scratch: Path) -> None:
        """Do not share faults with the process that this one was forked from; the state is a file in a folder."""
        shared = scratch / "faults"
        if self._library.torture_share(os.fsencode(shared)):
            raise OSError(f"the state of the faults could not be shared in {shared}")

    def set(self, root: Path, fault: Fault) -> None:
        self._library.torture_set(os.fsencode(root), int(fault.ops), int(fault.mode), fault.at, fault.error)

    @property
    def where(self) -> str:
        name = os.fsdecode(self._library.torture_fired_name())
        return f"{Op(self._library.torture_fired_op()).name} {Path(name).name}"

    @property
    def calls(self) -> list[Call]:
        """All calls of the latest run that changed something, in their order."""
        own = self._library
        return [
            Call(Op(own.torture_record_op(i)), own.torture_record_inode(i), os.fsdecode(own.torture_record_name(i)))
            for i in range(own.torture_recorded())
        ]


def load() -> Path:  # noqa: RET503 - the last call does not return
    """The folder to work in. Without the library this process starts again with it."""
    if _LOADED in os.environ:
        return Path(os.environ[_LOADED]).parent
    compiler = next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)
    if compiler is None or not sys.platform.startswith("linux"):
        sys.exit("make torture needs Linux and a C compiler: install gcc")
    memory = Path("/dev/shm")  # noqa: S108 - power cuts are simulated, so no disk has to be waited for
    is_large = os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 2 << 30
    library = Path(tempfile.mkdtemp(prefix="negengine-torture-", dir=memory if is_large else None)) / "faults.so"
    source = Path(__file__).with_name("faults.c")
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    threads = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "2"}
    own = {"LD_PRELOAD": str(library), _LOADED: str(library), "TOKENIZERS_PARALLELISM": "false", **threads}
    os.execve(sys.executable, [sys.executable, "-m", "torture", *sys.argv[1:]], os.environ | own)  # noqa: S606
