"""The process of one system: it opens the system, and runs it as often as the parent asks.

The parent sends a call, the name of a method of `Service` and its arguments, and gets whether it worked, and the value
or a line that says why not.
"""

import os
import pickle
import sys
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from .machine import peak_megabytes, restart_peak, use_threads


@dataclass(frozen=True)
class Took:
    """What opening a system or one run took."""

    seconds: float  # wall time; of opening with the imports of its libraries
    megabytes: float | None  # peak memory of the process meanwhile; None where the operating system does not tell
    answers: Any = None  # what a run found


def serve(connection: Connection, pickled: bytes, threads: int, log: str) -> None:
    """Answer the parent until it closes the connection."""
    with Path(log).open("ab", buffering=0) as file:
        sys.stdout.flush()
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    use_threads(threads)
    served = Service(pickled)
    while True:
        try:
            name, arguments = connection.recv()
        except EOFError:
            return
        try:
            answer = True, getattr(served, name)(*arguments)
        except Exception as error:  # noqa: BLE001 - whatever a library raises is a line in the parent
            from .system import Unavailable  # noqa: PLC0415 - after the number of threads is set

            traceback.print_exc()
            said = str(error).strip().partition("\n")[0]
            answer = False, said if isinstance(error, Unavailable) else f"{type(error).__name__}: {said}"
        connection.send(answer)


class Service:
    """What the parent may ask for: one system, opened and run."""

    def __init__(self, pickled: bytes) -> None:
        self._pickled = pickled

    def make(self) -> None:
        system, place = pickle.loads(self._pickled)  # noqa: S301 - from the parent
        system.make(place)

    def open(self) -> Took:
        began = time.perf_counter()
        self._system, place = pickle.loads(self._pickled)  # noqa: S301 - from the parent
        self._system.open(place)
        return Took(time.perf_counter() - began, peak_megabytes())

    def settle(self, work: Any) -> None:
        self._system.settle(work)

    def take(self, work: Any) -> None:
        self._work = work
        restart_peak()

    def run(self, choice: Mapping[str, int]) -> Took:
        began = time.perf_counter()
        answers = self._system.run(self._work, choice)
        return Took(time.perf_counter() - began, peak_megabytes(), answers)

    def found(self) -> Mapping[str, Any]:
        return dict(self._system.found())
