"""A process that was forked from one that has worked says so in one line, and does not wait for threads for ever."""

import os

import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.basics.forks import refuse_forked

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
IGNORED = """
import signal, sys
signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup leaves it
sys.argv = ["negengine", "--version"]
from negengine.engine.cli.__main__ import main
try:
    main()
finally:
    print(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN, signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)
"""


def test_a_forked_process_is_refused_once_its_parent_has_worked():
    refuse_forked()
    source, target = os.pipe()
    if not (child := os.fork()):
        try:
            refuse_forked()
        except InputError as error:
            os.write(target, str(error).encode())
        finally:
            os._exit(0)
    os.close(target)
    with os.fdopen(source) as stream:
        said = stream.read()
    os.waitpid(child, 0)
    assert said.startswith("this process was forked from one that has used negengine")
    assert 'multiprocessing.get_context("spawn")' in said
    refuse_forked()  # the parent goes on


def test_an_ignored_signal_stays_ignored(python):
    assert python("-c", IGNORED).out.splitlines()[-1] == "True False"
