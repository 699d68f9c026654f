"""How a person or a batch system stops the program: at once, by an exception.

Another library that calls Python can turn this exception into one of its own. Polars turns it into a panic, or into an
error of a file that is sound. So the signal itself is noted.
"""

import signal
from types import FrameType
from typing import NoReturn

_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")  # Ctrl-C, the stop of a batch system, a closed terminal
_noted: list[int] = []


def watch_interrupts() -> None:
    """Let signals that stop the program be exceptions. Those that are ignored, as `nohup` does, stay so."""
    for number in (getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _interrupt)


def end_waits() -> None:
    """Let Ctrl-C end a wait for a process or a thread; with the handler that Polars sets, the wait goes on.

    It is called when Polars is imported already.
    """
    if hasattr(signal, "siginterrupt"):  # not on Windows
        signal.siginterrupt(signal.SIGINT, True)


def _interrupt(number: int, _: FrameType | None) -> NoReturn:
    _noted.append(number)
    raise KeyboardInterrupt


def was_interrupted(error: BaseException | None = None) -> bool:
    """Whether an error is an interrupt, or a signal has stopped the program, from which all later errors come."""
    return isinstance(error, KeyboardInterrupt) or bool(_noted)
