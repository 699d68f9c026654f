"""Frames as Parquet files. The same rows give the same bytes, however they come: whole, in chunks, or as a stream.

A lazy frame is written as a stream: row group by row group, so that the memory does not grow with the number of rows.
A file that comes from elsewhere can hold a page of gigabytes in a few kilobytes; `refuse_huge_pages` finds it first.
"""

import hashlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import polars as pl
from polars.exceptions import PanicException, PolarsError

from .atomic import write_atomically
from .errors import InputError, first_line
from .reading import open_regular

_ROW_GROUP = 131_072  # rows; Parquet's writer would choose, but the same rows must give the same bytes each time


def parquet_frame(content: bytes, path: Path) -> pl.DataFrame:
    """The frame of a Parquet file's content; what is not Parquet, though its digest is right, is an `InputError`."""
    try:
        refuse_huge_pages(path, content)
        return pl.read_parquet(content)
    except (InputError, PolarsError, PanicException, OSError, ValueError) as error:
        reason = first_line(error).removeprefix(f"{path}: ")
        raise InputError(f"{path}: not as negengine writes it ({reason}); run it again elsewhere") from None


def scan_frame(path: Path) -> pl.LazyFrame:
    """The rows of a Parquet file of a run, to be read as a stream; errors as for `refuse_huge_pages`."""
    refuse_huge_pages(path)
    return pl.scan_parquet(path, glob=False, hive_partitioning=False)


def parquet_bytes(frame: pl.DataFrame) -> bytes:
    """A frame as a Parquet file."""
    buffer = io.BytesIO()
    _write(frame.lazy(), buffer)
    return buffer.getvalue()


def write_frame(path: Path, frame: pl.LazyFrame) -> str:
    """Write rows as a Parquet file while they come, atomically; returns its SHA-256 in hex.

    Raises:
        InputError: The file cannot be written, or the rows cannot be read.
    """
    digest = ""

    def write(temporary: Path) -> None:
        nonlocal digest
        with temporary.open("wb") as file:
            digest = frame_sha256(frame, file)

    write_atomically(path, write)
    return digest


def frame_sha256(frame: pl.LazyFrame, file: BinaryIO | None = None) -> str:
    """SHA-256 in hex of a frame as a Parquet file, which is written if there is one to write into.

    Rows that cannot be read are an `InputError`.
    """
    stream = _Digested(file)
    try:
        _write(frame, stream)
    except PolarsError:
        if stream.error is not None:  # Polars loses which error the operating system gave
            raise stream.error from None
        raise
    return stream.digest.hexdigest()


def _write(frame: pl.LazyFrame, stream: Any) -> None:
    frame.sink_parquet(
        stream,  # a stream of bytes; only `write` is called
        compression="zstd",
        compression_level=3,
        statistics=True,
        row_group_size=_ROW_GROUP,
        engine="streaming",
    )


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


_AT_ONCE = 4096  # rows of a user's table that are read at once
_MOST_UNPACKED = 2**28  # bytes of such rows, and of the pages that hold them; DuckDB writes pages of 100 MB and more
_MOST_CHUNKS = 2**18  # columns, times row groups

# The fields of Parquet's footer and of a page's header that are wanted, by their numbers.
_Fields = dict[int, Any]
_DATA_PAGE, _DICTIONARY_PAGE, _COMPRESSED = 9, 11, 7  # where a column's pages begin, and all their bytes
_FOOTER: _Fields = {4: {1: {3: dict.fromkeys((_DATA_PAGE, _DICTIONARY_PAGE, _COMPRESSED))}, 3: None}}
_PAGE: _Fields = {
    2: None,
    3: None,
    5: {1: None},
    8: {1: None},
}  # bytes unpacked, bytes in the file, values in two forms


