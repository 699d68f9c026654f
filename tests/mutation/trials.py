"""Trials: the tests of a mutant, in a copy of the repository and a process of its own.

A process that has imported the large libraries forks one for each mutant, so a trial does not begin with seconds of
imports. The tests' own subprocesses see the mutant, too.
"""

import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from .groups import ROOT
from .mutants import Mutant

_LIBRARIES = [
    "pytest",
    "hypothesis.strategies",
    "numpy",
    "polars",
    "scipy.stats",
    "scipy.special",
    "onnxruntime",
    "tokenizers",
    "typer",
    "rich.progress",
    "psutil",
    "msgspec",
    "platformdirs",
    "filelock",
]
_FOLDERS = ("engine", "export", "training", "bench")
FORKS = multiprocessing.get_context("forkserver") if hasattr(os, "fork") else None


class Copy:
    """A copy of the repository, whose modules are imported in the place of the installed ones.

    Args:
        folder: Where to make it; it must not exist.
    """

    def __init__(self, folder: Path) -> None:
        self.root, self._packages = folder / "repository", folder / "packages"
        (folder / "temporary").mkdir(parents=True)
        listed = subprocess.run(
            ["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT, check=True, stdout=subprocess.PIPE
        )
        for name in filter(None, listed.stdout.decode().split("\0")):
            if (ROOT / name).is_file():
                (self.root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, self.root / name)
        package = self._packages / "negengine"
        package.mkdir(parents=True)
        for name in _FOLDERS:
            (package / name).symlink_to(self.root / name)
        for path in (self.root / "engine" / "public").iterdir():
            (package / path.name).symlink_to(path)

    def log(self) -> str:
        """What the last trial printed."""
        return (self.root.parent / "log").read_text("utf-8", "replace")

    def passes(self, tests: Sequence[str], seconds: float, mutant: Mutant | None = None) -> bool | None:
        """Whether tests pass; None if they do not end in time.

        Args:
            tests: Files or folders of tests.
            seconds: How long they may take.
            mutant: What stands in the place of its module.
        """
        if FORKS is None:
            raise OSError("mutants are tested in forked processes, which this operating system does not have")
        if mutant is not None:
            path = self.root / mutant.module
            original = path.read_bytes()
            path.write_text(mutant.source, "utf-8")
        try:
            trial = FORKS.Process(target=_run, args=(self.root, self._packages, tuple(tests)))
            trial.start()
            trial.join(seconds)
            late = trial.exitcode is None
            with suppress(ProcessLookupError):
                os.killpg(trial.pid, signal.SIGKILL)  # the tests' own processes, too
            trial.join()
        finally:
            if mutant is not None:
                path.write_bytes(original)
        return None if late else trial.exitcode == 0


def preload() -> None:
    """Let the process that forks import the large libraries."""
    if FORKS is not None:
        FORKS.set_forkserver_preload(_LIBRARIES)


def _run(root: Path, packages: Path, tests: tuple[str, ...]) -> None:
    os.setpgrp()
    os.chdir(root)
    os.environ |= {
        "PYTHONPATH": os.pathsep.join([str(packages), os.environ.get("PYTHONPATH", "")]),
        "PYTHONDONTWRITEBYTECODE": "1",  # two mutants of one size and second would share their bytecode
        "PYTEST_XDIST_WORKER": "trial",  # what the fixture `once` makes is kept between trials
    }
    sys.path[:0] = [str(packages)]
    sys.dont_write_bytecode = True
    log = os.open(root.parent / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    import pytest

    options = ["-x", "-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:xdist", "--hypothesis-seed=0"]
    os._exit(pytest.main([*options, f"--basetemp={root.parent / 'temporary' / 'own'}", *tests]))
