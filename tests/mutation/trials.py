"""Trials: the tests of a mutant, in a copy of the repository and in a process of its own.

A process collects the tests once, and forks another one for each trial. There the mutant is put in place
(`in_place`), and the tests run until one fails. A mutant that cannot be put in place has its tests collected anew. The
tests' own subprocesses import the mutant from the copy.
"""

import compileall
import multiprocessing
import os
import py_compile
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from .groups import ROOT
from .in_place import live_functions, put_in_place
from .mutants import Mutant

_LIBRARIES = [
    "pytest",
    "hypothesis.strategies",
    "numpy",
    "polars",
    "scipy.stats",
    "scipy.special",
    "scipy.optimize",
    "onnxruntime",
    "tokenizers",
    "typer",
    "rich.progress",
    "psutil",
    "msgspec",
    "platformdirs",
    "filelock",
    "coverage",
]
_FOLDERS = ("engine", "export", "bench")
_COLLECTING = 120.0  # seconds, at most
_MEMORY = 6 * 2**30  # bytes of a trial
_LATE, _CRASHED = "too slow", "ended the process"
FORKS = multiprocessing.get_context("forkserver") if hasattr(os, "fork") else None


class Copy:
    """A copy of the repository, whose modules are imported in the place of the installed ones."""

    def __init__(self, folder: Path, temporary: Path) -> None:
        self.root, self.packages, self.log = folder / "repository", folder / "packages", folder / "log"
        self.temporary = temporary / folder.name
        temporary.mkdir(parents=True, exist_ok=True)
        listed = subprocess.run(
            ["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT, check=True, stdout=subprocess.PIPE
        )
        for name in filter(None, listed.stdout.decode().split("\0")):
            if (ROOT / name).is_file():
                (self.root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, self.root / name)
        package = self.packages / "negengine"
        package.mkdir(parents=True)
        for name in _FOLDERS:
            (package / name).symlink_to(self.root / name)
        for path in (self.root / "engine" / "public").iterdir():
            (package / path.name).symlink_to(path)
        # Bytecode with the digest of its source: by their times, two mutants of one size and second would be the same.
        checked = py_compile.PycInvalidationMode.CHECKED_HASH
        for name in ("engine", "export"):
            compileall.compile_dir(self.root / name, quiet=2, invalidation_mode=checked)

    def end_of_log(self) -> str:
        """The last lines that the tests have printed."""
        return self.log.read_text("utf-8", "replace")[-4_000:]

    @contextmanager
    def holding(self, mutant: Mutant) -> Iterator[None]:
        """Let a mutant stand in the place of its module's file."""
        path = self.root / mutant.module
        original = path.read_bytes()
        path.write_text(mutant.source, "utf-8")
        try:
            yield
        finally:
            path.write_bytes(original)


@dataclass(frozen=True)
class Trial:
    """What one process of tests does."""

    tests: Sequence[str]  # the tests, in their order
    # test → how long it may take; others may take for ever
    seconds: Mapping[str, float] = field(default_factory=dict)
    # what is put in the place of its module; None for the code as it is, or as the copy holds it
    mutant: Mutant | None = None
    watched: Sequence[str] = ()  # modules whose executed lines are told


@dataclass
class Outcome:
    """What became of a trial."""

    in_place: bool = True  # whether the mutant could be put in place; no test was run otherwise
    failed: str | None = None  # why the tests did not pass: the test that failed, say; None if all passed
    seconds: dict[str, float] = field(default_factory=dict)  # test → how long it took
    # watched module → line → the tests that run it
    lines: dict[str, dict[int, list[str]]] = field(default_factory=dict)


class Collected:
    """Tests that are collected, ready for trials."""

    def __init__(self, copy: Copy, files: Sequence[str]) -> None:
        if FORKS is None:
            raise OSError("mutants are tested in forked processes, which this operating system does not have")
        self._connection, theirs = FORKS.Pipe()
        self._process = FORKS.Process(target=_collect, args=(copy, tuple(files), theirs))
        self._process.start()
        theirs.close()
        self.tests: dict[str, list[str]] = {name: [] for name in files}
        found = self._received(_COLLECTING)
        self.failed = found if isinstance(found, str) else None
        for name in () if isinstance(found, str) else found:
            self.tests[name.partition("::")[0]].append(name)

    def run(self, trial: Trial) -> Outcome:
        """Run a trial in a forked process."""
        self._connection.send(trial)
        found = self._received(None)
        return found if isinstance(found, Outcome) else Outcome(failed=found)

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()
        self._connection.close()

    def _received(self, seconds: float | None) -> Any:
        try:
            return self._connection.recv() if self._connection.poll(seconds) else _LATE
        except (EOFError, OSError):
            return _CRASHED


def preload() -> None:
    """Let the process that forks import the large libraries, without threads: a forked process does not have them."""
    os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    if FORKS is not None:
        FORKS.set_forkserver_preload(_LIBRARIES)


def _collect(copy: Copy, files: tuple[str, ...], connection: Connection) -> None:
    os.setpgrp()
    os.chdir(copy.root)
    os.environ |= {
        "PYTHONPATH": os.pathsep.join([str(copy.packages), os.environ.get("PYTHONPATH", "")]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_XDIST_WORKER": "trial",  # what the fixture `once` makes is kept between trials
        "HYPOTHESIS_PROFILE": "trial",
        "XDG_CACHE_HOME": str(copy.root.parent / "cache"),
    }
    sys.path[:0] = [str(copy.packages)]
    sys.dont_write_bytecode = True
    log = os.open(copy.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    import hypothesis
    import pytest

    # A failing example is not made smaller, nor tried again with the next mutant.
    phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
    hypothesis.settings.register_profile("trial", deadline=None, database=None, phases=phases)
    options = ["-q", "-s", "--no-header", "-p", "no:cacheprovider", "-p", "no:xdist", "--hypothesis-seed=0"]
    pytest.main([*options, f"--basetemp={copy.temporary}", *files], [_Plugin(copy, connection)])
    os._exit(0)


class _Plugin:
    """Of pytest: in the place of its loop over all tests, one over trials."""

    def __init__(self, copy: Copy, connection: Connection) -> None:
        self._copy, self._connection = copy, connection
        self._items: dict[str, Any] = {}

    def pytest_runtestloop(self, session: Any) -> bool:
        if session.testsfailed:
            self._connection.send("the tests cannot be imported")
            return True
        if (tasks := Path("/proc/self/task")).exists() and len(list(tasks.iterdir())) > 1:
            self._connection.send("a file of tests begins threads when it is imported; a forked process lacks them")
            return True
        self._items = {item.nodeid: item for item in session.items}
        files = [path for module in sys.modules.values() if (path := getattr(module, "__file__", None))]
        own = [path for path in files if path.startswith(str(self._copy.packages))]
        self._functions = live_functions(own)
        self._connection.send(list(self._items))
        with suppress(EOFError):
            while True:
                self._fork(session, self._connection.recv())
        return True

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            print(report.longreprtext)  # to the log

    def _fork(self, session: Any, trial: Trial) -> None:
        import resource  # systems without fork do not have it

        sys.stdout.flush()
        sys.stderr.flush()
        process = os.fork()
        if process == 0:
            os.setpgrp()
            resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, resource.RLIM_INFINITY))
            outcome = Outcome(failed=_CRASHED)
            try:
                outcome = self._tried(session, trial)
            finally:
                sys.stdout.flush()
                self._connection.send(outcome)
                os._exit(0)
        _, status = os.waitpid(process, 0)
        with suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)  # the tests' own processes, too
        if status != 0:
            late = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM
            self._connection.send(_LATE if late else _CRASHED)

    def _tried(self, session: Any, trial: Trial) -> Outcome:
        if trial.mutant is not None:
            module = str(self._copy.packages / "negengine" / trial.mutant.module)
            if not put_in_place(module, trial.mutant.original, trial.mutant.source, self._functions):
                return Outcome(in_place=False)
        outcome, watch = Outcome(), None
        if trial.watched:
            import coverage

            watch = coverage.Coverage(
                data_file=None, config_file=False, include=[f"*/{module}" for module in trial.watched]
            )
            watch.start()
        items = [self._items[name] for name in trial.tests]
        for item, following in zip(items, [*items[1:], None], strict=True):
            if watch:
                watch.switch_context(item.nodeid)
            started = time.monotonic()
            signal.setitimer(signal.ITIMER_REAL, trial.seconds.get(item.nodeid, 0.0))
            try:
                item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
            except BaseException as error:  # noqa: BLE001 - such as an interrupt that a test has made, and that nobody took
                print(repr(error))
                session.testsfailed += 1
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            outcome.seconds[item.nodeid] = time.monotonic() - started
            if session.testsfailed:
                outcome.failed = item.nodeid
                break
        if watch:
            watch.stop()
            data = watch.get_data()
            for name in data.measured_files():
                module = str(Path(name).resolve().relative_to(self._copy.root))
                outcome.lines[module] = data.contexts_by_lineno(name)
        return outcome
