"""Output formats: each is a file `to_NAME.py` in this folder with a value `FORMAT`, and `--format` takes its name."""

import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from ..basics.choices import TABLE, output_formats
from ..basics.errors import InputError, did_you_mean
from .table import Table

WIDTH = 80  # in columns, if the output is not a terminal
ROWS_AT_ONCE = 10_000


@dataclass(frozen=True)
class Format:
    """How tables are written."""

    render: Callable[[Sequence[Table], int], str]  # tables and the terminal's width → text that ends with a line break
    # A title and rows, too many for memory → text in pieces; None for people, who are shown a sample.
    stream: Callable[[str, pl.LazyFrame], Iterator[str]] | None = None


def find_format(name: str) -> Format:
    """The format with this name; another name is an `InputError`."""
    known = output_formats()
    if name not in known:
        near = did_you_mean(name, known)
        raise InputError(f"--format {name}: {near}{'Give' if near else 'give'} {', '.join(known)}")
    found: Format = importlib.import_module(f".to_{name}", __package__).FORMAT
    return found


def render(tables: Sequence[Table], form: str = TABLE, *, width: int = WIDTH) -> str:
    """Tables as text that ends with a line break; a format that there is not is an `InputError`."""
    return find_format(form).render(tables, width)


def batches(rows: pl.LazyFrame, at_once: int = ROWS_AT_ONCE) -> Iterator[pl.DataFrame]:
    """The rows in frames of at most so many, none of them empty."""
    for batch in rows.collect_batches(chunk_size=at_once, engine="streaming"):
        if not batch.is_empty():
            yield batch
