"""Finishing parts in a thread of its own, behind the process that takes them from workers."""

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Self

from .executors import Finish
from .part import EncodedPart

_MOST = 64  # parts in memory that are not finished yet


class Behind:
    """Finishes parts in a thread, in their order; at the end all that were handed over are finished.

    Args:
        finish: What finishes a part.
    """

    def __init__(self, finish: Finish) -> None:
        self._finish = finish
        self._thread = ThreadPoolExecutor(1, "finish")
        self._begun: deque[Future[None]] = deque()

    def finish(self, number: int, part: EncodedPart) -> None:
        """Hand a part over; waits if many are not finished yet.

        Raises:
            InputError: An earlier one could not be written.
        """
        self._begun.append(self._thread.submit(self._finish, number, part))
        while self._begun and (self._begun[0].done() or len(self._begun) > _MOST):
            self._begun.popleft().result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._thread.shutdown()
        if kind is None:  # the first error is the one to tell
            for future in self._begun:
                future.result()
