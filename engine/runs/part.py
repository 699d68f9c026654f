"""A finished part on disk: its rows, and a marker with their digest.

parts/STAGE/part-00012.parquet   the rows
parts/STAGE/part-00012.json      the marker: size and digest of the rows, counts, margins; written last
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from ..errors import InputError
from ..files.atomic import parquet_bytes, sha256, unwritable, write_bytes
from ..inference.audit import DISAGREEMENTS
from .record import PARTS_FOLDER
from .stage import PartResult


class Marker(msgspec.Struct, frozen=True):
    """The metadata of a part; see `PartResult` for counts, bounds and needed.

    Attributes:
        bytes: Size of the rows' file.
        sha256: Its digest.
    """

    bytes: int
    sha256: str
    counts: Mapping[str, int | float]
    bounds: Mapping[str, float]
    needed: Mapping[str, float]


class _SealedMarker(Marker, frozen=True):
    """A marker as it stands in its file: a flipped bit in its numbers is noticed, too."""

    marker_sha256: str

    @classmethod
    def of(cls, marker: Marker) -> "_SealedMarker":
        content = {name: getattr(marker, name) for name in Marker.__struct_fields__}
        return cls(**content, marker_sha256=sha256(msgspec.json.encode(content)))


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
        bounds, needed = ({key: float(x) for key, x in own.items()} for own in (result.bounds, result.needed))
        return cls(content, Marker(len(content), sha256(content), counts, bounds, needed))

    def with_findings(self, earlier: Marker) -> "EncodedPart":
        """The part with what the audit found when it was decided before, with a narrower margin.

        Within the wider margin the reference model decides, so a second audit cannot find the same again.
        """
        before, now = earlier.needed, self.marker.needed
        needed = {pattern: max(before.get(pattern, 0.0), now.get(pattern, 0.0)) for pattern in {**before, **now}}
        counts = dict(self.marker.counts)
        if DISAGREEMENTS in counts:
            counts[DISAGREEMENTS] = max(counts[DISAGREEMENTS], earlier.counts.get(DISAGREEMENTS, 0))
        return replace(self, marker=msgspec.structs.replace(self.marker, counts=counts, needed=needed))


@dataclass(frozen=True)
class PartFiles:
    """Where a part of a stage lies."""

    rows: Path
    marker: Path

    @classmethod
    def of(cls, folder: Path, stage: str, number: int) -> "PartFiles":
        """The part of this number in a run folder."""
        rows = folder / PARTS_FOLDER / stage / f"part-{number:05d}.parquet"
        return cls(rows, rows.with_suffix(".json"))

    def read(self) -> EncodedPart | None:
        """The part, or None unless both files are whole.

        Raises:
            InputError: The disk fails.
        """
        try:
            marker = msgspec.json.decode(self.marker.read_bytes(), type=_SealedMarker)
            content = self.rows.read_bytes()
        except (FileNotFoundError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        except OSError as error:
            raise InputError(f"{error.filename}: cannot be read ({error.strerror})") from error
        whole = len(content) == marker.bytes and sha256(content) == marker.sha256 and marker == _SealedMarker.of(marker)
        fields = {name: getattr(marker, name) for name in Marker.__struct_fields__}
        return EncodedPart(content, Marker(**fields)) if whole else None

    def write(self, part: EncodedPart) -> None:
        """Write rows, then the marker with their digest.

        Raises:
            InputError: They cannot be written (see `atomic.write_atomically`).
        """
        write_bytes(self.rows, part.content)
        sealed = msgspec.json.encode(_SealedMarker.of(part.marker))
        write_bytes(self.marker, msgspec.json.format(sealed, indent=2) + b"\n")

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
