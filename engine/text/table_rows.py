"""Parts of a table and their rows: what a source yields, and how bad rows are told from good ones."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

Check = Callable[[pl.DataFrame], pl.Series]
"""Rows → for each row why it cannot be used, a text; null where it can."""

SKIPPED_SCHEMA = {"row": pl.Int64, "line": pl.Int64, "reason": pl.String, "content": pl.String}
"""Of the frame of skipped rows: number of the row (from 1), line (null outside text files), why, fields as JSON."""

NEEDED = "a text is needed"


class Part(NamedTuple):
    """Rows that are read together."""

    start: int
    size: int
    offset: int = 0  # bytes before it in a text file
    line: int = 0


class Bad(NamedTuple):
    """A row that cannot be read, or cannot be used."""

    number: int
    line: int | None
    reason: str
    content: str


@dataclass(frozen=True, eq=False)
class Block:
    """The rows of a part as their source yields them."""

    part: Part
    frame: pl.DataFrame
    numbers: NDArray[np.int64]  # int64 [n], the number of each row in its file, from 1
    lines: NDArray[np.int64] | None  # int64 [n], the line where each begins; None outside text files
    bad: Sequence[Bad] = ()
    missing: Sequence[str] = ()  # what stands for a missing value


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a part that can be used, and those that are skipped."""

    frame: pl.DataFrame
    numbers: NDArray[np.int64]  # as in `Block`
    lines: NDArray[np.int64] | None
    skipped: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=SKIPPED_SCHEMA))

    def line(self, place: int) -> int | None:
        """The line where a row begins; None outside text files."""
        return None if self.lines is None else int(self.lines[place])

    def without(self, reasons: pl.Series) -> "Rows":
        """The same without the rows that have a reason, which are skipped; `reasons` as `Check` gives them."""
        if reasons.null_count() == len(reasons):
            return self
        keep = reasons.is_null()
        kept, dropped = keep.to_numpy(), np.flatnonzero(~keep.to_numpy())
        bad = [
            Bad(int(self.numbers[i]), self.line(i), str(reasons[i]), as_json(self.frame.row(i, named=True)))
            for i in dropped.tolist()
        ]
        skipped = pl.concat([self.skipped, _bad_frame(bad)]).sort("row", maintain_order=True)
        lines = None if self.lines is None else self.lines[kept]
        return Rows(self.frame.filter(keep), self.numbers[kept], lines, skipped)


def judged(block: Block, texts: Sequence[str], check: Check | None) -> Rows:
    """The rows of a block, judged by their texts and a check."""
    columns = {series.name: series for series in block.frame}
    for name in texts:  # a part can lack a column of JSON lines, even all of them, or have only nulls in it
        column = columns.get(name, pl.Series(name, [None] * len(block.numbers)))
        columns[name] = column.cast(pl.String)
    frame = pl.DataFrame(list(columns.values()))
    rows = Rows(frame, block.numbers, block.lines, _bad_frame(block.bad))
    rows = rows.without(_missing(frame, texts, block.missing))
    return rows if check is None or rows.frame.is_empty() else rows.without(check(rows.frame))


def _bad_frame(bad: Sequence[Bad]) -> pl.DataFrame:
    return pl.DataFrame(bad, schema=SKIPPED_SCHEMA, orient="row")


def as_json(value: Any) -> str:
    """A value as JSON text, whatever it is."""
    return json.dumps(value, ensure_ascii=False, default=str)


def typed(name: str, values: Sequence[Any], dtype: pl.DataType | None = None) -> pl.Series:
    """Values of JSON as a plain column: Boolean, Int64, Float64 or String; Null if there are only nulls.

    Where the values are of several kinds, or are lists or objects, they are written as texts: a text as it is, anything
    else as JSON. `dtype` is what the column is in the whole table; by default these values alone decide.
    """
    dtype = dtype if dtype is not None else _dtype(values)
    if dtype == pl.String:
        values = [value if value is None or isinstance(value, str) else as_json(value) for value in values]
    elif dtype == pl.Float64:
        values = [None if value is None else float(value) for value in values]
    return pl.Series(name, values, dtype)


def common_type(one: pl.DataType | None, other: pl.DataType) -> pl.DataType:
    """What a column is that is one thing in some parts and another thing in others; see `typed`."""
    if one is None or one in (other, pl.Null):
        return other
    if other == pl.Null:
        return one
    return pl.Float64() if {one, other} == {pl.Int64(), pl.Float64()} else pl.String()


def common_types(known: Mapping[str, pl.DataType], frame: pl.DataFrame) -> dict[str, pl.DataType]:
    """The columns of a table with those of a further part."""
    return {**known, **{name: common_type(known.get(name), dtype) for name, dtype in frame.schema.items()}}


def _dtype(values: Sequence[Any]) -> pl.DataType:
    found: pl.DataType = pl.Null()
    for kind in {_kind(value) for value in values}:
        found = common_type(found, kind)
    return found


def _kind(value: Any) -> pl.DataType:
    if value is None:
        return pl.Null()
    if isinstance(value, bool):
        return pl.Boolean()
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return pl.Int64()
    return pl.Float64() if isinstance(value, float) else pl.String()


def _missing(frame: pl.DataFrame, texts: Sequence[str], stand_ins: Sequence[str]) -> pl.Series:
    """Why rows lack a text; null where they lack none."""
    reason = pl.lit(None, pl.String)
    for name in reversed(list(texts)):
        column, where = pl.col(name), f"{name} is"
        reason = (
            pl.when(column.is_null())
            .then(pl.lit(f"{where} missing; {NEEDED}"))
            .when(column.str.strip_chars() == "")
            .then(pl.lit(f"{where} empty; {NEEDED}"))
            .when(column.is_in(list(stand_ins)))
            .then(pl.format(f"{where} {{}}, a missing value; {NEEDED}", column))
            .otherwise(reason)
        )
    return frame.select(reason.alias("reason")).to_series()
