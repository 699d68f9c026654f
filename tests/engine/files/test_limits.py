"""A process that may have too few files open raises its limit, or is refused in one line before it writes anything."""

import subprocess
import sys

import pytest
from negengine.engine.files.reading import NEEDED, refuse_few_open_files

pytest.importorskip("resource")

LIMITED = """
import resource, sys
from negengine.engine.errors import InputError
from negengine.engine.files.reading import refuse_few_open_files

resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
try:
    refuse_few_open_files()
except InputError as error:
    sys.exit(str(error))
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def limited(soft: int, hard: int) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", LIMITED.format(soft=soft, hard=hard)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("soft", "after"), [(20, NEEDED), (NEEDED, NEEDED), (100, 100)])
def test_a_limit_that_can_be_raised_is_raised_as_far_as_needed(soft, after):
    assert limited(soft, 200).stdout.split() == [str(after), "200"]


def test_a_limit_that_cannot_be_raised_is_refused_in_one_line():
    done = limited(20, 20)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"this process may have 20 files open, and a run needs {NEEDED}: raise the limit")


def test_where_there_is_no_such_limit_nothing_is_refused(monkeypatch):
    """As on Windows."""
    monkeypatch.setitem(sys.modules, "resource", None)
    refuse_few_open_files(10**9)


def test_no_limit_at_all_is_enough(monkeypatch):
    import resource

    monkeypatch.setattr(resource, "getrlimit", lambda kind: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", None)
    refuse_few_open_files()


def test_a_limit_without_an_upper_end_is_raised(monkeypatch):
    import resource

    asked = []
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (20, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", lambda kind, limits: asked.append(limits))
    refuse_few_open_files()
    assert asked == [(NEEDED, resource.RLIM_INFINITY)]


def test_an_upper_end_that_is_just_enough_is_enough():
    assert limited(20, NEEDED).stdout.split() == [str(NEEDED)] * 2
    assert limited(20, NEEDED - 1).returncode == 1
