"""How many sentences and tokens the models of this process have run, for the run's record, and what they say."""

import threading
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Tally:
    """Sentences, and their tokens with the special ones; a sentence that two models decide counts twice."""

    sentences: int = 0
    tokens: int = 0


NOTHING = Tally()
_LOCK = threading.Lock()
_counted = NOTHING


def count(sentences: int, length: int = 0, *, tokens: int = 0) -> None:
    """Add sentences of `length` tokens that a model has run, or of so many different tokens together."""
    global _counted  # noqa: PLW0603 - one for the process, whichever models it has opened
    with _LOCK:
        _counted = Tally(_counted.sentences + sentences, _counted.tokens + sentences * length + tokens)


def take() -> Tally:
    """What was counted since the last call."""
    global _counted
    with _LOCK:
        taken, _counted = _counted, NOTHING
    return taken


_listeners: list[Callable[[str], None]] = []


def listen(listener: Callable[[str], None]) -> None:
    """Hand on what models say while they run, from now on."""
    _listeners[:] = [listener]


def say(line: str) -> None:
    """Tell the user something, such as why the first batch takes long; several threads may."""
    for listener in _listeners:
        listener(line)
