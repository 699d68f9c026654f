"""How far a long run is: a bar on a terminal, plain lines elsewhere; always on stderr."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

_SECONDS_BETWEEN_LINES = 10.0


class Meter:
    """Counts sentences; `advance` may be called from one thread."""

    def __init__(self, what: str, total: int, done: int = 0) -> None:
        self.what, self.total, self.done = what, total, done
        self._start, self._at_start = time.monotonic(), done

    @property
    def rate(self) -> float:
        """Sentences a second since the start of this process."""
        return (self.done - self._at_start) / max(time.monotonic() - self._start, 1e-9)

    def advance(self, n: int) -> None:
        """Count n more sentences."""
        self.done += n

    @property
    def line(self) -> str:
        """Share, rate and time left in words."""
        left = (self.total - self.done) / self.rate if self.rate > 0 else float("inf")
        share = self.done / self.total if self.total else 1.0
        duration = _duration(left) if left != float("inf") else "unknown time"
        return f"{self.what}: {self.done:,} of {self.total:,} ({share:.0%}), {self.rate:,.0f}/s, {duration} left"


class _BarMeter(Meter):
    def __init__(self, what: str, total: int, done: int, progress: Progress) -> None:
        super().__init__(what, total, done)
        self._progress = progress
        self._task = progress.add_task(what, total=total, completed=done, rate="")

    def advance(self, n: int) -> None:
        super().advance(n)
        self._progress.update(self._task, completed=self.done, rate=f"{self.rate:,.0f}/s")


class _LineMeter(Meter):
    def __init__(self, what: str, total: int, done: int) -> None:
        super().__init__(what, total, done)
        self._said = time.monotonic()

    def advance(self, n: int) -> None:
        super().advance(n)
        if time.monotonic() - self._said >= _SECONDS_BETWEEN_LINES or self.done >= self.total:
            self._said = time.monotonic()
            sys.stderr.write(self.line + "\n")
            sys.stderr.flush()


@contextmanager
def metered(what: str, total: int, done: int = 0) -> Iterator[Meter]:
    """Show the progress of `total` sentences, `done` of which an earlier process did."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _LineMeter(what, total, done)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        yield _BarMeter(what, total, done, progress)


def _duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
