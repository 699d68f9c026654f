"""Threads that run batches: what the runners of all devices share; see `Runner`."""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from .batches import Advance, Array, Batch, Feeds, Result, RunOne, fetching, ignored


class Pool(ABC):
    """Some threads, each of which runs one batch or does one job at a time.

    Args:
        count: threads.
        name: of the threads.
    """

    def __init__(self, count: int, name: str) -> None:
        self._threads = ThreadPoolExecutor(count, name)

    @abstractmethod
    def _run(self, batch: Batch, advance: Advance) -> None:
        """Decide about the sentences of one batch."""

    @abstractmethod
    def _run_one(self, outputs: Sequence[str], feeds: Feeds) -> list[Array]:
        """See `RunOne`."""

    def run(self, batches: Sequence[Batch], advance: Advance = ignored) -> None:
        """See `Runner`."""
        for _ in self._threads.map(self._run, batches, itertools.repeat(advance)):
            pass

    def fetch(self, outputs: Sequence[str], batches: Sequence[Feeds], advance: Advance = ignored) -> list[list[Array]]:
        """See `Runner`."""
        return list(self.work(fetching(outputs, batches, advance)))

    def work(self, jobs: Sequence[Callable[[RunOne], Result]]) -> Iterator[Result]:
        """See `Runner`."""
        return self._threads.map(lambda job: job(self._run_one), jobs)
