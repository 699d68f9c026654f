"""A command of negengine in a process of its own: forked, so that imports are not repeated, or really started.

The forked process calls the same `main` as the program. Nothing else differs, but the size of parts: a part is a few
sentences, so that a run has many of them.
"""

import contextlib
import fcntl
import functools
import importlib
import os
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import faults
from .faults import Fault

SECONDS = 60.0  # a run takes less than one
_COMBINATIONS = 20
_PIPE = 1 << 20  # bytes: no command prints more, so nobody has to read before its end


@dataclass(frozen=True)
class Ended:
    """How a process ended."""

    status: int | None  # its exit status, or minus the signal that killed it; None if it had to be stopped
    out: str  # what it wrote on stdout
    err: str  # on stderr
    seconds: float  # how long it ran

    @property
    def complaint(self) -> str:
        """What is wrong with an end that must be 0, or 2 with one line; empty if nothing is."""
        if self.status == 0:
            return ""
        last = self.err.strip().splitlines()[-1:] or [""]
        if self.status is None:
            return "hangs"
        if "Traceback" in self.err:
            return f"traceback, status {self.status}: {last[0][:160]}"
        said = [line for line in self.err.splitlines() if line.startswith("negengine: ")]
        if self.status != 2 or len(said) != 1 or said != last or len(said[0]) > 600:
            return f"status {self.status}: {last[0][:160]!r}"
        return ""


@dataclass(frozen=True)
class Started:
    """A running child."""

    pid: int
    out: int
    err: int
    began: float

    def wait(self, seconds: float = SECONDS) -> Ended:
        descriptor = os.pidfd_open(self.pid)
        try:
            ready, _, _ = select.select([descriptor], [], [], max(0.0, seconds))
        finally:
            os.close(descriptor)
        if not ready:
            os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        texts = [_content(pipe) for pipe in (self.out, self.err)]
        return Ended(code if ready else None, *texts, time.monotonic() - self.began)

    @property
    def runs(self) -> bool:
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


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

    def __init__(self, root: Path, scratch: Path, injector: faults.Injector) -> None:
        self.root, self.scratch, self.injector = root, scratch, injector
        self.learning = False
        self.modules = scratch / "modules"

    def learn_imports(self) -> None:
        """Import what the last command imported late, so that the next ones find it here."""
        for name in self.modules.read_text().splitlines():
            if name not in sys.modules:
                with contextlib.suppress(ImportError):
                    importlib.import_module(name)

    def start(
        self,
        arguments: Sequence[str],
        folder: Path,
        *,
        fault: Fault | None = None,
        before: Callable[[], None] | None = None,
    ) -> Started:
        pipes = [os.pipe() for _ in range(2)]  # not files: a full disk and a limit on sizes must not reach them
        for _, end in pipes:
            fcntl.fcntl(end, fcntl.F_SETPIPE_SZ, _PIPE)
        self.injector.set(self.root, fault or Fault())
        began = time.monotonic()
        sys.stdout.flush()
        pid = os.fork()
        if pid:
            for _, end in pipes:
                os.close(end)
            return Started(pid, pipes[0][0], pipes[1][0], began)
        status = 1
        try:
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

    def run(self, arguments: Sequence[str], folder: Path, **how: object) -> Ended:
        return self.start(arguments, folder, **how).wait()  # type: ignore[arg-type]

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
        if self.learning:
            self.modules.write_text("\n".join(sys.modules))
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        return status


class Program(Children):
    """Starts the program as a user does, with the library of faults only if there is a fault."""

    def _run(self, arguments: Sequence[str], *, armed: bool) -> int:
        program = str(Path(sys.executable).with_name("negengine"))
        environment = {**os.environ, **self.injector.environment} if armed else faults.plain_environment()
        os.execve(program, [program, *arguments], environment)  # noqa: S606


def import_everything(*, with_export: bool) -> None:
    """Import what the commands import, before any fork. No model is opened: its threads would not survive a fork."""
    os.environ.update(faults.ONE_THREAD)
    import negengine.engine.cli.main
    import negengine.engine.experiments.negation.negation
    import negengine.engine.library.finished
    import onnxruntime
    import polars as pl
    from negengine.engine.experiments.diagnostics.diagnostics import Diagnostics
    from scipy import special, stats

    _ = negengine.engine.cli.main, negengine.engine.library.finished, onnxruntime, pl, special, stats
    negation = negengine.engine.experiments.negation.negation
    negation.Selection.plan = functools.partial(negation.Selection.plan, candidates_per_part=48, pairs_per_lazy_part=5)  # type: ignore[method-assign]
    negation.Scoring.plan = functools.partial(negation.Scoring.plan, triplets_per_part=20)  # type: ignore[method-assign]
    Diagnostics.items_per_part = 8
    if with_export:
        import negengine.export.build
        import optimum.exporters.onnx
        import torch
        import transformers

        torch.set_num_threads(1)
        _ = negengine.export.build, optimum.exporters.onnx, transformers
    _compute_once()


def _compute_once() -> None:
    """Compute here what every command computes alike without any file of a run: versions, machine, options.

    The proof that composed sentences have the tokenizer's ids takes more time than all the rest of a tiny run. It is
    made with fewer random combinations.
    """
    import typer.main
    from negengine.engine.basics import versions
    from negengine.engine.cli import main
    from negengine.engine.inference import machine
    from negengine.engine.text import composition

    versions.version = functools.cache(versions.version)
    versions.deciding_versions(), versions.own_version()
    versions.source_commit()
    machine.machine()
    typer.main.get_command = functools.cache(typer.main.get_command)
    dict(typer.main.get_command(main.app).commands)  # type: ignore[attr-defined]  # imports and builds all of them
    sample = composition._sample
    composition._sample = lambda whole, seed, n: sample(whole, seed, min(n, _COMBINATIONS))
