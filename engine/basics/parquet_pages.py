"""Refuses Parquet files of users that take too much memory: a few kilobytes can hold a page of gigabytes."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from .errors import InputError, first_line
from .reading import open_regular

ROWS_AT_ONCE = 4096  # of a user's table
_MOST_UNPACKED = 2**28  # bytes of such rows, and of the pages that hold them; DuckDB writes pages of 100 MB and more
_MOST_CHUNKS = 2**18  # columns, times row groups

_Fields = dict[int, Any]
"""The fields of a structure of Thrift that are wanted, or their values, by the numbers that Parquet gives them."""
_DATA_PAGE, _DICTIONARY_PAGE, _COMPRESSED = 9, 11, 7  # where a column's pages begin, and all their bytes
_FOOTER: _Fields = {4: {1: {3: dict.fromkeys((_DATA_PAGE, _DICTIONARY_PAGE, _COMPRESSED))}, 3: None}}
_UNPACKED, _PACKED = 2, 3  # bytes of a page
_HEADERS = (5, 8)  # of a page, in the two versions of the format; its field 1 is the number of values
_PAGE: _Fields = {_UNPACKED: None, _PACKED: None, **{header: {1: None} for header in _HEADERS}}


def refuse_huge_pages(path: Path, content: bytes | None = None) -> None:
    """InputError for a damaged Parquet file, or one of which a few rows take more than 268 MB, by its headers alone."""
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
        n = next((page[header][1] for header in _HEADERS if header in page), 0)  # a dictionary has none
        if min(n, page[_UNPACKED], page[_PACKED]) < 0:
            raise ValueError("a page of negative size")
        at, size = file.tell() + page[_PACKED], max(page[_UNPACKED], page[_PACKED])
        largest = max(largest, size)
        values.append(values[-1] + n)
        sizes.append(sizes[-1] + max(size, 8 * n))  # equal values of a list take few bytes until they are unpacked
    row = np.array(values) * (rows / max(values[-1], 1))  # a list column has several values in a row
    return int(max(largest, (np.interp(row + ROWS_AT_ONCE, row, sizes) - sizes).max()))


class _Thrift:
    """Reads Thrift's compact protocol, in which Parquet writes its footer and the headers of its pages."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._kept = 0

    def struct(self, wanted: _Fields) -> _Fields:
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
