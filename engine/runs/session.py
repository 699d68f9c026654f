"""A session: one process that works on a stage, in a file that is written with every finished part.

So it ends with its last finished part if it is killed. It holds neither the name of a host nor that of a user.
"""

import platform
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from ..basics.errors import InputError, first_line, shortened
from ..basics.paths import without_home_inside
from ..basics.versions import own_version, source_commit, versions
from ..inference.machine import PROCESSOR, EnergyMeter, machine
from .stage import Choices

PYTHON = "python"  # the command of a session that no script and no program has started
INTERRUPTED = "interrupted"  # why a session ended that a person or a batch system has stopped


class Session(msgspec.Struct, omit_defaults=True):
    """One process that works on a stage, as its file holds it."""

    command: str | None = None  # the command line; `python` for an interactive one
    again: str | None = None  # the same without --shard and --output; None for a script, a suite, a reproduction
    run: str | None = None  # the word of `again` that is a run folder: the run that it went on from
    started: str | None = None  # When it began, in UTC
    seconds: float | None = None  # From its begin to its end; of a process that was killed, to its last finished part
    negengine: str | None = None  # Version
    source: str | None = None  # commit of negengine's source, with `+changes` if files differ from it, if known
    python: str | None = None  # Version
    packages: dict[str, str] = {}  # Package → version, of those that decide a number
    machine: dict[str, Any] = {}  # See `negengine.engine.inference.machine.machine`
    # what each process that decides parts has opened; on a Ray cluster also its machine, and how many are alike
    workers: list[dict[str, Any]] = []
    precision: str | dict[str, str] | None = None  # One word, or pattern → word where patterns differ
    parts: int = 0  # number of parts that it has finished
    sentences: int = 0  # that its models have run, those of the calibration and the audit included
    tokens: int = 0  # Their tokens
    joules: dict[str, float] = {}  # device that it used → energy, with that of other programs, where the machine tells
    shard: str | None = None  # In a merged run: the shard that it worked on, as `I/N`
    merged: list[str] = []  # of a session that merged: the folders of the shards
    failed: str | None = None  # why it ended before its stage was finished; missing after a kill


class Clock:
    """Time and energy since a process began to work on a stage."""

    def __init__(self, started: float | None = None) -> None:
        self._started = time.monotonic() if started is None else started
        self._energy = EnergyMeter()

    def begin(self, session: Session) -> None:
        since = timedelta(seconds=time.monotonic() - self._started)
        session.started = (datetime.now(UTC) - since).isoformat(timespec="seconds")
        session.negengine = own_version()
        session.source = source_commit()
        session.python = platform.python_version()
        session.packages = versions()
        session.machine = machine()
        self.read(session)

    def read(self, session: Session) -> None:
        session.seconds = round(time.monotonic() - self._started, 3)
        used = {PROCESSOR, *(str(worker.get("device")) for worker in session.workers)}
        joules = self._energy.joules()  # of all devices of the machine, also of those that others use
        if any("machine" in worker for worker in session.workers):
            joules = {}  # the workers are on other machines, whose energy this process cannot read
        session.joules = {device: round(joules[device], 3) for device in joules if device in used}


def used_models(session: Session, workers: Sequence[Mapping[str, Any]], choices: Choices) -> None:
    """Write down what a session has opened, and how it decides each pattern."""
    session.workers = [dict(worker) for worker in workers]
    kinds = {
        pattern: str(choice["precision"]) for pattern, choice in choices.calibration.items() if "precision" in choice
    }
    kinds = kinds or {
        str(worker.get("device")): str(worker["precision"]) for worker in workers if "precision" in worker
    }
    words = set(kinds.values())
    session.precision = kinds if len(words) > 1 else next(iter(words), None)


def ended_early(session: Session, error: BaseException) -> None:
    """Write down why a session ends before its stage is finished."""
    if isinstance(error, KeyboardInterrupt):
        session.failed = INTERRUPTED
        return
    said = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {first_line(error)}"
    session.failed = shortened(without_home_inside(said))
