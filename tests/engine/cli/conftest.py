"""Two ways to run a command: in this process, which is quick, and as a process of its own, as a shell does."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from negengine.engine.cli import main
from negengine.engine.runs.stderr import Messages

PROGRAM = (sys.executable, "-m", "negengine.engine.cli")


@dataclass(frozen=True)
class Done:
    status: int | str | None
    out: str
    err: str

    @property
    def said(self) -> str:
        return self.err.splitlines()[-1]


@pytest.fixture
def home(tmp_path_factory, monkeypatch):
    """No GPU, no data set in the cache, and no batch system that may have started the tests."""
    folder = tmp_path_factory.mktemp("home")
    for name in [name for name in os.environ if name.startswith(("SLURM_", "PBS_", "LSB_", "SKYPILOT_", "JOB_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("NEGENGINE_DATA", str(folder / "data"))


@pytest.fixture
def command(tmp_path, monkeypatch, capfd, home) -> Callable[..., Done]:
    """Runs a command in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NEGENGINE_MODELS", "")  # what a command sets is set back
    for name in ("quiet", "log"):
        monkeypatch.setattr(Messages, name, getattr(Messages, name))

    def run(*arguments) -> Done:
        monkeypatch.setattr(sys, "argv", ["negengine", *map(str, arguments)])
        capfd.readouterr()
        return Done(main.run(), *capfd.readouterr())

    return run


@pytest.fixture
def program(tmp_path, home) -> Callable[..., Done]:
    """Runs a command as a process of its own, in an empty folder."""

    def run(*arguments, **options) -> Done:
        settings = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": tmp_path, "encoding": "utf-8"}
        done = subprocess.run([*PROGRAM, *map(str, arguments)], check=False, **(settings | options))
        return Done(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def no_session(monkeypatch):
    monkeypatch.setattr("onnxruntime.InferenceSession", lambda *_, **__: pytest.fail("a session was opened"))
