"""The JSON file of `make gpu` as a table: one row for each step."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from ...engine.views import Column, Table
from .child import FAILED


def table(document: Mapping[str, Any]) -> Table:
    """One row for each step: how it ended, after how many seconds, and the reason where it did not run."""
    rows = [
        {"step": name, "status": found["status"], "seconds": found["seconds"], "why": found.get("why", "")}
        for name, found in document["steps"].items()
    ]
    columns = [
        Column("step", "step", wrap=False),
        Column("status", "status", wrap=False),
        Column("seconds", "seconds", decimals=1, wrap=False),
        Column("why", "why"),
    ]
    what = "Rehearsal" if document["rehearsal"] else "Measurements"
    return Table(f"{what} on {document['device']}", pl.DataFrame(rows), columns)


def failed(document: Mapping[str, Any]) -> list[str]:
    """The steps that failed."""
    return [name for name, found in document["steps"].items() if found["status"] == FAILED]
