"""Messages and progress of a run, on stderr.

A meter is rich's bar in a terminal, and in a notebook with ipywidgets; elsewhere plain lines some seconds apart. It
shows from the first second what is being done, and later a rate: the sentences that this process has run, divided by
its time without preparation. A rate over the last seconds would mean nothing where one step takes minutes. The run
continues even if stderr fails (see `stderr`).
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, TextIO, cast

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from ..basics.printable import printable, printable_lines
from .stderr import Stderr

SENTENCES = "sentences"
_LINES = 20  # a log gets a line each time that a run has lasted by this fraction longer


class Meter:
    """Counts units, such as sentences or pairs, and sentences of this process; this one shows nothing.

    Its methods may be called from several threads. The total may be an estimate.
    """

    def __init__(
        self, what: str, total: int, done: int, *, unit: str, estimated: bool, clock: Callable[[], float]
    ) -> None:
        self.what, self.total, self.done = printable(what), total, done
        self.unit, self.estimated, self.sentences = unit, estimated, 0
        self._lock = threading.RLock()
        self._clock = clock
        self._at_start, self._start = done, clock()
        self._preparing, self._preparation = "starting", 0.0
        self._end: str | None = None

    def advance(self, units: int, sentences: int | None = None) -> None:
        with self._lock:
            self.done += units
            self.sentences += units if sentences is None else sentences
            if self._end is None:  # threads may tell of their last batches after an interrupt
                self._show()

    def extend(self, units: int) -> None:
        """More is to be done than was said: a part again, or a better estimate."""
        with self._lock:
            self.total += units
            self._show()

    @contextmanager
    def doing(self, text: str) -> Iterator[None]:
        """Show what is done before sentences run, such as `loading the model`; its time does not count for the rate."""
        begin = self._clock()
        with self._lock:
            self._preparing = printable(text)
            self._prepare()
        try:
            yield
        finally:
            with self._lock:
                self._preparation += self._clock() - begin
                self._preparing = "starting"

    def note(self, text: str) -> None:
        """Show a line of its own."""

    def close(self, end: str) -> None:
        with self._lock:
            self._end = end
            self._show()

    @property
    def rate(self) -> float:
        """Sentences per second, of this process."""
        return self.sentences / self._seconds

    @property
    def share(self) -> float:
        """What fraction of the whole is done; below 1 before the end where the total is an estimate."""
        if self.estimated:
            return 1.0 if self._end == "done in" else min(self.done / max(self.total, 1), 0.999)
        return min(self.done / self.total, 1.0) if self.total else 1.0

    @property
    def count(self) -> str:
        whole = f"{max(self.total, self.done):,}"
        if self.estimated and self._end == "done in":
            return f"{self.done:,} {self.unit}"
        return f"{self.done:,} of {'about ' if self.estimated else ''}{whole} {self.unit}"

    @property
    def speed(self) -> str:
        """What is being done at first; later the rate and the time left, or how long it took."""
        ran = f"{self.sentences:,} {SENTENCES}" if self.sentences and self.unit != SENTENCES else ""
        return ", ".join(filter(None, [ran, self._pace]))

    @property
    def line(self) -> str:
        return f"{self.what}: {self.count} ({_percent(self.share)}), {self.speed}"

    @property
    def _pace(self) -> str:
        words = []
        if self.sentences:
            words.append(f"{self.rate:,.0f}/s" if self.rate >= 10 else f"{self.rate:.1f}/s")
        if self._end:
            words.append(f"{self._end} {_duration(self._clock() - self._start)}")
        elif not self.sentences:
            words.append(self._preparing)
        elif (here := self.done - self._at_start) > 0 and self.done < self.total:
            words.append(f"{_duration((self.total - self.done) * self._seconds / here)} left")
        return ", ".join(words)

    @property
    def _nothing_to_do(self) -> bool:
        return self.done >= self.total and self.done == self._at_start and not self.sentences

    @property
    def _seconds(self) -> float:
        return max(self._clock() - self._start - self._preparation, 1e-9)

    def _prepare(self) -> None:
        """Show that something is prepared."""
        self._show()

    def _show(self) -> None:
        """Show how far it is."""


class _LineMeter(Meter):
    """One line at the start, some on the way, one at the end; none at all where nothing is to be done."""

    def __init__(self, stream: Stderr, every: float, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._stream, self._every = stream, every
        self._said_at = self._clock()
        if not self._nothing_to_do:
            whole = f"{'about ' if self.estimated else ''}{self.total:,} {self.unit}"
            self.note(f"{self.what}: {whole}" + (f", {self.done:,} are done already" if self.done else ""))

    def note(self, text: str) -> None:
        self._stream.write(printable_lines(text) + "\n")

    @property
    def _pause(self) -> float:
        """Seconds between two lines: more and more, so that the log of a long run stays short."""
        return max(self._every, (self._clock() - self._start) / _LINES)

    def _prepare(self) -> None:
        self.note(f"{self.what}: {self._preparing}")

    def _show(self) -> None:
        # `close` reports the end, once.
        if self._end is None and (self._clock() - self._said_at < self._pause or self.share == 1):
            return
        if self._nothing_to_do:
            return
        self._said_at = self._clock()
        self.note(self.line)


class _BarMeter(Meter):
    """A bar that stays at the foot of the terminal."""

    def __init__(self, progress: Progress, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._progress = progress
        self._task = progress.add_task(self.what, total=1.0, share="", count="", speed=self._preparing)
        self._show()

    def note(self, text: str) -> None:
        shown = printable_lines(text)
        self._progress.console.print(shown, markup=False, emoji=False, highlight=False, soft_wrap=True)

    def _show(self) -> None:
        self._progress.update(
            self._task,
            completed=self.share,
            share=_percent(self.share),
            count=f"{self.done:,}/{max(self.total, self.done):,}",
            speed=self._pace,  # a terminal of 80 columns has no room for more
        )


class Reporter:
    """Shows messages and progress of a run on stderr."""

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        verbose: bool = False,
        silent: bool = False,
        every: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.verbose, self.silent = verbose, silent
        self._stream = Stderr(stream)
        self._is_default = stream is None
        self._every, self._clock = every, clock
        self._meter: Meter | None = None

    def say(self, line: str) -> None:
        """Show one line, above the bar if there is one."""
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
    def meter(
        self, what: str, total: int, done: int = 0, *, unit: str = SENTENCES, estimated: bool = False
    ) -> Iterator[Meter]:
        """Show the progress of a stage, also at its end, even if it fails."""
        settings = {"unit": unit, "estimated": estimated, "clock": self._clock}
        with self._shown(what, total, done, settings) as meter:
            outer, self._meter = self._meter, meter
            end = "stopped after"
            try:
                yield meter
                end = "done in"
            finally:
                self._meter = outer
                meter.close(end)

    @contextmanager
    def _shown(self, what: str, total: int, done: int, settings: dict[str, Any]) -> Iterator[Meter]:
        if self.silent:
            yield Meter(what, total, done, **settings)
            return
        console = Console(file=cast("TextIO", self._stream), force_jupyter=None if self._is_default else False)
        # Not console.is_terminal: an environment that asks for colours makes it true for a file.
        is_terminal = self._stream.isatty() and not console.is_dumb_terminal
        # Without ipywidgets, rich shows nothing in a notebook.
        if not (find_spec("ipywidgets") if console.is_jupyter else is_terminal):
            yield _LineMeter(self._stream, self._every, what, total, done, **settings)
            return
        names = ("{task.description}", "{task.fields[share]}", "{task.fields[count]}", "{task.fields[speed]}")
        first, *others = (TextColumn(name, markup=False) for name in names)
        columns = (first, BarColumn(bar_width=None), *others, TimeElapsedColumn())
        with Progress(*columns, console=console, expand=True) as progress:
            yield _BarMeter(progress, what, total, done, **settings)


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
