"""What the cells of a user's table mean: types over the whole table, missing values, labels that rows share.

A part of a table has a column in the type of its own values. Values of several kinds are texts beside their kinds.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from types import NoneType
from typing import Any

import numpy as np
import polars as pl

from .text_lines import MISSING

LOOKS_MISSING = (
    *("None", "none", "NONE", "null", "NULL", "Null", "(null)", "<null>", "nil", "NIL", "nan", "NAN", "-nan", "-NaN"),
    *("N/A", "n/a", "na", "n.a.", "N.A.", "#NULL!", "#NA", "#N/A N/A", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
    *("missing", "undefined", "-", "–", "—", "?", "."),
)
"""What can be a word or a name, and is told where it stands."""
_READ = "which a model reads, too; remove it if it is not a part of the text"
ODD_TEXTS = {
    r"^[*?#%]+\s*\pL": f"In {{}}, a text begins with a mark such as *, {_READ}",
    r"^'.*'$": f"In {{}}, a text stands in single quotes, {_READ}",
    r"^[Ġ▁]\pL": f"In {{}}, a text begins with a tokenizer's own sign for a space, {_READ}",
    r"(?i)</?(p|b|i|u|em|strong|span|div|br|su[bp]|font|h[1-6])(\s[^<>]*)?/?>|&(#\w+|nbsp|amp|quot|apos|lt|gt);|"
    r"\*\*\pL|\\[a-z]": f"In {{}}, a text holds markup such as <b>, &amp; or \\n, {_READ}",
    "[ÃÐÑ][\u00a0-\u00bfŸ„–œ€]|â€|Â[\u00a0-\u00bf]|\ufffd": "In {}, a text holds signs such as Ã¼ or \ufffd, which "
    "letters become where a file is read in another encoding than its own; correct them if it is so",
    r"__|(^|\s)_(\s|[.,;:!?]|$)|\[[Mm]ask\]|<M(ask|ASK)>": (
        f"In {{}}, a text holds a blank such as ___ or [mask], {_READ}"
    ),
}
"""Pattern of a text that may have more than its author means → what is told of its rows."""
RARELY_ODD = {r"[\pL\pN]$": "In {}, a text ends without a full stop or the like, unlike the others; is it a title?"}
"""The same, where few texts of a column are so."""
ERRORS = ("#REF!", "#NAME?", "#VALUE!", "#DIV/0!", "#NUM!", "#SPILL!", "#CALC!", "#GETTING_DATA", "Err:502", "Err:508")
_NEEDED = "a text is needed"
MIXED = pl.Struct({"kind": pl.String, "text": pl.String})
_TYPES = {str: pl.String, bool: pl.Boolean, int: pl.Int64, float: pl.Float64, NoneType: pl.Null}
_EXACT = 2**53  # whole numbers up to here are the same as fractions
_CONTROL, _NO_TEXT, _SURROGATE = r"[\x00-\x08\x0e-\x1f\x7f]", "\x1a", re.compile("[\ud800-\udfff]")
_SPACES = r"[\s\p{Zs}]+"
INVISIBLE = "[\\p{Default_Ignorable_Code_Point}&&[^\u200c\u200d]]"  # joiners change how letters look


def as_json(value: Any) -> str:
    """A value as JSON text, whatever it is."""
    return json.dumps(value, ensure_ascii=False, default=str)


def column_of(name: str, values: Iterable[Any]) -> pl.Series:
    """Values of any library as a column; NaN and its like are null."""
    if isinstance(values, pl.Series):
        return values.alias(name)
    found = list(values)
    if not set(map(type, found)) <= {str, NoneType}:
        found = list(map(_plain, found))
    types = set(map(type, found)) - {NoneType}
    if len(types) < 2 and types <= set(_TYPES):
        dtype = _TYPES[types.pop()] if types else pl.Null
        try:
            return pl.Series(name, found, dtype)
        except UnicodeEncodeError:
            return pl.Series(name, [_SURROGATE.sub(_NO_TEXT, value) if value else value for value in found], dtype)
        except TypeError:  # a whole number can be too large
            pass
    both = [None if value is None else {"kind": _kind(value), "text": _text(value)} for value in found]
    return pl.Series(name, both, MIXED)


def _plain(value: Any) -> Any:
    """A value as Python has it; None where it stands for no value."""
    if isinstance(value, np.float16 | np.float32):
        value = float(str(value))  # as a person sees it: 0.1
    value = value.item() if isinstance(value, np.generic) else value.value if isinstance(value, Enum) else value
    if type(value).__name__ in {"NAType", "NaTType"}:
        return None
    for kind in (str, bool, int, float):
        if isinstance(value, kind):
            return None if value != value else kind(value)  # noqa: PLR0124 - NaN
    if isinstance(value, bytes):  # some writers do not say that a column holds texts
        return value.decode(errors="backslashreplace")
    value = value.tolist() if hasattr(value, "tolist") else value
    return value if isinstance(value, Mapping | list | tuple | set | None) else str(value)


def _kind(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return "whole" if abs(value) <= _EXACT else "large" if -(2**63) <= value < 2**63 else "huge"
    return {str: "text", bool: "truth", float: "fraction"}.get(type(value), "nested")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else as_json(value)


def exact(value: Any) -> Any:
    """A whole number where a fraction is one, such as in spreadsheets, where every number is a fraction."""
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) <= _EXACT
    return int(value) if is_whole else value


def kinds_of(column: pl.Series) -> set[str]:
    """What the values of a part are: `text`, `truth`, `fraction`, `nested` (lists and objects), or a kind of number.

    Whole numbers are `whole`, `large` or `huge`.
    """
    if column.null_count() == len(column):
        return set()
    if column.dtype == MIXED:
        return set(column.struct.field("kind").drop_nulls())
    if column.dtype.is_integer():
        return {_kind(column.min()), _kind(column.max())}
    return {"truth" if column.dtype == pl.Boolean else "fraction" if column.dtype == pl.Float64 else "text"}


def type_of(kinds: set[str]) -> pl.DataType:
    """What a column is over the whole table; a whole number never becomes a fraction that differs from it."""
    types = {pl.Boolean(): {"truth"}, pl.Int64(): {"whole", "large"}, pl.Float64(): {"whole", "fraction"}}
    return next((dtype for dtype, own in types.items() if kinds and kinds <= own), pl.String())


def as_type(column: pl.Series, dtype: pl.DataType) -> pl.Series:
    """A column of a part in its type of the whole table; a text is the one that a person sees."""
    if column.dtype == MIXED:
        column = column.struct.field("text").alias(column.name)
    if dtype == pl.String and column.dtype == pl.Float64:
        return pl.Series(column.name, [None if value is None else str(value) for value in column], dtype)
    return column.cast(dtype)


def unusable(stored: pl.DataFrame, texts: Sequence[str], optional: Sequence[str], labels: Sequence[str]) -> pl.Series:
    """For each row why it lacks one of `texts`, or what in a column is not a text or a value; null where nothing is."""
    reasons = [pl.lit(None, pl.String)]
    for name in (*texts, *optional):
        if (column := stored[name]).dtype not in {pl.String, pl.Null}:
            is_odd = column.struct.field("kind") != "text" if column.dtype == MIXED else column.is_not_null()
            reasons.append(f"{name} is " + pl.when(is_odd).then(as_type(column, pl.String())) + f"; {_NEEDED}")
    for name in dict.fromkeys((*texts, *optional, *labels)):
        text = pl.lit(as_type(stored[name], pl.String())).str.strip_chars()
        if name in texts:
            missing = (
                pl.when(text == "").then(pl.lit("empty")).when(text.is_in(MISSING)).then(text + ", a missing value")
            )
            reasons.append(f"{name} is " + missing.when(text.is_null()).then(pl.lit("missing")) + f"; {_NEEDED}")
        error = pl.when(text.is_in(ERRORS)).then(text + ", an error of a spreadsheet; correct the cell")
        reasons.append(f"{name} is " + error)
        odd = pl.when(text.str.contains(_CONTROL)).then(pl.lit("a character that cannot be printed; remove it"))
        reasons.append(f"{name} holds " + odd)
    return stored.select(pl.coalesce(reasons).alias("reason")).to_series()


def doubts(rows: pl.DataFrame, texts: Sequence[str]) -> Iterator[tuple[str, str, pl.Series]]:
    """What may not be meant: its column, a sentence with a place for the rows, and whether it is so in each row."""
    for column in rows.iter_columns():
        text = column.cast(pl.String).str.strip_chars()
        for word in text.filter(text.is_in(LOOKS_MISSING)).unique(maintain_order=True):
            said = f"{word} stands in {{}} and counts as a value; is it one? Else leave the cell empty"
            yield column.name, said, text == word
        for pattern, said in (ODD_TEXTS | RARELY_ODD if column.name in texts else {}).items():
            if (is_so := text.str.contains(pattern)).any():
                yield column.name, said, is_so


def label(column: pl.Series) -> pl.Series:
    """What rows share, in one spelling: composed letters, usual spaces, none at the ends, nothing invisible."""
    if column.dtype != pl.String:
        return column
    text = column.str.normalize("NFC").str.replace_all(INVISIBLE, "").str.replace_all(_SPACES, " ").str.strip_chars()
    return text.set(text.is_in(MISSING), None)
