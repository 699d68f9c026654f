"""The rows of all parts of a stage as one lazy frame: a part is in memory only while its rows are used."""

from collections.abc import Iterator
from pathlib import Path

import polars as pl
from polars.io.plugins import register_io_source

from ..errors import InputError
from ..files.frames import parquet_frame
from .part import PartFiles


def part_files(folder: Path, stage: str, parts: int) -> Iterator[PartFiles]:
    """Where all parts of a stage lie, in the order of their numbers.

    Args:
        folder: The run folder.
        stage: Which stage.
        parts: How many parts it has.
    """
    return (PartFiles.of(folder, stage, number) for number in range(parts))


def part_rows(folder: Path, stage: str, parts: int) -> pl.LazyFrame:
    """The rows of all parts, in the order of their numbers; arguments as for `part_files`.

    Each part is compared with its marker's digest when it is read, so each use of the frame reads whole parts or fails.
    The first part says which columns there are.

    Raises:
        InputError: The first part is missing or damaged; where the frame is used: any part.
    """
    if not parts:
        return pl.LazyFrame()

    def read(
        with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, _batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        for files in part_files(folder, stage, parts):
            rows = _rows(files)
            rows = rows.select(*schema, *(name for name in rows.columns if name not in schema))
            if n_rows is not None:
                rows = rows.head(n_rows)
                n_rows -= len(rows)
            if with_columns is not None:
                rows = rows.select(with_columns)
            yield rows if predicate is None else rows.filter(predicate)
            if n_rows == 0:
                return

    schema = _rows(next(part_files(folder, stage, parts))).schema
    return register_io_source(read, schema=schema, validate_schema=True)


def damaged_part(files: PartFiles) -> InputError:
    """The error for a part whose files are not as they were written."""
    return InputError(f"{files.rows}: missing or damaged; run the same command again to do this part again")


def _rows(files: PartFiles) -> pl.DataFrame:
    if (part := files.read()) is None:
        raise damaged_part(files)
    return parquet_frame(part.content, files.rows)
