"""A finished part on disk: its rows, and the marker that vouches for them.

parts/STAGE/part-00012.parquet   the rows
parts/STAGE/part-00012.json      the marker: size and digest of the rows, counts, margins; written last
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ..errors import InputError
from .atomic import parquet_bytes, sha256, unwritable, write_bytes
from .stage import PartResult


class Marker(msgspec.Struct, frozen=True):
    """What is known of a part beside its rows; see `PartResult` for counts, bounds and needed."""

    bytes: int
    sha256: str
    counts: Mapping[str, int | float]
    bounds: Mapping[str, float] = {}
    needed: Mapping[str, float] = {}


@dataclass(frozen=True, eq=False)
class EncodedPart:
    """A part's Parquet file and its marker, as they travel between processes."""

    content: bytes
    marker: Marker

    @classmethod
    def of(cls, result: PartResult) -> "EncodedPart":
        """Encode what was decided; the same rows give the same bytes."""
        content = parquet_bytes(result.rows)
        counts = {**result.counts, "rows": len(result.rows)}
        return cls(content, Marker(len(content), sha256(content), counts, dict(result.bounds), dict(result.needed)))


@dataclass(frozen=True)
class PartFiles:
    """Where a part of a stage lies."""

    rows: Path
    marker: Path

    @classmethod
    def of(cls, folder: Path, stage: str, number: int) -> "PartFiles":
        """The part of this number in a run folder."""
        rows = folder / "parts" / stage / f"part-{number:05d}.parquet"
        return cls(rows, rows.with_suffix(".json"))

    def read(self) -> EncodedPart | None:
        """The part, or None unless both files are whole.

        Raises:
            InputError: The disk fails.
        """
        try:
            marker = msgspec.json.decode(self.marker.read_bytes(), type=Marker)
            content = self.rows.read_bytes()
        except (FileNotFoundError, msgspec.DecodeError, UnicodeDecodeError):
            return None
        except OSError as error:
            raise InputError(f"{error.filename}: cannot be read ({error.strerror})") from error
        whole = len(content) == marker.bytes and sha256(content) == marker.sha256
        return EncodedPart(content, marker) if whole else None

    def write(self, part: EncodedPart) -> None:
        """Write rows, then the marker that vouches for them.

        Raises:
            InputError: They cannot be written (see `atomic.write_atomically`).
        """
        write_bytes(self.rows, part.content)
        write_bytes(self.marker, msgspec.json.format(msgspec.json.encode(part.marker), indent=2) + b"\n")

    def remove(self) -> None:
        """Remove what there is of the part.

        Raises:
            InputError: It cannot be removed.
        """
        try:
            self.marker.unlink(missing_ok=True)
            self.rows.unlink(missing_ok=True)
        except OSError as error:
            raise unwritable(self.rows, error) from error