def refuse_huge_pages(path: Path, content: bytes | None = None) -> None:
    """Refuse a Parquet file whose rows take very much memory, before any are unpacked.

    The headers of the pages have the sizes. What unpacks a page trusts its header, too: one that lies gives an error.

    Raises:
        InputError: A few rows take more than 268 MB; or the file cannot be read, or is damaged.
    """
    with open_regular(path) if content is None else io.BytesIO(content) as file:
        try:
            unpacked = max(_row_groups(file), default=0)
        except (OSError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
            reason = f" ({first_line(error)})" if isinstance(error, OSError | ValueError) else ""
            raise InputError(f"{path}: not a whole Parquet file{reason}; write it again") from None
    if unpacked > _MOST_UNPACKED:
        raise InputError(
            f"{path}: a few rows take {unpacked // 10**6:,} MB, and at most {_MOST_UNPACKED // 10**6:,} are read at "
            "once; give shorter texts, or write the table again in smaller row groups"
        )


def _row_groups(file: BinaryIO) -> Iterator[int]:
    """For each row group, the bytes that a few of its rows can take."""
    left = file.seek(-8, io.SEEK_END)
    file.seek(left - int.from_bytes(file.read(4), "little"))
    for group in _Thrift(file).struct(_FOOTER)[4]:
        chunks = [chunk[3] for chunk in group[1]]
        left -= sum(chunk[_COMPRESSED] for chunk in chunks)
        if left < 0:  # a short file could have pages without end
            raise ValueError("columns that overlap")
        yield sum(_unpacked(file, chunk, max(group[3], 1)) for chunk in chunks)


def _unpacked(file: BinaryIO, chunk: _Fields, rows: int) -> int:
    """Bytes of a column of a row group: of its largest page, or of the longest rows that are read at once."""
    at: int = chunk.get(_DICTIONARY_PAGE) or chunk[_DATA_PAGE]
    end, largest = at + chunk[_COMPRESSED], 0
    values, sizes = [0], [0]
    while at < end:
        file.seek(at)
        page = _Thrift(file).struct(_PAGE)
        n = (page.get(5) or page.get(8) or {}).get(1, 0)  # a dictionary has none
        if min(n, page[2], page[3]) < 0:
            raise ValueError("a page of negative size")
        at, size = file.tell() + page[3], max(page[2], page[3])
        largest = max(largest, size)
        values.append(values[-1] + n)
        sizes.append(sizes[-1] + max(size, 8 * n))  # equal values of a list take few bytes until they are unpacked
    row = np.array(values) * (rows / max(values[-1], 1))  # a list column has several values in a row
    return int(max(largest, (np.interp(row + _AT_ONCE, row, sizes) - sizes).max()))


class _Thrift:
    """Reads Thrift's compact protocol, in which Parquet writes its footer and the headers of its pages."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._kept = 0

    def struct(self, wanted: _Fields) -> _Fields:
        """The wanted fields of a structure, by their numbers."""
        found, field = {}, 0
        while head := self._byte():
            field = field + (head >> 4) if head >> 4 else self._signed()
            value = self._value(head & 15, wanted.get(field)) if head & 15 > 2 else None  # a truth has no bytes
            if field in wanted:
                found[field] = value
        return found

    def _value(self, kind: int, wanted: _Fields | None) -> Any:
        match kind:
            case 4 | 5 | 6:
                return self._signed()
            case 9 | 10:  # a list
                head, values = self._byte(), []
                for _ in range(head >> 4 if head >> 4 < 15 else self._number()):
                    value = self._value(max(head & 15, 3), wanted)
                    if wanted is not None:
                        values.append(value)
                        self._kept += 1
                    if self._kept > _MOST_CHUNKS:
                        raise ValueError(f"more than {_MOST_CHUNKS:,} pieces of columns")
                return values
            case 12:
                return self.struct(wanted or {})
            case 3 | 7 | 8:  # a byte, a number with a point, a text
                return self._file.seek(1 if kind == 3 else 8 if kind == 7 else self._number(), io.SEEK_CUR)
        raise ValueError(f"a field of kind {kind}")

    def _byte(self) -> int:
        return self._file.read(1)[0]

    def _number(self) -> int:
        number = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            number |= (byte & 127) << shift
            if byte < 128:
                return number
        raise ValueError("a number of too many bytes")

    def _signed(self) -> int:
        number = self._number()
        return (number >> 1) ^ -(number & 1)
