"""The torture itself: it disturbs a run in every way, and it finds bugs that are planted."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
KINDS = 11  # that a merge can have


@pytest.mark.long
@pytest.mark.everything
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the harness waits for processes as Linux does")
@pytest.mark.skipif(not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="faults.c needs a C compiler")
def test_every_kind_of_fault_is_survived_and_planted_bugs_are_found():
    few = ("--short", "--minutes", "15", "--faults", "1", "--case", "merge fp32")
    environment = {**os.environ, "PYTHONPATH": f"{TESTS}:{TESTS / 'stages'}"}
    command = [sys.executable, "-m", "torture", *few]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    *above, check, last = done.stdout.splitlines()
    found = re.fullmatch(r"(\d+) faults, (\d+) survived, 0 rows lost or doubled, 0 wrong", last)
    assert found, last
    assert found[1] == found[2]
    assert len([line for line in above if "merge fp32" in line]) == KINDS
    assert check == "4 of 4 planted bugs were found"
