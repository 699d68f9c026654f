"""What each machine of a Ray cluster has done, for the messages of `-v`."""

import time
from collections import Counter
from dataclasses import dataclass, field

from ..printable import counted
from .ray_worker import Opened


@dataclass(eq=False)
class Nodes:
    """Workers, parts and sentences of each machine, for messages."""

    workers: Counter[str] = field(default_factory=Counter)
    parts: Counter[str] = field(default_factory=Counter)
    sentences: Counter[str] = field(default_factory=Counter)
    begun: float = field(default_factory=time.monotonic)

    def moved(self, before: Opened | None, now: Opened) -> None:
        """A worker has opened its model on another machine than before."""
        if before is not None:
            self.workers[before.node] -= 1
        self.workers[now.node] += 1

    def count(self, worker: Opened | None, sentences: int) -> None:
        """A worker has finished a part."""
        if worker is not None:
            self.parts[worker.node] += 1
            self.sentences[worker.node] += sentences

    def lines(self) -> list[str]:
        """One line for each machine that has finished a part."""
        seconds = max(time.monotonic() - self.begun, 1e-9)
        rates = {node: self.sentences[node] / seconds for node in sorted(self.parts)}
        return [
            f"Ray: node {node}: {counted(self.workers[node], 'worker')}, {counted(self.parts[node], 'part')}, "
            f"{rate:,.0f}/s"
            for node, rate in rates.items()
        ]
