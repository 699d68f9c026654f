"""A command of negengine in a process of its own: forked, so that imports are not repeated, or really started."""

import contextlib
import fcntl
import functools
import importlib
import multiprocessing
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import psutil

from .faults import Fault, Injector

Found = TypeVar("Found")
_PIPE = 1 << 20  # bytes: no command prints more, so nobody has to read before its end
_PATIENCE = 300.0  # seconds for a command; most take less than one
_SECONDS_TO_GO = 15.0  # that the other processes of a run have


def in_fork(function: Callable[[], Found]) -> Callable[[], Found]:
    """Call a function in a forked process, which starts now; what is returned waits for its result, or raises EOFError.

    It may start threads, which would not survive the next fork of this process.
    """
    fork = multiprocessing.get_context("fork")
    source, target = fork.Pipe(duplex=False)
    process = fork.Process(target=lambda: target.send(function()))
    process.start()
    target.close()

    def wait() -> Found:
        try:
            found: Found = source.recv()
        finally:
            process.join()
        return found

    return wait


@dataclass(frozen=True)
class Ended:
    """How a process ended."""

    status: int | None  # its exit status, or minus the signal that killed it; None if it had to be stopped
    out: str
    err: str
    left: int  # how many processes of it were still there

    def complaint(self, also: Sequence[int] = ()) -> str:
        """What is wrong with an end that must be 0, 2 with one line, or one of some others; empty if nothing is."""
        last = (self.err.strip().splitlines() or [""])[-1]
        said = [line for line in self.err.splitlines() if line.startswith("negengine: ")]
        if self.status is None:
            return "hangs"
        if self.left:
            return f"{self.left} processes of the run are still there after {_SECONDS_TO_GO:.0f} s"
        if "Traceback" in self.err and self.status >= 0:
            return f"traceback, status {self.status}: {last[:160]}"
        is_told = self.status != 2 or (said == [last] and len(last) <= 600)
        is_interrupt = self.status != 130 or last.startswith("negengine: interrupted")
        is_right = self.status in {0, 2, *also} and is_told and is_interrupt
        return "" if is_right else f"status {self.status}: {last[:160]!r}"


@dataclass(frozen=True)
class Started:
    """A running child, in a process group of its own."""

    pid: int
    out: int
    err: int

    def wait(self) -> Ended:
        status = None
        with contextlib.suppress(psutil.TimeoutExpired):
            status = psutil.Process(self.pid).wait(_PATIENCE)
        left, latest = self._left(), time.monotonic() + _SECONDS_TO_GO
        while status is not None and left and time.monotonic() < latest:
            time.sleep(0.02)
            left = self._left()
        for process in left:
            with contextlib.suppress(psutil.Error):
                process.kill()
        if status is None:
            os.waitpid(self.pid, 0)
        return Ended(status if status is None else int(status), _content(self.out), _content(self.err), len(left))

    @property
    def runs(self) -> bool:
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    def _left(self) -> list[psutil.Process]:
        try:
            os.killpg(self.pid, 0)
        except ProcessLookupError:
            return []
        left = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if process.status() != psutil.STATUS_ZOMBIE and os.getpgid(process.pid) == self.pid:
                    left.append(process)
        return left


def _content(pipe: int) -> str:
    """What is in a pipe now: a process of its child may still have it open."""
    pieces = []
    os.set_blocking(pipe, False)
    with contextlib.suppress(BlockingIOError):
        while piece := os.read(pipe, _PIPE):
            pieces.append(piece)
    os.close(pipe)
    return b"".join(pieces).decode("utf-8", "replace")


class Children:
    """Starts commands in a folder."""

    def __init__(self, root: Path, scratch: Path, injector: Injector) -> None:
        self.root, self.scratch, self.injector = root, scratch, injector
        self.modules = scratch / "modules"

    def learn_imports(self) -> None:
        """Import what the last command imported, so that the next ones find it here."""
        for name in self.modules.read_text().splitlines():
            if name not in sys.modules:
                with contextlib.suppress(ImportError):
                    importlib.import_module(name)
        self.modules.unlink()

    def start(
        self,
        arguments: Sequence[str],
        folder: Path,
        fault: Fault | None = None,
        before: Callable[[], None] | None = None,
    ) -> Started:
        """Start a command; `before` is called in its process."""
        pipes = [os.pipe() for _ in range(2)]  # not files: a full disk and a limit on sizes must not reach them
        for _, end in pipes:
            fcntl.fcntl(end, fcntl.F_SETPIPE_SZ, _PIPE)
        self.injector.set(self.root, fault or Fault())
        sys.stdout.flush()
        pid = os.fork()
        if pid:
            with contextlib.suppress(OSError):  # it has done so itself
                os.setpgid(pid, pid)
            for _, end in pipes:
                os.close(end)
            return Started(pid, pipes[0][0], pipes[1][0])
        status = 1
        try:
            os.setpgid(0, 0)
            for number, end in enumerate((os.open(os.devnull, os.O_RDONLY), *(end for _, end in pipes))):
                os.dup2(end, number)
            os.chdir(folder)
            if before is not None:
                before()
            status = self._run(arguments, armed=fault is not None)
        except BaseException:  # noqa: BLE001 - as Python itself reports it
            traceback.print_exc()
        finally:
            os._exit(status)

    def _run(self, arguments: Sequence[str], *, armed: bool) -> int:
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
        sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr
        sys.argv = ["negengine", *arguments]
        from negengine.engine.cli.__main__ import main

        try:
            if armed:
                self.injector.arm()
            main()
        except SystemExit as ended:
            status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        except BaseException:  # noqa: BLE001 - as Python itself reports it
            traceback.print_exc()
            status = 1
        threading._shutdown()  # type: ignore[attr-defined]
        if not self.modules.exists():
            self.modules.write_text("\n".join(sys.modules))
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        return status


def make_parts_small() -> None:
    """Let a run have many parts, and compute here what every command computes alike without any file of a run.

    The proof that composed sentences have the tokenizer's ids is made with fewer random combinations.
    """
    from negengine.engine.basics import versions
    from negengine.engine.experiments.diagnostics.diagnostics import Diagnostics
    from negengine.engine.experiments.negation import negation
    from negengine.engine.inference import machine
    from negengine.engine.text import composition

    select, score = negation.Selection, negation.Scoring
    select.plan = functools.partial(select.plan, candidates_per_part=48, pairs_per_lazy_part=5)  # type: ignore[method-assign]
    score.plan = functools.partial(score.plan, triplets_per_part=20)  # type: ignore[method-assign]
    Diagnostics.requests_per_part = 12
    versions.version = functools.cache(versions.version)
    versions.versions(), versions.own_version(), versions.source_commit(), machine.machine()
    sample = composition._sample
    composition._sample = lambda whole, seed, n: sample(whole, seed, min(n, 20))
