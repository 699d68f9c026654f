"""Systems for tests of `bench/rounds.py`, which runs them in processes of their own: no model, no time."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from negengine.bench.system import System, Unavailable


@dataclass(frozen=True)
class Numbers:
    values: tuple[int, ...]

    def __len__(self):
        return len(self.values)

    def head(self, n):
        return Numbers(self.values[:n])


@dataclass(eq=False)
class Adding(System[Numbers]):
    """Adds a number to each value; it notes in a file when it runs, and with which batch size."""

    name: str
    number: int
    log: str
    sizes: tuple[int, ...] = (1,)
    ours: bool = False
    fewer: int = 1
    needs: tuple[str, ...] = ()
    fails: str = ""

    def about(self, choice):
        return f"batches of {choice['batch']}"

    def choices(self, place):
        return [{"batch": size} for size in self.sizes]

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
            file.write(f"{self.name} {len(work)} {choice['batch']}\n")
        end = time.perf_counter() + 0.002 * choice["batch"]
        while time.perf_counter() < end and len(self.sizes) > 1:  # a larger batch takes longer
            sum(range(100))
        return np.array(work.values) + self.number

    def found(self):
        return {"threads it was given": self.variables, "process": os.getpid()}


@dataclass(eq=False)
class Making(Adding):
    """Needs a file that is made once."""

    def make(self, place):
        (place.cache / f"{self.name}.txt").write_text(str(os.getpid()))

    def found(self):
        return {"maker": int(self.made), "process": os.getpid()}

    def open(self, place):
        super().open(place)
        self.made = (place.cache / f"{self.name}.txt").read_text()
