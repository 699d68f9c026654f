"""What is done of a table, kept in a folder: a later call of the harness goes on where the last one stopped."""

import os
from pathlib import Path

import msgspec

from .table import Row


class Progress:
    """A folder with one file for each row."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)

    def row(self, kind: str, case: str) -> Row:
        """A row with what earlier calls have found for it, or an empty one."""
        path = self._path(kind, case)
        if path is None or not path.exists():
            return Row(kind, case)
        return msgspec.json.decode(path.read_bytes(), type=Row)

    def keep(self, row: Row) -> None:
        """Keep a row as it is now."""
        path = self._path(row.kind, row.case)
        if path is not None:
            unfinished = path.with_suffix(".new")
            unfinished.write_bytes(msgspec.json.encode(row))
            os.replace(unfinished, path)  # noqa: PTH105

    def _path(self, kind: str, case: str) -> Path | None:
        return None if self._folder is None else self._folder / f"{kind}, {case}.json"
