"""How a result file of a run differs from what it should hold, or from that of another run."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from ..basics.errors import InputError
from ..basics.frames import scan_frame
from ..basics.printable import counted
from ..basics.reading import file_sha256
from ..runs.results import result_sha256
from ..runs.stage import Result

UNREADABLE = (InputError, pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)


def file_differences(path: Path, wanted: Result) -> Iterator[str]:
    """A line for each column of a frame, or key of a document, that differs; none if the values are the same."""
    try:
        if file_sha256(path) == result_sha256(wanted):
            return
        # Another version of Polars may write the same rows with other bytes.
        if isinstance(wanted, pl.DataFrame | pl.LazyFrame):
            yield from _of_frames(scan_frame(path), wanted.lazy())
        else:
            yield from _of_documents(json.loads(path.read_bytes()), json.loads(json.dumps(wanted)))
    except (*UNREADABLE, ValueError, RecursionError) as error:
        yield f"it cannot be read ({one_line(error)})"


def one_line(error: BaseException) -> str:
    """What an error of another package says, in one line of sensible length."""
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0][:120]}" if lines else type(error).__name__


def _of_frames(found: pl.LazyFrame, wanted: pl.LazyFrame) -> Iterator[str]:
    schema, right = found.collect_schema(), wanted.collect_schema()
    if schema != right:
        yield f"its columns are {', '.join(schema.names())}, not {', '.join(right.names())}"
        return
    for name, kind in right.items():
        own, other = (frame.select(name).collect(engine="streaming")[name] for frame in (found, wanted))
        if len(own) != len(other):
            yield f"it has {counted(len(own), 'row')}, not {len(other):,}"
            return
        if not (count := int((unlike := own.ne_missing(other)).sum())):
            continue
        most: Any = (own.cast(pl.Float64) - other.cast(pl.Float64)).abs().max() if kind.is_numeric() else None
        far = "" if most is None else f", by {most:.2g} at most"
        row = int(unlike.arg_max() or 0)
        values = f"row {row + 1} has {own[row]!r}, not {other[row]!r}"
        yield f"{name} differs in {count:,} of {counted(len(own), 'row')}{far}; {values}"


def _of_documents(found: Any, wanted: Mapping[str, Any]) -> Iterator[str]:
    if not isinstance(found, dict):
        yield "it is not a JSON object"
        return
    for key in {**wanted, **found}:
        if found.get(key) != wanted.get(key):
            yield f"{key} is {found.get(key)!r}, not {wanted.get(key)!r}"
