"""The torture itself: it disturbs a run in every way, and it finds bugs that are planted."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
KINDS = 21  # that a merge can have


@pytest.fixture(scope="module")
def torture(tmp_path_factory):
    """Runs the harness with some arguments, and gives its status, stdout and stderr."""
    folder = tmp_path_factory.mktemp("torture")

    def run(*arguments):
        command = [sys.executable, "-m", "torture", "--folder", folder, "--world", folder / "world", *arguments]
        environment = {**os.environ, "PYTHONPATH": str(TESTS)}
        return subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, env=environment)

    return run


pytestmark = [
    pytest.mark.long,
    pytest.mark.everything,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the harness waits for processes as Linux does"),
    pytest.mark.skipif(not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="faults.c needs a C compiler"),
]


def test_every_kind_of_fault_is_survived_and_planted_bugs_are_found(torture, tmp_path):
    document = tmp_path / "table.md"
    done = torture(
        "--short",
        "--minutes",
        15,
        "--faults",
        1,
        "--case",
        "merge fp32",
        "--skip",
        "real-commands",
        "--write",
        document,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    *above, check, last = done.stdout.splitlines()
    found = re.fullmatch(r"(\d+) faults, (\d+) survived, 0 rows lost or doubled, 0 wrong", last)
    assert found, last
    assert found[1] == found[2]
    assert len([line for line in above if "merge fp32" in line]) == KINDS
    planted = re.fullmatch(r"(\d) of (\d) planted bugs were found", check)
    assert planted, check
    assert planted[1] == planted[2] > "4"
    assert last in document.read_text("utf-8")


def test_a_kind_and_a_command_can_be_chosen(torture):
    done = torture(
        "--short", "--minutes", 9, "--faults", 2, "--only", "error-once", "--case", "merge fp32", "--jobs", 1
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = [line.split() for line in done.stdout.splitlines() if line.startswith("error-once")]
    assert row[:7] == ["error-once", "merge", "fp32", "2", "2", "0", "0"]


def test_a_second_call_goes_on_until_every_write_has_failed(torture, tmp_path):
    chosen = ("--minutes", 10, "--only", "short-write", "--case", "merge fp32", "--jobs", 1, "--resume", tmp_path)
    (first,) = [line for line in torture(*chosen, "--faults", 3).stdout.splitlines() if line.startswith("short-write")]
    assert re.search(r"merge fp32 +3 +3 +0 +0  [23] of \d+ writes", first), first
    (second,) = [line for line in torture(*chosen).stdout.splitlines() if line.startswith("short-write")]
    found = re.search(r"merge fp32 +(\d+) +(\d+) +0 +0  all (\d+) writes", second)
    assert found, second
    assert found[1] == found[2] == found[3]
