"""A finished part on disk: its rows, and a marker with their digest, which is written last."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path

import msgspec
import polars as pl
from polars.io.plugins import register_io_source

from ..basics.atomic import sha256, unwritable, write_bytes
from ..basics.errors import InputError
from ..basics.frames import parquet_bytes, parquet_frame
from ..basics.reading import MOST_JSON, LargerError, MissingFileError, paths_in, read_regular
from ..basics.sealed import DamagedError, unseal, write_sealed
from ..inference.audit import DISAGREEMENTS
from ..inference.tally import NOTHING, Tally
from .record import PARTS_FOLDER
from .stage import PartResult


class Marker(msgspec.Struct, frozen=True):
    """The metadata of a part; counts, bounds and needed are as in `PartResult`."""

    bytes: int  # Size of the rows' file
    sha256: str  # its digest
    counts: Mapping[str, int | float]
    bounds: Mapping[str, float]
    needed: Mapping[str, float]


@dataclass(frozen=True, eq=False)
class EncodedPart:
    """A part's Parquet file and its marker, as they travel between processes."""

    content: bytes
    marker: Marker
    tally: Tally = NOTHING  # of the process that decided it; not part of its files

    @property
    def schema(self) -> pl.Schema:
        return pl.Schema(pl.read_parquet_schema(BytesIO(self.content)))

    @classmethod
    def of(cls, result: PartResult, tally: Tally = NOTHING) -> "EncodedPart":
        """Encode what was decided; the same rows give the same bytes."""
        content = parquet_bytes(result.rows)
        counts = {**result.counts, "rows": len(result.rows)}
        bounds, needed = ({key: float(x) for key, x in own.items()} for own in (result.bounds, result.needed))
        return cls(content, Marker(len(content), sha256(content), counts, bounds, needed), tally)

    def with_findings(self, earlier: Marker) -> "EncodedPart":
        """The part with what its audit found with a narrower margin, as the next one cannot find the same again."""
        before, now = earlier.needed, self.marker.needed
        needed = {pattern: max(before.get(pattern, 0.0), now.get(pattern, 0.0)) for pattern in {**before, **now}}
        counts = dict(self.marker.counts)
        if DISAGREEMENTS in counts:
            counts[DISAGREEMENTS] = max(counts[DISAGREEMENTS], earlier.counts.get(DISAGREEMENTS, 0))
        return replace(self, marker=msgspec.structs.replace(self.marker, counts=counts, needed=needed))


class PartFiles:
    """Where a part of a stage lies."""

    def __init__(self, folder: Path, stage: str, number: int) -> None:
        self.rows = folder / PARTS_FOLDER / stage / f"part-{number:05d}.parquet"
        self.marker = self.rows.with_suffix(".json")

    def read(self) -> EncodedPart | None:
        """The part, or None unless both files are whole; raises InputError if the disk fails."""
        if (marker := self.read_marker()) is None:
            return None
        try:
            content = read_regular(self.rows, marker.bytes)
        except (MissingFileError, LargerError):
            return None
        return EncodedPart(content, marker) if sha256(content) == marker.sha256 else None

    def read_marker(self) -> Marker | None:
        try:
            return unseal(read_regular(self.marker, MOST_JSON), Marker)
        except (MissingFileError, DamagedError, LargerError):
            return None

    def write(self, part: EncodedPart) -> None:
        write_bytes(self.rows, part.content)
        write_sealed(self.marker, part.marker)

    def frame(self) -> pl.DataFrame:
        """The rows of a part that must be there; InputError for one that is missing or damaged."""
        if (part := self.read()) is None:
            raise self.damaged()
        return parquet_frame(part.content, self.rows)

    def damaged(self) -> InputError:
        return InputError(f"{self.rows}: missing or damaged; run the same command again to do this part again")

    def remove(self) -> None:
        try:
            self.marker.unlink(missing_ok=True)
            self.rows.unlink(missing_ok=True)
        except OSError as error:
            raise unwritable(self.rows, error) from error


def refuse_other_columns(folder: Path, stage: str, first: pl.Schema, other: pl.Schema) -> None:
    """Raise InputError for two parts of one stage with other columns, in whatever order."""
    if dict(first) == dict(other):
        return
    told = "; ".join(", ".join(f"{name} {kind}" for name, kind in own.items()) for own in (first, other))
    raise InputError(
        f"{folder}: {stage} has parts with unlike columns, as versions of negengine differ ({told}); "
        "make the run again with one version, in another --output"
    )


def marked_parts(folder: Path, stage: str) -> set[int]:
    """The numbers of parts with a marker. The folder is listed, as run.json could tell of any number of parts."""
    found = (re.fullmatch(r"part-([0-9]{5,9})\.json", path.name) for path in paths_in(folder / PARTS_FOLDER / stage))
    return {int(name[1]) for name in found if name is not None}


def part_rows(folder: Path, stage: str, parts: int) -> pl.LazyFrame:
    """The rows of all parts, in order; a part that is missing or damaged is an InputError where its rows are used."""
    if not parts:
        return pl.LazyFrame()

    def read(
        with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, _batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        for number in range(parts):
            rows = PartFiles(folder, stage, number).frame()
            refuse_other_columns(folder, stage, schema, rows.schema)
            rows = rows.select(*schema)
            if n_rows is not None:
                rows = rows.head(n_rows)
                n_rows -= len(rows)
            if with_columns is not None:
                rows = rows.select(with_columns)
            yield rows if predicate is None else rows.filter(predicate)
            if n_rows == 0:
                return

    schema = PartFiles(folder, stage, 0).frame().schema
    return register_io_source(read, schema=schema, validate_schema=True)
