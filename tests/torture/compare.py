"""Two results side by side: the bytes of their files; where these differ, their rows by their keys."""

import io
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

KEYS = ("triplet", "pattern", "dataset", "condition", "splits", "split", "metric", "item", "name", "profession", "verb")
_NOT_RESULTS = {".lock", "lock", ".verified.json", "sessions"}  # locks, checks of an export, processes


@dataclass(frozen=True)
class Snapshot:
    """The files of a folder, by their relative path. Of run.json only what does not tell times and processes."""

    files: Mapping[str, bytes]

    def differences(self, other: "Snapshot") -> list[str]:
        names = sorted({*self.files, *other.files})
        return [name for name in names if self.files.get(name) != other.files.get(name)]

    def shown(self, other: "Snapshot", name: str) -> str:
        try:
            one, two = (_flat(json.loads(side.files[name])) for side in (self, other))
        except (KeyError, ValueError):
            return name
        keys = [key for key in {**one, **two} if one.get(key) != two.get(key)]
        return f"{name} ({', '.join(f'{key} {one.get(key)!r} and {two.get(key)!r}' for key in keys[:2])})"


def _flat(value: Any, path: str = "") -> dict[str, Any]:
    """Path → value, of a JSON document."""
    if not isinstance(value, dict):
        return {path: value}
    return {key: leaf for name, inner in value.items() for key, leaf in _flat(inner, f"{path}/{name}").items()}


def snapshot(folder: Path) -> Snapshot:
    """Read a folder; one that is not there has no files."""
    paths = [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not _NOT_RESULTS & {*path.relative_to(folder).parts}
    ]
    files = {str(path.relative_to(folder)): path.read_bytes() for path in paths}
    return Snapshot({name: _comparable(name, content) for name, content in files.items()})


def _comparable(name: str, content: bytes) -> bytes:
    """What must be the same: of a marker its values, as a missing line end at its end does no harm."""
    if (kept := {"run.json": _record, "export.json": _manifest}.get(name)) is not None:
        try:
            return json.dumps(kept(json.loads(content)), sort_keys=True).encode()
        except (ValueError, KeyError, TypeError, AttributeError):
            return content
    return content.strip() if name.endswith(".json") and ("/part-" in name or ".done." in name) else content


def _manifest(document: Any) -> dict[str, Any]:
    """export.json without the source commit, which is not known where no further process can be started."""
    return {name: value for name, value in document.items() if name not in {"source", "content_sha256"}}


def _record(document: Any) -> dict[str, Any]:
    """Of run.json, the stages without how they were called."""
    names = ("identity", "parts", "shard", "metadata", "calibration")
    kept = {stage: {name: record.get(name) for name in names} for stage, record in document["stages"].items()}
    for record in kept.values():
        record["metadata"] = {name: value for name, value in record["metadata"].items() if name != "call"}
    return kept


@dataclass(frozen=True)
class RowDifference:
    """How the rows of two results differ."""

    lost: int = 0  # rows of the expected table that are not there
    doubled: int = 0  # rows that are there more often than expected, or have keys that are not expected
    other: int = 0  # rows whose values differ

    def __add__(self, more: "RowDifference") -> "RowDifference":
        return RowDifference(self.lost + more.lost, self.doubled + more.doubled, self.other + more.other)


def row_difference(expected: bytes, found: bytes | None) -> RowDifference:
    """Compare two Parquet files row by row; a file that cannot be read has lost all rows. It uses Polars."""
    import polars as pl

    rows = pl.read_parquet(io.BytesIO(expected))
    keys = [name for name in KEYS if name in rows.columns] or rows.columns
    try:
        others = pl.read_parquet(io.BytesIO(found or b""))
        named = others.select(rows.columns)
    except Exception:  # noqa: BLE001 - whatever Polars raises for a damaged file
        return RowDifference(lost=len(rows))
    wanted, there = Counter(rows.select(keys).iter_rows()), Counter(named.select(keys).iter_rows())
    lost, doubled = (wanted - there).total(), (there - wanted).total()
    same = Counter(map(repr, rows.iter_rows())) & Counter(map(repr, named.iter_rows()))
    return RowDifference(lost, doubled, max(0, len(rows) - lost - same.total()))
