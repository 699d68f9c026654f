"""Final files against what is made again: the very bytes, else the same values, else the first difference."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from ..runs.results import file_bytes
from .checks import one_line

Content = pl.DataFrame | Mapping[str, Any]


def difference(path: Path, wanted: Content) -> str:
    """How a final file differs from what it should hold; empty if it does not.

    Another version of Polars may write the same rows with other bytes, so values are compared where bytes differ.

    Args:
        path: The final file.
        wanted: What `Stage.publish` has made again.
    """
    if path.read_bytes() == file_bytes(wanted):
        return ""
    try:
        if isinstance(wanted, pl.DataFrame):
            return _of_frames(pl.read_parquet(path), wanted)
        return _of_documents(json.loads(path.read_bytes()), dict(wanted))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError, RecursionError) as error:
        return f"{path.name} cannot be read ({one_line(error)})"


def _of_frames(found: pl.DataFrame, wanted: pl.DataFrame) -> str:
    if found.schema != wanted.schema:
        return f"its columns are {', '.join(found.columns)}; {', '.join(wanted.columns)} are right"
    if len(found) != len(wanted):
        return f"it has {len(found):,} rows; {len(wanted):,} are right"
    for name in wanted.columns:
        unlike = found[name].ne_missing(wanted[name])
        if unlike.any():
            row = int(unlike.arg_max() or 0)
            more = f", {int(unlike.sum()):,} rows in all" if unlike.sum() > 1 else ""
            return f"{name} in row {row + 1} is {found[name][row]!r}; {wanted[name][row]!r} is right{more}"
    return ""


def _of_documents(found: Any, wanted: Mapping[str, Any]) -> str:
    wanted = json.loads(json.dumps(wanted))
    if not isinstance(found, dict):
        return "it is not a JSON object"
    for key in {**wanted, **found}:
        if found.get(key) != wanted.get(key):
            return f"{key} is {found.get(key)!r}; {wanted.get(key)!r} is right"
    return ""
