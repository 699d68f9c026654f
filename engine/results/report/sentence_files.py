"""Sentences as text and as files, batch by batch, so that the largest run needs little memory."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import polars as pl

from ...errors import InputError, did_you_mean
from ...files.atomic import make_folder, write_atomically
from ...files.frames import write_frame
from ...runs.record import RUN_FILE
from ...views.to_csv import csv_rows
from ...views.to_json import json_lines


def write(rows: pl.LazyFrame, path: Path, option: str = "-o") -> int:
    """Write sentences to a file, whole or not at all; its name says how.

    Args:
        rows: The sentences.
        path: A name that ends in .parquet, .csv, .tsv or .jsonl. An older file of that name is replaced.
        option: What the user gave it with, for messages.

    Returns:
        How many rows there are.

    Raises:
        InputError: The name ends in something else, the file is a result of a run, or it cannot be written.
    """
    writer = check_name(path, option)
    total: int = rows.select(pl.len()).collect().item()
    make_folder(path.parent)
    writer(rows, path)
    return total


def check_name(path: Path, option: str = "-o") -> Callable[[pl.LazyFrame, Path], None]:
    """How a file of this name is written.

    Raises:
        InputError: The name ends in something else, or the file is a result of a run.
    """
    if path.suffix not in _WRITERS:
        hint = did_you_mean(path.suffix, _WRITERS)
        raise InputError(f"{option} {path}: {hint}the name must end in {', '.join(_WRITERS)}")
    if path.exists() and (path.parent / RUN_FILE).exists():
        raise InputError(f"{option} {path}: this file belongs to a run; choose another name")
    return _WRITERS[path.suffix]


def _write_parquet(rows: pl.LazyFrame, path: Path) -> None:
    write_frame(path, rows)


def _text_writer(pieces: Callable[[pl.LazyFrame], Iterator[str]]) -> Callable[[pl.LazyFrame, Path], None]:
    def write_text(rows: pl.LazyFrame, path: Path) -> None:
        def put(temporary: Path) -> None:
            with temporary.open("w", encoding="utf-8", newline="") as stream:
                stream.writelines(pieces(rows))

        write_atomically(path, put)

    return write_text


_WRITERS: Mapping[str, Callable[[pl.LazyFrame, Path], None]] = {
    ".parquet": _write_parquet,
    ".csv": _text_writer(csv_rows),
    ".tsv": _text_writer(lambda rows: csv_rows(rows, "\t")),
    ".jsonl": _text_writer(json_lines),
}
