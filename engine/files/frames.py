"""Frames from Parquet files of elsewhere."""

from pathlib import Path

import polars as pl
from polars.exceptions import PanicException, PolarsError

from ..errors import InputError, first_line


def parquet_frame(content: bytes, path: Path) -> pl.DataFrame:
    """The frame of a Parquet file's content.

    Args:
        content: Of the file.
        path: The file, for the message.

    Raises:
        InputError: It is not Parquet. Its digest is right then, so it was not written by this program.
    """
    try:
        return pl.read_parquet(content)
    except (PolarsError, PanicException, OSError, ValueError) as error:
        raise InputError(f"{path}: not as negengine writes it ({first_line(error)}); run it again elsewhere") from None
