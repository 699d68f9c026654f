"""What names and cells of a user's table mean: types over the whole table, missing values, labels that rows share.

A part of a table has columns of texts alone. A value that is not a text, such as a number, is written as JSON behind
the sign `NOT_TEXT`. A date or a time stands there as Python writes it, such as 2026-05-01.
"""

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, time, timedelta
from enum import Enum
from types import NoneType
from typing import Any

import numpy as np
import polars as pl
import regex

from ..basics.errors import InputError
from ..basics.frames import literal
from .text_lines import CONTROL, MISSING

NOT_TEXT = "\0"  # no text has it: it cannot be printed
ERRORS = ("#REF!", "#NAME?", "#VALUE!", "#DIV/0!", "#NUM!", "#SPILL!", "#CALC!", "#GETTING_DATA", "Err:502", "Err:508")
_NEEDED = "; a text is needed"
_CUT = r"^-?\d+([.,]\d+)?[eE]\+\d+$"  # as spreadsheets and fractions write long numbers: ids fall together
DATE = "date"  # the kind of dates and times
MOST_COLUMNS = 1_000
EXACT = 2**53  # whole numbers up to here are the same as fractions
_VALUE = pl.col("value").str.strip_prefix(NOT_TEXT)
_KINDS = {  # the first one that fits counts; a whole number that is not in 64 bits is huge
    "truth": _VALUE.str.contains("^[tf]"),
    "nested": _VALUE.str.contains(r'^["\[{]'),
    DATE: _VALUE.str.contains(r"\d[:-]\d"),
    "fraction": _VALUE.str.contains(r"[^\d-]"),
    "large": _VALUE.cast(pl.Int64, strict=False).abs() > EXACT,
    "whole": _VALUE.cast(pl.Int64, strict=False).is_not_null(),
    "huge": _VALUE.is_not_null(),
}
_KIND = pl.coalesce(*(pl.when(test).then(pl.lit(kind)) for kind, test in _KINDS.items()))
_TYPES = {pl.Boolean(): {"truth"}, pl.Int64(): {"whole", "large"}, pl.Float64(): {"whole", "fraction"}}
_NO_TEXT, _SURROGATE = "\x1a", re.compile("[\ud800-\udfff]")
_SPACES = r"[\s\p{Zs}]+"
INVISIBLE = "[\\p{Default_Ignorable_Code_Point}&&[^\u200c\u200d]]"  # joiners change how letters look
_UNSEEN = regex.compile(INVISIBLE, regex.V1)
_AS_JSON = json.JSONEncoder(ensure_ascii=False, default=str).encode


def column_of(name: str, values: Any) -> pl.Series:
    """Values of any library as a column of texts; NaN and its like are null."""
    if isinstance(values, pl.Series) and values.dtype != pl.String:
        if values.dtype == pl.Boolean or values.dtype.is_integer():
            return (NOT_TEXT + values.cast(pl.String)).alias(name)
        values = listed(values)
    are_texts = isinstance(values, pl.Series) or set(map(type, values)) <= {str, NoneType}
    cells = values if are_texts else list(map(_stored, values))
    try:
        column = pl.Series(name, cells, pl.String)
    except UnicodeEncodeError:
        column = pl.Series(name, [own and _SURROGATE.sub(_NO_TEXT, own) for own in cells], pl.String)
    return column.str.replace(f"^{NOT_TEXT}", _NO_TEXT) if are_texts else column


def listed(column: Any) -> Any:
    """The values of a column of any library; fractions of 16 or 32 bits stay as they are, so that 0.1 is 0.1."""
    if str(getattr(column, "dtype", "")).lower() in {"float16", "float32"}:
        return np.asarray(column)
    as_list = getattr(column, "to_list", None) or getattr(column, "tolist", None)
    return as_list() if as_list else list(column)


