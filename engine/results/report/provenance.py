"""What made a run: everything that its record says, whatever fields a version records."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import polars as pl

from ...library.run import Run
from ...printable import counted
from ...runs.record import read_run
from ...views import Column, Section, Table

_LONGEST = 300  # characters; longer values, such as pattern sets, are in run.json
_MOST_SESSIONS = 8


def provenance(run: Run) -> Section:
    """Model, data, settings, versions, machines and digests."""
    record = read_run(run.folder)
    tables = [_table("What the results depend on", _rows({n: s.identity for n, s in record.stages.items()}))]
    sessions = {
        f"{name}, session {i}": msgspec.to_builtins(own)
        for name, stage in record.stages.items()
        for i, own in enumerate(stage.sessions, 1)
    }
    shown = dict(list(sessions.items())[-_MOST_SESSIONS:])
    tables.append(_table("Sessions: one for each process that worked on the run", _rows(shown)))
    files = {name: stage.files for name, stage in record.stages.items()}
    tables.append(_table("Result files and their SHA-256", _rows(files)))
    seconds = sum(own.get("seconds") or 0 for own in sessions.values())
    said = [
        (
            f"The run was made with negengine {record.negengine}, in {counted(len(sessions), 'session')} "
            f"of {seconds:,.0f} seconds together."
        ),
        "run.json in the run folder has these fields and all others.",
    ]
    left = len(sessions) - len(shown)
    return Section(
        "What made this run?", said, tables=tables, notes=[f"{left} earlier sessions are not shown"] if left else []
    )


def _rows(stages: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str, str]]:
    return [(stage, key, text) for stage, values in stages.items() for key, text in _flat(values) if text]


def _flat(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """Key and text of every value; the keys of inner values follow those of the outer ones."""
    for key, value in values.items():
        inner = value if isinstance(value, Mapping) else _numbered(value)
        if inner is not None:
            yield from _flat(inner, f"{before}{key}, ")
        else:
            words = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
            yield f"{before}{key}", words if len(words) <= _LONGEST else f"{words[:_LONGEST]}…"


def _numbered(value: Any) -> dict[str, Any] | None:
    """A list of objects, such as workers, with a number for each; None for any other value."""
    if not isinstance(value, list) or not value or not all(isinstance(own, Mapping) for own in value):
        return None
    return {str(number): own for number, own in enumerate(value, 1)}


def _table(title: str, rows: list[tuple[str, str, str]]) -> Table:
    schema = dict.fromkeys(("stage", "key", "value"), pl.String)
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    return Table(title, frame, [Column("", "stage"), Column("what", "key"), Column("value", "value")], section="stage")
