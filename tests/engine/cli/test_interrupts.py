"""What an interrupt leaves: status 130, the command that resumes, finished parts, and the same result in the end."""

import subprocess
import sys
from pathlib import Path

import pytest

STOPPED = Path(__file__).with_name("stopped.py")
IMPORTING = """
import importlib.abc, os, signal, sys
from negengine.engine.cli.__main__ import main

class Interrupt(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == {name!r}:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
sys.argv = ["negengine", "compare", "nowhere"]
main()
"""


@pytest.fixture
def start(mini, small_lexicon, tmp_path):
    """Starts a selection of 12 parts that is stopped after the first one; see `stopped.py`."""

    def run(how, *more):
        command = [STOPPED, how, "select", mini.folder, "--lexicon", small_lexicon, "--precision", "fp32", "-o", "run"]
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        return subprocess.Popen([sys.executable, *map(str, [*command, *more])], cwd=tmp_path, encoding="utf-8", **pipes)

    return run


def parts(folder):
    """Finished parts of a run and when each was written."""
    return {path.name: path.stat().st_mtime_ns for path in (folder / "run/parts/select").glob("part-*.json")}


@pytest.mark.parametrize(
    ("sign", "more"), [("SIGINT", []), ("SIGTERM", ["--device", "cpu,cpu"]), ("SIGHUP", []), ("SIGKILL", [])]
)
def test_a_stopped_run_says_the_command_that_resumes_it_to_the_bytes_of_an_undisturbed_one(
    sign, more, start, selected_run, tmp_path
):
    process = start(sign, *more)
    out, err = process.communicate()
    if sign != "SIGKILL":
        assert (process.returncode, out) == (130, ""), err
        assert "Traceback" not in err
        line = err.splitlines()[-1]
        assert line.startswith("negengine: interrupted; finished parts are kept. To resume: negengine select ")
        assert "--output run" in line
    assert not (tmp_path / "run" / "triplets.parquet").exists()
    kept = parts(tmp_path)
    assert 0 < len(kept) < 12
    again = start("run")
    _, err = again.communicate()
    assert again.returncode == 0, err
    assert kept.items() <= parts(tmp_path).items(), "a finished part was done again"
    assert (tmp_path / "run" / "triplets.parquet").read_bytes() == (selected_run / "triplets.parquet").read_bytes()


def test_a_run_that_was_stopped_and_a_folder_that_is_none_are_told(start, command, tmp_path):
    start("SIGINT").communicate()
    assert command("score", "run").said.startswith("negengine: run: select is not finished; to resume it: ")
    assert command("compare", ".").said == "negengine: . is not a run folder: it has no run.json"


def test_a_second_process_in_the_same_folder_is_refused_while_the_first_one_runs(start):
    with start("wait") as first:
        assert first.stdout.readline() == "first part\n"
        second = start("run")
        _, err = second.communicate()
        first.stdin.close()
        first.wait()
    assert second.returncode == 2
    assert f"in use by process {first.pid}" in err.splitlines()[-1]
    assert first.returncode == 0


@pytest.mark.parametrize("name", ["typer", "polars"])
def test_an_interrupt_while_importing_is_not_a_traceback(name):
    command = [sys.executable, "-c", IMPORTING.format(name=name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "negengine: interrupted\n")
