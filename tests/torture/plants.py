"""Bugs that are planted, to show that the harness finds them: a table without failures says nothing otherwise."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from negengine.engine.basics import atomic
from negengine.engine.cli import main
from negengine.engine.runs import folder

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
    Plant("files are renamed unflushed", partial(setattr, atomic, "_flush", lambda path: None), "power-cut"),
    Plant("a refused run ends with 0", lambda: setattr(main, "run", lambda run=main.run: run() and 0), "error-lasting"),
    Plant("an error of the disk is a traceback", partial(setattr, atomic, "unwritable", None), "error-once"),
    Plant("a resumed run has two rows twice", _doubled_rows, "kill-calls", loses_rows=True),
)
