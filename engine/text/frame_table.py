"""Tables that are frames: Parquet files, and frames in memory."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl
from polars.exceptions import PanicException, PolarsError

from ..errors import InputError, first_line
from ..files.reading import open_regular, unreadable
from .rows import NEEDED, Block, Part, as_json

_AT_ONCE = 2**20  # bytes
_NESTED = (pl.List, pl.Array, pl.Struct, pl.Object, pl.Binary)


@dataclass(frozen=True)
class ParquetTable:
    """A Parquet file.

    Attributes:
        path: The file.
    """

    path: Path

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns.

        Raises:
            InputError: It is not a Parquet file.
        """
        with _reading(self.path):
            return tuple(self._lazy.collect_schema())

    def blocks(self, size: int, digest: "hashlib._Hash", texts: Sequence[str]) -> Iterator[Block]:
        """See `TextTable`."""
        with _reading(self.path):
            _refuse_no_texts(str(self.path), self._lazy.collect_schema(), texts)
        with open_regular(self.path) as stream:
            try:
                while content := stream.read(_AT_ONCE):
                    digest.update(content)
            except OSError as error:
                raise unreadable(self.path, error) from error
        start = 0
        for frame in self._batches(size):
            yield _block(Part(start, len(frame)), frame)
            start += len(frame)

    def block(self, part: Part, schema: Mapping[str, pl.DataType], texts: Sequence[str]) -> Block:  # noqa: ARG002
        """See `TextTable`."""
        with _reading(self.path):
            return _block(part, self._lazy.slice(part.start, part.size).collect())

    def _batches(self, size: int) -> Iterator[pl.DataFrame]:
        """The rows in frames of a size, the last one may be shorter."""
        with _reading(self.path):
            held = self._lazy.collect_schema().to_frame()
            for batch in self._lazy.collect_batches(chunk_size=size, maintain_order=True):
                held = pl.concat([held, batch])
                while len(held) >= size:
                    yield held.head(size)
                    held = held.slice(size)
            if len(held):
                yield held

    @property
    def _lazy(self) -> pl.LazyFrame:
        return pl.scan_parquet(self.path, glob=False, hive_partitioning=False)


@dataclass(frozen=True, eq=False)
class FrameTable:
    """A frame in memory.

    Attributes:
        frame: The frame.
    """

    frame: pl.DataFrame

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self.frame.columns)

    def blocks(self, size: int, digest: "hashlib._Hash", texts: Sequence[str]) -> Iterator[Block]:
        """See `TextTable`; the digest gets the names, the types and the values."""
        _refuse_no_texts("the frame", self.frame.schema, texts)
        digest.update(as_json([[name, str(dtype)] for name, dtype in self.frame.schema.items()]).encode())
        for start in range(0, len(self.frame), size):
            block = _block(Part(start, min(size, len(self.frame) - start)), self.frame.slice(start, size))
            digest.update(block.frame.write_ndjson().encode())
            yield block

    def block(self, part: Part, schema: Mapping[str, pl.DataType], texts: Sequence[str]) -> Block:  # noqa: ARG002
        """See `TextTable`."""
        return _block(part, self.frame.slice(part.start, part.size))


def _block(part: Part, frame: pl.DataFrame) -> Block:
    return Block(part, _plain(frame), np.arange(part.start + 1, part.start + part.size + 1), None)


def _plain(frame: pl.DataFrame) -> pl.DataFrame:
    """The same in plain columns: categories are texts, and lists and objects are written as JSON."""
    columns = []
    for column in frame.iter_columns():
        if isinstance(column.dtype, pl.Categorical | pl.Enum):
            columns.append(column.cast(pl.String))
        elif isinstance(column.dtype, _NESTED):
            texts = [None if value is None else as_json(value) for value in column.to_list()]
            columns.append(pl.Series(column.name, texts, pl.String))
        else:
            columns.append(column)
    return pl.DataFrame(columns)


def _refuse_no_texts(name: str, schema: Mapping[str, pl.DataType], texts: Sequence[str]) -> None:
    for column in texts:
        if not isinstance(schema[column], pl.String | pl.Categorical | pl.Enum | pl.Null):
            raise InputError(f"{name}: the column {column!r} holds {schema[column]}; {NEEDED} in each row")


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    with open_regular(path):  # refuses pipes and folders, for which Polars would wait or look inside
        pass
    try:
        yield
    except (PolarsError, PanicException, OSError, ValueError) as error:
        raise InputError(f"{path}: not a whole Parquet file ({first_line(error)}); write it again") from None
