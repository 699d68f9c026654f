"""For the tests of benchmarks, in processes of their own: systems without a model."""

import os
import pickle
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from negengine.bench.child import Service
from negengine.bench.system import Items, System, Unavailable


@dataclass(eq=False)
class Adding(System[Items[int]]):
    """Adds a number to each value; it notes in a file when it runs."""

    name: str
    number: int
    log: str
    ours: bool = False
    reference: bool = False
    fewer: int = 1
    needs: tuple[str, ...] = ()
    fails: str = ""
    said = "adds"

    def open(self, place):
        if self.fails == "opening":
            raise Unavailable("the processor is too old")
        self.variables = os.environ["OMP_NUM_THREADS"]

    def run(self, work, choice):
        if self.fails == "running" and len(work) > 4:
            raise ValueError("no memory\nbut many lines")
        if self.fails == "dying":
            os.write(1, b"a last word\n")
            os._exit(3)
        with Path(self.log).open("a", encoding="utf-8") as file:
            file.write(f"{self.name}\n")
        return np.array(work.items) + self.number

    def found(self):
        return {"threads it was given": self.variables, "process": os.getpid()}


class Making(Adding):
    """Needs a file that is made once."""

    def make(self, place):
        (place.cache / "made").write_text(str(os.getpid()))

    def open(self, place):
        super().open(place)
        self.maker = int((place.cache / "made").read_text())

    def found(self):
        return {**super().found(), "maker": self.maker}


@contextmanager
def here(system, place, log):
    """Serves a system in this process: no import of PyTorch for each."""
    service = Service(pickle.dumps((system, place)))

    def ask(name, *arguments):
        try:
            return getattr(service, name)(*arguments)
        except (ImportError, ValueError, RuntimeError) as error:
            raise Unavailable(str(error)) from error

    yield SimpleNamespace(ask=ask)
