"""Parts of a table and their rows: how bad rows are told from good ones, and what the columns of JSON lines are."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

Check = Callable[[pl.DataFrame], pl.Series]  # rows → for each row why it cannot be used; null where it can
# Of the frame of skipped rows: number of the row (from 1), line (null outside text files), why, fields as JSON.
SKIPPED_SCHEMA = {"row": pl.Int64, "line": pl.Int64, "reason": pl.String, "content": pl.String}
NEEDED = "a text is needed"


class Part(NamedTuple):
    """Rows that are read together."""

    start: int
    size: int
    offset: int = 0  # bytes before it in a text file
    line: int = 0


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a part that can be used, and those that are skipped."""

    frame: pl.DataFrame
    numbers: NDArray[np.int64]  # int64 [n], the number of each row in its file, from 1
    lines: NDArray[np.int64] | None = None  # int64 [n], the line where each begins; None outside text files
    skipped: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=SKIPPED_SCHEMA))

    def line(self, place: int) -> int | None:
        return None if self.lines is None else int(self.lines[place])

    def without(self, reasons: pl.Series) -> "Rows":
        """The same without the rows that have a reason, which are skipped; `reasons` as `Check` gives them."""
        if reasons.null_count() == len(reasons):
            return self
        keep = reasons.is_null()
        bad = [
            (int(self.numbers[i]), self.line(i), reasons[i], as_json(self.frame.row(i, named=True)))
            for i in (~keep).arg_true().to_list()
        ]
        skipped = pl.concat([self.skipped, pl.DataFrame(bad, schema=SKIPPED_SCHEMA, orient="row")])
        kept = keep.to_numpy()
        lines = None if self.lines is None else self.lines[kept]
        return Rows(self.frame.filter(keep), self.numbers[kept], lines, skipped.sort("row", maintain_order=True))

    def judged(self, texts: Sequence[str], missing: Sequence[str], check: Check | None) -> "Rows":
        """The same without rows that lack a text, or have one of `missing` for it, and without those a check finds."""
        nothing = [None] * len(self.numbers)  # a frame without columns does not know how many rows it has
        absent = [pl.Series(name, nothing, pl.String) for name in texts if name not in self.frame.columns]
        frame = pl.DataFrame([*self.frame, *absent]).with_columns(pl.col(texts).cast(pl.String))
        rows = replace(self, frame=frame).without(_missing(frame, texts, missing))
        return rows if check is None or rows.frame.is_empty() else rows.without(check(rows.frame))


def shared_values(frame: pl.DataFrame, names: Iterable[str], missing: Sequence[str]) -> dict[str, pl.Series]:
    """The named columns that a frame has, without outer spaces; an empty cell, NaN, and texts in `missing` are null."""
    found = {name: frame[name] for name in names if name in frame.columns}
    for name, column in found.items():
        if column.dtype == pl.String:
            text = column.str.strip_chars()
            found[name] = text.set(text.is_in(["", *missing]), None)
        elif column.dtype.is_float():
            found[name] = column.fill_nan(None)
    return found


def as_json(value: Any) -> str:
    """A value as JSON text, whatever it is."""
    return json.dumps(value, ensure_ascii=False, default=str)


def typed(name: str, values: Sequence[Any], dtype: pl.DataType | None = None) -> pl.Series:
    """Values of JSON as a plain column, by default of the type that they have together; others are written as texts."""
    if dtype is None:
        dtype = pl.Null()
        for kind in {_kind(value) for value in values}:
            dtype = common_type(dtype, kind)
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
    reasons = []
    for name in texts:
        column, where = pl.col(name), f"{name} is"
        reasons += [
            pl.when(column.is_null()).then(pl.lit(f"{where} missing; {NEEDED}")),
            pl.when(column.str.strip_chars() == "").then(pl.lit(f"{where} empty; {NEEDED}")),
            pl.when(column.is_in(list(stand_ins))).then(pl.lit(f"{where} ") + column + f", a missing value; {NEEDED}"),
        ]
    return frame.select(pl.coalesce(reasons).alias("reason")).to_series()
