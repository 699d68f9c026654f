"""The program's entry: it handles signals before slow imports begin.

Exit status: 0 done; 1 a bug; 2 an error in the input or the environment; 3 not everything is finished; 130 interrupted.
"""

import gc
import signal
import sys
from typing import NoReturn

from ..basics.interrupts import was_interrupted, watch_interrupts
from . import INTERRUPTED


def main() -> NoReturn:
    """Runs a command and exits with its status."""
    # Imports make hundreds of thousands of objects that stay. To look for garbage among them again and again takes a
    # fifth of the time of an import.
    gc.set_threshold(200_000, 50, 50)  # Python's own numbers are 700 or 2,000, and 10
    watch_interrupts()
    status = INTERRUPTED
    try:
        from .main import run

        status = run()
    except BaseException as error:
        if not was_interrupted(error):
            raise
    if status == INTERRUPTED:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        from .main import say_interrupted

        say_interrupted()
    gc.freeze()  # Python would look for garbage again, at a tenth of the time of a short command
    sys.exit(status)


if __name__ == "__main__":
    main()
