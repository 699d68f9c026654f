"""Frames as Parquet files. The same rows give the same bytes, however they come: whole, in chunks, or as a stream."""

import hashlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, get_args, get_type_hints

import polars as pl
from polars import selectors
from polars.exceptions import PanicException, PolarsError

from .atomic import write_atomically
from .errors import InputError, first_line

Frame = TypeVar("Frame", pl.DataFrame, pl.LazyFrame)
_SLICE = 32_768  # rows
_ROW_GROUP = 131_072  # rows; Parquet's writer would choose, but the same rows must give the same bytes each time

_KINDS = {str: pl.String, int: pl.Int64, float: pl.Float64, bool: pl.Boolean}


def schema_of(values: type) -> dict[str, Any]:
    """The columns of a frame of such values, a field each: a text, a number or a truth value, which may be missing."""
    hints = {name: (get_args(own) or (own,))[0] for name, own in get_type_hints(values).items()}
    return {name: _KINDS.get(own, pl.String) for name, own in hints.items()}


def literal(name: str) -> str:
    """A text as the name of a column: Polars takes `*` and `^…$` for patterns, so that their first sign is wide."""
    wide = "\N{FULLWIDTH ASTERISK}" if name == "*" else "\N{FULLWIDTH CIRCUMFLEX ACCENT}"
    return f"{wide}{name[1:]}" if name == "*" or (name[:1] == "^" and name.endswith("$")) else name


def parquet_frame(content: bytes, path: Path) -> pl.DataFrame:
    """The frame of a Parquet file's content; what is not Parquet, though its digest is right, is an `InputError`."""
    try:
        return pl.read_parquet(content)
    except (PolarsError, PanicException, OSError, ValueError) as error:
        raise InputError(f"{path}: not as negengine writes it ({first_line(error)}); run it again elsewhere") from None


def scan_frame(path: Path) -> pl.LazyFrame:
    """The rows of a Parquet file of a run, to be read as a stream."""
    return pl.scan_parquet(path, glob=False, hive_partitioning=False)


def slices(rows: pl.LazyFrame) -> Iterator[pl.LazyFrame]:
    """The rows, or none, in pieces that are read one by one."""
    for start in range(0, max(1, rows.select(pl.len()).collect().item()), _SLICE):
        yield rows.slice(start, _SLICE)


def no_negative_zero(frame: Frame) -> Frame:
    """The same numbers; a zero has no sign, which would only say how it was computed."""
    number = selectors.float()
    return frame.with_columns(pl.when(number == 0).then(number.abs()).otherwise(number))


def parquet_bytes(frame: pl.DataFrame) -> bytes:
    """A frame as a Parquet file."""
    buffer = io.BytesIO()
    frame_sha256(frame.lazy(), buffer)
    return buffer.getvalue()


def write_frame(path: Path, frame: pl.LazyFrame) -> str:
    """Write rows as a Parquet file while they come, atomically; returns its SHA-256 in hex."""
    digests = []

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            digests.append(frame_sha256(frame, file))

    write_atomically(path, write)
    return digests[0]


def frame_sha256(frame: pl.LazyFrame, file: BinaryIO | None = None) -> str:
    """SHA-256 in hex of a frame as a Parquet file, which is written into `file`, if given, row group by row group."""
    stream = _Digested(file)
    sink: Any = stream  # of which only `write` is called
    how: dict[str, Any] = {"compression": "zstd", "compression_level": 3, "statistics": True}
    try:
        no_negative_zero(frame).sink_parquet(sink, row_group_size=_ROW_GROUP, engine="streaming", **how)
    except PolarsError:
        if stream.error is not None:  # Polars loses which error the operating system gave
            raise stream.error from None
        raise
    return stream.digest.hexdigest()


class _Digested(io.RawIOBase):
    """Passes on what is written, and knows its digest and the operating system's first error."""

    def __init__(self, file: BinaryIO | None) -> None:
        self.error: OSError | None = None
        self._file = file
        self.digest = hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, content: Any, /) -> int:
        self.digest.update(content)
        if self._file is None:
            return memoryview(content).nbytes
        try:
            return self._file.write(content)
        except OSError as error:
            self.error = self.error or error
            raise
