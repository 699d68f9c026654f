"""A discrete simulation of a run on Ray: any number of workers, one process that gives out and writes the parts.

What is simulated is what `engine/runs/ray_pool.py` does: each worker has at most two parts; a part that is decided
waits for the one thread that takes answers and gives out parts (`handling`), then for the one thread that writes parts
(`writing`); every worker is asked how far it is, once a second or, beyond 200 workers, 200 workers a second (`asking`).
The times come from measured runs. Answers to questions are a constant load on the first thread.
"""

import heapq
import random
from collections import deque
from dataclasses import dataclass

_IN_FLIGHT = 2
_QUESTIONS = 200.0  # a second, at most
_MOST_BEHIND = 64  # parts in memory before the first thread waits for the second one


@dataclass(frozen=True)
class Costs:
    """Measured times, in seconds.

    Attributes:
        part: A worker decides a part: the mean.
        spread: Standard deviation of the logarithm of these times.
        handling: The first thread takes an answer and gives out the next part.
        writing: The second thread writes a part.
        asking: The first thread asks a worker and takes the answer.
        network: A message in one direction.
    """

    part: float
    spread: float
    handling: float
    writing: float
    asking: float = 2e-4
    network: float = 1e-3


@dataclass(frozen=True)
class Simulated:
    """What came out.

    Attributes:
        workers: How many.
        parts: How many parts each second.
        working: The share of the time in which workers decided.
        handling: The share of the time in which the first thread worked.
        writing: The share of the time in which the second thread worked.
    """

    workers: int
    parts: float
    working: float
    handling: float
    writing: float


def simulate(workers: int, costs: Costs, *, parts_each: int = 30, seed: int = 0) -> Simulated:
    """Run a number of parts for each worker.

    Args:
        workers: How many.
        costs: The measured times.
        parts_each: Parts for each worker.
        seed: Of the times of the parts.
    """
    draw = random.Random(seed)  # noqa: S311 - nothing is secret
    mean = -(costs.spread**2) / 2
    total = workers * parts_each
    asking = min(workers, _QUESTIONS) * costs.asking  # share of the first thread
    handling = costs.handling / max(1e-9, 1 - asking)
    given = busy = written = 0.0
    first = second = 0.0  # when each thread is free
    behind: deque[float] = deque()
    free = [0.0] * workers  # when a worker has decided what it has
    done: list[tuple[float, int]] = []  # answers on their way: when they arrive, from which worker

    def give(worker: int, at: float) -> None:
        nonlocal busy
        begin = max(free[worker], at + costs.network)
        seconds = costs.part * draw.lognormvariate(mean, costs.spread)
        free[worker] = begin + seconds
        busy += seconds
        heapq.heappush(done, (free[worker] + costs.network, worker))

    for _ in range(_IN_FLIGHT):
        for worker in range(workers):
            if given < total:
                first += handling / 2  # giving out is about half of it
                give(worker, first)
                given += 1
    while done:
        arrived, worker = heapq.heappop(done)
        first = max(first, arrived)
        while behind and behind[0] <= first:
            behind.popleft()
        if len(behind) >= _MOST_BEHIND:
            first = max(first, behind.popleft())
        first += handling
        if given < total:
            give(worker, first)
            given += 1
        second = max(second, first) + costs.writing
        behind.append(second)
        written += 1
    end = max(first, second)
    return Simulated(
        workers=workers,
        parts=written / end,
        working=busy / (workers * end),
        handling=min(1.0, written * costs.handling / end + asking),
        writing=written * costs.writing / end,
    )


def saturation(costs: Costs) -> float:
    """Parts a second beyond which more workers do not help."""
    return 1 / max(costs.handling / max(1e-9, 1 - _QUESTIONS * costs.asking), costs.writing)