def _stored(value: Any) -> str | None:
    """A value as a part has it; None where it stands for no value."""
    if type(value) in {int, float}:
        return f"{NOT_TEXT}{value!r}" if value == value else None  # noqa: PLR0124 - NaN
    if isinstance(value, np.float16 | np.float32):
        value = float(str(value))  # as a person sees it: 0.1
    value = value.value if isinstance(value, Enum) else value.tolist() if hasattr(value, "tolist") else value
    if value is None or type(value).__name__ in {"NAType", "NaTType"}:
        return None
    if isinstance(value, bytes):  # some writers do not say that a column holds texts
        value = value.decode(errors="backslashreplace")
    if isinstance(value, bool | int | float | Mapping | list | tuple | set):
        return NOT_TEXT + _AS_JSON(value) if value == value else None  # noqa: PLR0124 - NaN
    if isinstance(value, date | time | timedelta):
        return f"{NOT_TEXT}{value}"
    return str(value).replace(NOT_TEXT, _NO_TEXT)


def kinds_of(column: pl.Series) -> set[str]:
    """What the values of a column of a part are: "text", and keys of `_KINDS`."""
    others = column.filter(column.str.starts_with(NOT_TEXT)).rename("value").to_frame()
    found = set[str]() if len(others) == column.count() else {"text"}
    return {*found, *others.select(_KIND).to_series().unique()} if len(others) else found


def type_of(kinds: set[str]) -> pl.DataType:
    """What a column is over the whole table; a whole number never becomes a fraction that differs from it."""
    return next((dtype for dtype, own in _TYPES.items() if kinds and kinds <= own), pl.String())


def as_type(name: str, dtype: pl.DataType) -> pl.Expr:
    """A column of a part in its type of the whole table; a text is the one that a person sees."""
    text = pl.col(name).str.strip_prefix(NOT_TEXT)
    return text == "true" if dtype == pl.Boolean else text.cast(dtype)


def unusable(texts: Sequence[str], optional: Sequence[str], labels: Sequence[str]) -> Iterator[pl.Expr]:
    """For each row of a part why it lacks one of `texts`, or what is not a text or a value; null where nothing is."""
    for name in dict.fromkeys((*texts, *optional, *labels)):
        whole = as_type(name, pl.String())
        text, is_text, must_be = whole.str.strip_chars(), name in {*texts, *optional}, name in texts
        cases = [
            (is_text & pl.col(name).str.starts_with(NOT_TEXT), "is ", whole, _NEEDED),
            (must_be & text.is_null(), "is missing", _NEEDED),
            (must_be & (text == ""), "is empty", _NEEDED),
            (must_be & text.is_in(MISSING), "is ", text, f", a missing value{_NEEDED}"),
            (text.is_in(ERRORS), "is ", text, ", an error of a spreadsheet; correct the cell"),
            (text.str.contains(CONTROL.pattern), "holds a character that cannot be printed; remove it"),
        ]
        if name in labels:
            cases.append((text.str.contains(_CUT), "is ", text, ", a number without its last digits; write a text"))
        for test, *said in cases:
            parts = (own if isinstance(own, pl.Expr) else pl.lit(own) for own in (f"{name} ", *said))
            yield pl.when(test).then(pl.concat_str(*parts))


def label(column: pl.Series) -> pl.Series:
    """What rows share, in one spelling: composed letters, usual spaces, none at the ends, nothing invisible."""
    if column.dtype != pl.String:
        return column
    text = column.str.normalize("NFC").str.replace_all(INVISIBLE, "").str.replace_all(_SPACES, " ").str.strip_chars()
    return text.set(text.is_in(MISSING), None)


def checked_names(names: Iterable[object], location: str) -> tuple[str, ...]:
    """The names of columns as they count; `InputError` if there are too many, or two alike."""
    found = tuple(map(seen_name, names))
    if len(found) > MOST_COLUMNS:
        raise InputError(f"{location}: {len(found):,} columns; a table has at most {MOST_COLUMNS:,}")
    if len(set(found)) < len(found):
        twice = next(name for name in found if found.count(name) > 1)
        raise InputError(f"{location}: two columns have the name {twice!r}; give each a name of its own")
    return found


def seen_name(name: object) -> str:
    """The name of a column as a person sees it, which is how it counts; see `literal`."""
    text = "" if name is None else str(name)
    text = text if text.isascii() else unicodedata.normalize("NFC", _UNSEEN.sub("", text))
    return literal(" ".join(text.split()))
