"""Final files against what is made again: the very bytes, else the same values, else the first difference.

Large tables are compared column by column, so that two of them are never in memory at once.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from ...files.reading import file_sha256
from ...printable import counted
from ...runs.results import result_sha256
from ...runs.stage import Result
from .checks import one_line


def difference(path: Path, wanted: Result) -> str:
    """How a final file differs from what it should hold; empty if it does not.

    Another version of Polars may write the same rows with other bytes, so values are compared where bytes differ.

    Args:
        path: The final file.
        wanted: What `Stage.publish` has made again.
    """
    try:
        if file_sha256(path) == result_sha256(wanted):
            return ""
        if isinstance(wanted, pl.DataFrame | pl.LazyFrame):
            return _of_frames(pl.scan_parquet(path), wanted.lazy())
        return _of_documents(json.loads(path.read_bytes()), dict(wanted))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError, RecursionError) as error:
        return f"{path.name} cannot be read ({one_line(error)})"


def _of_frames(found: pl.LazyFrame, wanted: pl.LazyFrame) -> str:
    right = wanted.collect_schema()
    if (schema := found.collect_schema()) != right:
        return f"its columns are {', '.join(schema.names())}; {', '.join(right.names())} are right"
    for name in right.names():
        own, other = (frame.select(name).collect(engine="streaming")[name] for frame in (found, wanted))
        if len(own) != len(other):
            return f"it has {counted(len(own), 'row')}; {len(other):,} are right"
        unlike = own.ne_missing(other)
        if unlike.any():
            row = int(unlike.arg_max() or 0)
            more = f", {int(unlike.sum()):,} rows in all" if unlike.sum() > 1 else ""
            return f"{name} in row {row + 1} is {own[row]!r}; {other[row]!r} is right{more}"
    return ""


def _of_documents(found: Any, wanted: Mapping[str, Any]) -> str:
    wanted = json.loads(json.dumps(wanted))
    if not isinstance(found, dict):
        return "it is not a JSON object"
    for key in {**wanted, **found}:
        if found.get(key) != wanted.get(key):
            return f"{key} is {found.get(key)!r}; {wanted.get(key)!r} is right"
    return ""
