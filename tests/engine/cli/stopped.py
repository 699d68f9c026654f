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


def write_part(folder, number, part):
    whole(folder, number, part)
    written.append(number)
    if len(written) == 1 and how == "wait":
        print("first part", flush=True)  # noqa: T201
        sys.stdin.read()
    elif len(written) == 1 and how != "run":
        os.kill(os.getpid(), signal.Signals[how])


how = sys.argv.pop(1)
sys.argv[0] = "negengine"
Selection.plan = functools.partial(Selection.plan, candidates_per_part=1)
whole, written = RunFolder.write_part, []
RunFolder.write_part = write_part
main()
