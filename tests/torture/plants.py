"""Bugs that are planted, to show that the harness finds them: a table without failures says nothing otherwise."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import msgspec
from negengine.engine.basics import atomic
from negengine.engine.cli import main
from negengine.engine.runs import folder, part

from .cases import Prepared
from .child import in_fork
from .kinds import KINDS
from .trial import Place, Row, Trial

_MOST_FAULTS = 200


@dataclass(frozen=True)
class Plant:
    """A bug, and the kind of fault that must find it."""

    bug: str
    put: Callable[[], object]  # changes the engine in this process
    found_by: str  # a kind of fault
    loses_rows: bool = False  # whether rows must be counted as lost or doubled


def finds(plant: Plant, place: Place, prepared: Prepared, until: float) -> bool | None:
    """Whether the harness finds a planted bug in a few faults; None if the time is over before that."""

    def tried() -> bool | None:
        plant.put()
        row = Row("planted", prepared.case.name)
        for _ in KINDS[plant.found_by].tries(Trial(place, prepared, row)):
            if row.wrong and (row.rows or not plant.loses_rows):
                return True
            if row.faults >= _MOST_FAULTS:
                break
            if time.monotonic() > until:
                return None
        return False

    return in_fork(tried)()


def _traceback(path: Path, error: OSError) -> NoReturn:
    raise RuntimeError(path) from error  # an OSError of the machine is told in one line at the end


def _not_atomic() -> None:
    def write(path: Path, writer: Callable[[Path], None], *, flushed: bool = True) -> None:
        try:
            writer(path)
        except OSError as error:
            raise atomic.unwritable(path, error) from error

    atomic.write_atomically = write


def _no_digest() -> None:
    def read(files: Any) -> Any:
        with suppress(OSError, msgspec.DecodeError):
            marker = msgspec.json.decode(files.marker.read_bytes(), type=part.Marker)
            return part.EncodedPart(files.rows.read_bytes(), marker)
        return None

    part.PartFiles.read = read  # type: ignore[method-assign]


def _doubled_rows() -> None:
    import polars as pl

    scan, put_together = folder.RunFolder._scan, folder.put_together
    resumed = []

    def scanned(run: Any) -> Any:
        found = scan(run)
        resumed.append(bool(found))
        return found

    def doubled(*arguments: Any) -> Any:
        whole = put_together(*arguments)
        return replace(whole, rows=pl.concat([whole.rows, whole.rows.head(2)])) if any(resumed) else whole

    folder.RunFolder._scan, folder.put_together = scanned, doubled  # type: ignore[method-assign]


PLANTS = (
    Plant("files are written in place", _not_atomic, "short-write"),
    Plant("parts are read without their digest", _no_digest, "flipped-bit"),
    Plant(
        "files are not flushed before they are renamed",
        lambda: setattr(atomic, "_flush", lambda path: None),
        "power-cut",
    ),
    Plant(
        "a refused run says that it is done",
        lambda: setattr(main, "run", lambda real=main.run: real() and 0),
        "error-lasting",
    ),
    Plant("an error of the disk is a traceback", lambda: setattr(atomic, "unwritable", _traceback), "error-once"),
    Plant("a resumed run has two rows twice", _doubled_rows, "kill-calls", loses_rows=True),
)
