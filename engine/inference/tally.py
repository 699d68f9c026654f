"""How many sentences and tokens the models of a run have run, for its record, and what they say.

A run in a thread of its own counts for itself: what is counted belongs to the context that `own` begins, and the
threads of a device take over the context of whoever gives them a batch.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True)
class Tally:
    """Sentences, and their tokens with the special ones; a sentence that two models decide counts twice."""

    sentences: int = 0
    tokens: int = 0


NOTHING = Tally()


class _Counter:
    def __init__(self) -> None:
        self.lock, self.counted = threading.Lock(), NOTHING
        self.listener: Callable[[str], None] = lambda _: None


_COUNTER: ContextVar[_Counter] = ContextVar("counter", default=_Counter())  # noqa: B039 - one where nobody began another


@contextmanager
def own(listener: Callable[[str], None]) -> Iterator[None]:
    """Count anew in this context, and hand on what models say while they run."""
    counter = _Counter()
    counter.listener = listener
    token = _COUNTER.set(counter)
    try:
        yield
    finally:
        _COUNTER.reset(token)


def apart() -> AbstractContextManager[None]:
    """Count anew in this context, for a part that is decided beside others; who listens stays."""
    return own(_COUNTER.get().listener)


def listen(listener: Callable[[str], None]) -> None:
    """Hand on what models say in this context, from now on: in a process that works for another one."""
    _COUNTER.get().listener = listener


def count(sentences: int, length: int = 0, *, tokens: int = 0) -> None:
    """Add sentences of `length` tokens that a model has run, or of so many different tokens together."""
    counter = _COUNTER.get()
    with counter.lock:
        before = counter.counted
        counter.counted = Tally(before.sentences + sentences, before.tokens + sentences * length + tokens)


def take() -> Tally:
    """What was counted since the last call."""
    counter = _COUNTER.get()
    with counter.lock:
        taken, counter.counted = counter.counted, NOTHING
    return taken


def say(line: str) -> None:
    """Tell the user something, such as why the first batch takes long; several threads may."""
    _COUNTER.get().listener(line)
