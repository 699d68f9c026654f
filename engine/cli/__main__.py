"""The program's entry: it handles signals before slow imports begin.

Exit status: 0 done; 1 a bug; 2 an error in the input or the environment; 3 not everything is finished; 130 interrupted.
"""

import gc
import signal
import sys
from typing import NoReturn

from . import INTERRUPTED


def main() -> NoReturn:
    """Runs a command and exits with its status."""
    # Imports make hundreds of thousands of objects that stay. To look for garbage among them again and again takes a
    # fifth of the time of an import.
    gc.set_threshold(200_000, 50, 50)  # Python's own numbers are 700 or 2,000, and 10
    for name in ("SIGTERM", "SIGHUP"):  # a batch system's stop signal, a closed terminal: interrupts, too
        # `nohup` and `trap '' HUP` have a signal ignored: it stays so.
        if hasattr(signal, name) and signal.getsignal(getattr(signal, name)) != signal.SIG_IGN:
            signal.signal(getattr(signal, name), signal.default_int_handler)
    status = INTERRUPTED
    try:
        from .main import run

        status = run()
    except KeyboardInterrupt:
        pass
    if status == INTERRUPTED:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        from .main import say_interrupted

        say_interrupted()
    gc.freeze()  # Python would look for garbage again, at a tenth of the time of a short command
    sys.exit(status)


if __name__ == "__main__":
    main()
