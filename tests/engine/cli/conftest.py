"""A process of its own for a command, as a shell starts it; `command` runs one in this process, which is quick."""

from collections.abc import Callable

import pytest

from ...conftest import Done


@pytest.fixture
def program(python, tmp_path, home) -> Callable[..., Done]:
    """Runs a command as a process of its own, in an empty folder."""
    return lambda *words, **options: python("-m", "negengine.engine.cli", *words, cwd=tmp_path, **options)


@pytest.fixture
def no_session(monkeypatch):
    monkeypatch.setattr("onnxruntime.InferenceSession", lambda *_, **__: pytest.fail("a session was opened"))
