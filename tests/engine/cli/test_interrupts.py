"""What an interrupt leaves: status 130, the command that resumes, finished parts, and the same result in the end."""

import subprocess
import sys

import pytest

# Runs a command with parts of one sentence, and gets a signal after its first part
STOPPED = """
import functools, os, signal, sys
from negengine.engine.cli.__main__ import main
from negengine.engine.experiments.negation.select import Selection
from negengine.engine.runs.folder import RunFolder

def write_part(folder, number, part):
    whole(folder, number, part)
    written.append(number)
    if len(written) == 1 and sign:
        os.kill(os.getpid(), signal.Signals[sign])

sign = sys.argv.pop(1)
if sign not in {"", "SIGKILL"}:  # the tests may run where it is ignored, as under nohup
    signal.signal(signal.Signals[sign], signal.default_int_handler if sign == "SIGINT" else signal.SIG_DFL)
sys.argv[0] = "negengine"
Selection.plan = functools.partial(Selection.plan, candidates_per_part=1)
whole, written = RunFolder.write_part, []
RunFolder.write_part = write_part
main()
"""
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
TURNED = """
import os, signal, sys
import polars as pl
from negengine.engine.cli import main as program
from negengine.engine.cli.__main__ import main

def stopped():
    try:
        os.kill(os.getpid(), signal.SIGINT)
    except KeyboardInterrupt:
        raise {error} from None

program._refuse_wrong_words = stopped
sys.argv = ["negengine", "compare", "nowhere"]
main()
"""


@pytest.fixture
def start(python, mini, small_lexicon, tmp_path):
    """Runs a selection of 12 parts that gets a signal after the first one, or none."""

    def run(sign, *more):
        words = [sign, "select", mini.folder, "--lexicon", small_lexicon, "--precision", "fp32", "-o", "run", *more]
        return python("-c", STOPPED, *words, cwd=tmp_path)

    return run


def parts(folder):
    """Finished parts of a run and when each was written."""
    return {path.name: path.stat().st_mtime_ns for path in (folder / "run/parts/select").glob("part-*.json")}


@pytest.mark.parametrize(
    ("sign", "more"),
    [
        ("SIGINT", []),
        ("SIGTERM", ["--device", "cpu,cpu"]),
        pytest.param("SIGHUP", [], marks=pytest.mark.everything),
        pytest.param("SIGKILL", [], marks=pytest.mark.everything),
    ],
)
def test_a_stopped_run_says_the_command_that_resumes_it_to_the_bytes_of_an_undisturbed_one(
    sign, more, start, selected_run, tmp_path
):
    stopped = start(sign, *more)
    if sign != "SIGKILL":
        assert (stopped.status, stopped.out) == (130, ""), stopped.err
        assert "Traceback" not in stopped.err
        assert stopped.said.startswith("negengine: interrupted; finished parts are kept. To resume: negengine select ")
        assert "--output run" in stopped.said
    assert not (tmp_path / "run" / "triplets.parquet").exists()
    kept = parts(tmp_path)
    assert 0 < len(kept) < 12
    again = start("")
    assert again.status == 0, again.err
    assert kept.items() <= parts(tmp_path).items(), "a finished part was done again"
    assert (tmp_path / "run" / "triplets.parquet").read_bytes() == (selected_run / "triplets.parquet").read_bytes()


@pytest.mark.parametrize("name", ["click", "polars"])
def test_an_interrupt_while_importing_is_not_a_traceback(name, python):
    done = python("-c", IMPORTING.format(name=name))
    assert (done.status, done.err) == (130, "negengine: interrupted\n")


@pytest.mark.parametrize("error", ["pl.exceptions.PanicException('Err: KeyboardInterrupt')", "OSError('a file')"])
def test_an_interrupt_that_another_library_turns_into_its_own_error_is_one(error, python):
    """As Polars does: a signal while it reads from an object of Python is an error of the file."""
    done = python("-c", TURNED.format(error=error))
    assert (done.status, done.err) == (130, "negengine: interrupted\n")


WAITING = """
import os, signal, sys, threading
signal.signal(signal.SIGINT, signal.default_int_handler)  # the tests may run where it is ignored, as under nohup
import polars  # which sets a handler of its own
from negengine.engine.basics.interrupts import end_waits

def interrupt():
    with begun:
        sys.setswitchinterval(0.005)
        while True:
            os.kill(os.getpid(), signal.SIGINT)

end_waits()
begun, ended = threading.Lock(), threading.Lock()
begun.acquire()
ended.acquire()
threading.Thread(target=interrupt, daemon=True).start()
sys.setswitchinterval(1000)  # the other thread goes on when this one waits, and not before
begun.release()
try:
    ended.acquire()
except KeyboardInterrupt:
    os._exit(7)
"""


def test_an_interrupt_ends_a_wait_though_polars_has_a_handler():
    assert subprocess.run([sys.executable, "-c", WAITING], timeout=60, check=False).returncode == 7
