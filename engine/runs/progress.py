"""Messages and progress of a run, on stderr: rich's bar in a terminal, or in a notebook with ipywidgets; else lines."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TextIO, cast

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from ..basics.printable import printable, printable_lines
from .stderr import Messages, Stderr

SENTENCES = "sentences"
_Clock = Callable[[], float]
_FORETELLS = 5.0  # seconds of work behind an estimate of the time left: the first sentences are slow
_EVERY = 10.0  # seconds between two lines of a log, at least
_LINES = 20  # a log gets a line each time that a run has lasted by this fraction longer


class Meter:
    """Counts units, such as pairs, and sentences of this process, from any thread; this one shows nothing."""

    def __init__(self, what: str, total: int, done: int, unit: str, clock: _Clock) -> None:
        self.what, self.total, self.done, self.unit, self.sentences = printable(what), total, done, unit, 0
        self._lock, self._clock = threading.RLock(), clock
        self._at_start, self._start, self._preparation = done, clock(), 0.0
        self._preparing, self._end = "starting", ""

    def advance(self, units: int, sentences: int | None = None) -> None:
        with self._lock:
            self.done += units
            self.sentences += units if sentences is None else sentences
            if not self._end:  # threads may tell of their last batches after an interrupt
                self._show()

    def extend(self, units: int) -> None:
        """More is to be done than was said: a part again."""
        with self._lock:
            self.total += units
            self._show()

    @contextmanager
    def doing(self, text: str) -> Iterator[None]:
        """Show what is done before sentences run, such as `loading the model`; its time does not count for the rate."""
        begin = self._clock()
        with self._lock:
            self._preparing = printable(text)
            self._show(f"{self.what}: {self._preparing}")
        try:
            yield
        finally:
            with self._lock:
                self._preparation += self._clock() - begin
                self._preparing = "starting"

    def close(self, end: str) -> None:
        with self._lock:
            self._end = end
            self._show(self.line)

    def note(self, text: str) -> None:
        """Show a line of its own."""

    @property
    def share(self) -> str:
        """How much is done, in percent: never 100 % before the end."""
        if self.done >= self.total:
            return "100 %"
        return f"{min(100 * self.done / self.total, 99.9):.1f} %"

    @property
    def pace(self) -> str:
        """What is being done at first; later the rate and the time left, or how long it took."""
        # the rate is that of the whole process: one over the last seconds means nothing where a step takes minutes
        seconds = max(self._clock() - self._start - self._preparation, 1e-9)
        words, rate, here = [], self.sentences / seconds, self.done - self._at_start
        if self.sentences:
            words.append(f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.1f}/s")
        if self._end:
            words.append(f"{self._end} {duration(self._clock() - self._start)}")
        elif not self.sentences:
            words.append(self._preparing)
        elif here > 0 and self.done < self.total and seconds >= _FORETELLS:
            words.append(f"{duration((self.total - self.done) * seconds / here)} left")
        return ", ".join(words)

    @property
    def line(self) -> str:
        ran = f"{self.sentences:,} {SENTENCES}, " if self.sentences and self.unit != SENTENCES else ""
        whole = max(self.total, self.done)
        return f"{self.what}: {self.done:,} of {whole:,} {self.unit} ({self.share}), {ran}{self.pace}"

    def _show(self, line: str = "") -> None:
        """Show how far it is; `line` tells something that is never left out."""


class _LineMeter(Meter):
    """One line at the start, some on the way, one at the end; none at all where nothing is to be done."""

    def __init__(self, stream: Stderr, what: str, total: int, done: int, unit: str, clock: _Clock) -> None:
        super().__init__(what, total, done, unit, clock)
        self._stream, self._said_at = stream, clock()
        self._show(f"{self.what}: {total:,} {unit}" + (f", {done:,} are done already" if done else ""))

    def note(self, text: str) -> None:
        self._stream.write(printable_lines(text) + "\n")

    def _show(self, line: str = "") -> None:
        now, is_idle = self._clock(), self.done >= self.total and self.done == self._at_start and not self.sentences
        # More and more seconds between two lines, so that the log of a long run stays short.
        is_due = now - self._said_at >= max(_EVERY, (now - self._start) / _LINES) and self.done < self.total
        if not is_idle and (line or is_due):
            self._said_at = now
            self.note(line or self.line)


class _BarMeter(Meter):
    def __init__(self, progress: Progress, what: str, total: int, done: int, unit: str, clock: _Clock) -> None:
        super().__init__(what, total, done, unit, clock)
        self._progress, self._task = progress, progress.add_task(self.what, total=1.0, share="", count="", pace="")
        self._show()

    def note(self, text: str) -> None:
        shown = printable_lines(text)
        self._progress.console.print(shown, markup=False, emoji=False, highlight=False, soft_wrap=True)

    def _show(self, line: str = "") -> None:  # noqa: ARG002 - a terminal of 80 columns has no room for more
        whole = max(self.total, self.done)
        count, share, pace = f"{self.done:,}/{whole:,}", self.share, self.pace
        self._progress.update(self._task, completed=self.done, total=whole, share=share, count=count, pace=pace)


class Reporter:
    """Shows messages and progress of a run on stderr."""

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        verbose: bool = False,
        silent: bool = False,
        clock: _Clock = time.monotonic,
    ) -> None:
        self.verbose, self.silent, self._clock = verbose, silent, clock
        self._stream, self._is_default = Stderr(stream), stream is None
        self._meter: Meter | None = None

    def say(self, line: str) -> None:
        if self.silent:
            return
        if self._meter is not None:
            self._meter.note(line)
        else:
            self._stream.write(printable_lines(line) + "\n")

    def detail(self, line: str) -> None:
        if self.verbose:
            self.say(line)

    @contextmanager
    def meter(self, what: str, total: int, done: int = 0, *, unit: str = SENTENCES) -> Iterator[Meter]:
        """Show the progress of a stage, also at its end, even if it fails."""
        with self._shown(what, total, done, unit) as meter:
            outer, self._meter = self._meter, meter
            end = "stopped after"
            try:
                yield meter
                end = "done in"
            finally:
                self._meter = outer
                meter.close(end)

    @contextmanager
    def _shown(self, what: str, total: int, done: int, unit: str) -> Iterator[Meter]:
        if self.silent:
            yield Meter(what, total, done, unit, self._clock)
            return
        console = Console(file=cast("TextIO", self._stream), force_jupyter=None if self._is_default else False)
        # Not console.is_terminal: an environment that asks for colours makes it true for a file.
        is_terminal = self._stream.isatty() and not console.is_dumb_terminal
        if self._is_default and (Messages.log is not None or Messages.quiet):  # a log has lines, and no bar
            is_terminal = False
        # Without ipywidgets, rich shows nothing in a notebook.
        if not (find_spec("ipywidgets") if console.is_jupyter else is_terminal):
            yield _LineMeter(self._stream, what, total, done, unit, self._clock)
            return
        names = ("{task.description}", "{task.fields[share]}", "{task.fields[count]}", "{task.fields[pace]}")
        first, *others = (TextColumn(name, markup=False) for name in names)
        columns = (first, BarColumn(bar_width=None), *others, TimeElapsedColumn())
        with Progress(*columns, console=console, expand=True) as progress:
            yield _BarMeter(progress, what, total, done, unit, self._clock)


def duration(seconds: float) -> str:
    """Such as `3 min 05 s`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
