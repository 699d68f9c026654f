"""How far a long run is, on stderr: a bar on a terminal, plain lines elsewhere.

Rate and time left are over the whole of this process: what comes in steps of minutes has no shorter-term rate. That
stderr is gone (a closed terminal, a full disk behind a log) never ends a run.
"""

import io
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TextIO, cast

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

_SECONDS_BETWEEN_LINES = 10.0


class _Tolerant(io.TextIOBase):
    """A stream that takes what another no longer does."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._terminal = stream.isatty()

    @property
    def encoding(self) -> str:  # type: ignore[override]  # io's own is no more than the annotation of an attribute
        return self._stream.encoding or "utf-8"

    def isatty(self) -> bool:
        return self._terminal

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError):  # broken, closed
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._stream.flush()


class Meter:
    """Counts what is done; `advance` may be called from one thread.

    Attributes:
        what: The name of the run's stage.
        total: How many sentences there are.
        done: How many are done.
    """

    def __init__(self, what: str, total: int, done: int = 0, clock: Callable[[], float] = time.monotonic) -> None:
        self.what, self.total, self.done = what, total, done
        self._clock = clock
        self._start, self._at_start = clock(), done

    def advance(self, n: int) -> None:
        """Count n more sentences."""
        self.done += n

    def note(self, text: str) -> None:
        """Say something between."""
        raise NotImplementedError

    def close(self) -> None:
        """Show how far it got."""

    @property
    def rate(self) -> float:
        """Sentences a second since the start of this process."""
        return (self.done - self._at_start) / max(self._clock() - self._start, 1e-9)

    @property
    def share(self) -> float:
        """What part of the whole is done."""
        return self.done / self.total if self.total else 1.0

    @property
    def speed(self) -> str:
        """Rate and time left in words."""
        if self.done == self._at_start:
            return "starting"
        rate = f"{self.rate:,.0f}/s" if self.rate >= 10 else f"{self.rate:.1f}/s"
        if self.done >= self.total:
            return f"{rate}, done in {_duration(self._clock() - self._start)}"
        return f"{rate}, {_duration((self.total - self.done) / self.rate)} left"

    @property
    def line(self) -> str:
        """Everything in one line."""
        return f"{self.what}: {self.done:,} of {self.total:,} ({_percent(self.share)}), {self.speed}"


class _LineMeter(Meter):
    """Plain lines, some seconds apart, and one at the end."""

    def __init__(self, what: str, total: int, done: int, stream: _Tolerant, clock: Callable[[], float]) -> None:
        super().__init__(what, total, done, clock)
        self._stream = stream
        self._said_at, self._said_done = clock(), done

    def advance(self, n: int) -> None:
        super().advance(n)
        if self._clock() - self._said_at >= _SECONDS_BETWEEN_LINES:
            self._say()

    def note(self, text: str) -> None:
        self._stream.write(text + "\n")
        self._stream.flush()

    def close(self) -> None:
        if self.done != self._said_done:
            self._say()

    def _say(self) -> None:
        self._said_at, self._said_done = self._clock(), self.done
        self.note(self.line)


class _BarMeter(Meter):
    """A bar that stays at the foot of the terminal."""

    def __init__(self, what: str, total: int, done: int, progress: Progress, clock: Callable[[], float]) -> None:
        super().__init__(what, total, done, clock)
        self._progress = progress
        self._task = progress.add_task(escape(what), total=total, completed=done, share="", count="", speed="")
        self._show()

    def advance(self, n: int) -> None:
        super().advance(n)
        self._show()

    def note(self, text: str) -> None:
        self._progress.console.print(text, markup=False, highlight=False)

    def close(self) -> None:
        self._show()

    def _show(self) -> None:
        count = f"{self.done:,}/{self.total:,}"
        self._progress.update(
            self._task, completed=self.done, share=_percent(self.share), count=count, speed=self.speed
        )


@contextmanager
def metered(
    what: str,
    total: int,
    done: int = 0,
    *,
    stream: TextIO | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Meter]:
    """Show the progress of a run, and at its end how far it got, however it ends.

    Args:
        what: The name of the run's stage.
        total: How many sentences there are.
        done: How many of them an earlier process did; they do not count for the rate.
        stream: Where to; stderr by default.
        clock: Seconds that never go back.
    """
    tolerant = _Tolerant(sys.stderr if stream is None else stream)
    console = Console(file=cast("TextIO", tolerant))
    # Not console.is_terminal: an environment that asks for colours makes it true for a file.
    if not tolerant.isatty() or console.is_dumb_terminal:
        meter: Meter = _LineMeter(what, total, done, tolerant, clock)
        try:
            yield meter
        finally:
            meter.close()
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[share]}"),
        TextColumn("{task.fields[count]}"),
        TextColumn("{task.fields[speed]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, expand=True) as progress:
        meter = _BarMeter(what, total, done, progress, clock)
        try:
            yield meter
        finally:
            meter.close()


def _percent(share: float) -> str:
    """Never 100 % before the end."""
    return "100 %" if share >= 1 else f"{min(100 * share, 99.9):.1f} %"


def _duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


class Reporter:
    """What a run says while it works, on stderr."""

    def __init__(self, stream: TextIO | None = None, *, verbose: bool = False, silent: bool = False) -> None:
        self._stream, self._verbose, self._silent = stream, verbose, silent

    def say(self, line: str) -> None:
        """A line for everyone."""
        if not self._silent:
            _Tolerant(sys.stderr if self._stream is None else self._stream).write(line + "\n")

    def detail(self, line: str) -> None:
        """A line for developers."""
        if self._verbose:
            self.say(line)

    @contextmanager
    def meter(self, what: str, total: int, done: int = 0, *, unit: str = "sentences") -> Iterator["UnitMeter"]:
        """Show how far a stage is."""
        stream = io.StringIO() if self._silent else self._stream
        with metered(what, total, done, stream=stream) as meter:
            yield UnitMeter(meter)


class UnitMeter:
    """Counts units of work and the sentences that ran for them."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def advance(self, done: int, sentences: int) -> None:
        """Count what is done."""
        self._meter.advance(done)
