"""A program: runs a command with parts of a few sentences, and stops it from outside after its first part.

stopped.py NAME COMMAND…    NAME is SIGINT, SIGTERM, SIGHUP or SIGKILL: the process gets this signal
stopped.py wait COMMAND…    the process says so in a line on stdout, and waits until its stdin is closed
stopped.py run COMMAND…     nothing stops it
"""

import functools
import os
import signal
import sys

from negengine.engine.cli.__main__ import main
from negengine.engine.experiments.negation.select import Selection
from negengine.engine.runs.folder import RunFolder


def stop(how: str) -> None:
    if how == "wait":
        print("first part", flush=True)  # noqa: T201
        sys.stdin.read()
    elif how != "run":
        os.kill(os.getpid(), signal.Signals[how])


def stopping_after_a_part(how: str):
    whole = RunFolder.write_part
    written = []

    def write_part(folder, number, part):
        whole(folder, number, part)
        written.append(number)
        if len(written) == 1:
            stop(how)

    return write_part


how = sys.argv.pop(1)
sys.argv[0] = "negengine"
Selection.plan = functools.partial(Selection.plan, candidates_per_part=1)
RunFolder.write_part = stopping_after_a_part(how)
main()
