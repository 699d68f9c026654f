"""A process of its own for a command, as a shell starts it; `command` runs one in this process, which is quick."""

import subprocess
import sys
from collections.abc import Callable

import pytest

from ...conftest import Done

PROGRAM = (sys.executable, "-m", "negengine.engine.cli")


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
