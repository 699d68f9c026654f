"""The outsider of `verify --torch` reads a user's table again: with `csv` and `json`, by the rules of the documents.

It shares nothing with the program's reading.
"""

import csv
import gzip
import json
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import polars as pl
import regex

_NOTHING = regex.compile(r"|NA|NaN|<NA>|NaT|\\N|#(N/A|REF!|NAME\?|VALUE!|DIV/0!|NUM!|SPILL!|CALC!)")


def table_rows(path: Path, needed: Collection[str]) -> Iterator[Mapping[str, Any]]:
    """The rows of a table in CSV, JSON or Parquet with its own names of columns; any error for what is none of them."""
    if path.suffix.lower() == ".parquet":
        frame = pl.read_parquet(path, glob=False).rename(seen).select(needed)
        yield from frame.cast({pl.Float32: pl.String}).iter_rows(named=True)  # 0.1, as its writer saw it
        return
    opened = gzip.open if path.read_bytes()[:2] == b"\x1f\x8b" else open
    with opened(path, "rt", encoding="utf-8", newline="") as file:
        lines = (line.removeprefix("\ufeff").replace("\r\n", "\n") for line in file)  # files can be joined
        first = next(line for line in lines if line.strip() and line[:4].lower() != "sep=")
        if (begin := first.lstrip()[0]) in "[{":
            # Of a key that stands there twice the first one counts, and in most programs the last one.
            decode = json.JSONDecoder(object_pairs_hook=lambda own: dict(own[::-1])).decode
            filled = filter(str.strip, chain([first], lines))
            yield from decode("".join(filled)) if begin == "[" else map(decode, filled)
            return
        headers = {sign: next(csv.reader([first], delimiter=sign, skipinitialspace=True)) for sign in ",;\t| "}
        sign = max(headers, key=lambda sign: len({*map(seen, headers[sign])} & {*needed}))
        rows = csv.reader(chain([first], lines), delimiter=sign, skipinitialspace=True)
        header = next(rows)  # a name can go on over lines
        for fields in rows:
            own = fields[-len(header) :]  # R's write.table names the rows
            if "".join(fields).strip("-: " if sign == "|" else ""):  # the header again is not a row of values
                yield {} if own == header else dict(zip(header, own, strict=False))


def told(cell: Any) -> str | None:
    """What a cell says, without white space at its ends; None where it says nothing."""
    text = str(cell).lower() if isinstance(cell, bool) else str(cell).strip()
    return None if cell is None or cell != cell or _NOTHING.fullmatch(seen(text)) else text  # noqa: PLR0124 - NaN


def seen(text: str) -> str:
    """A text or a name as a person sees it."""
    return unicodedata.normalize("NFC", " ".join(regex.sub(r"(?V1)[\p{DI}--[\u200c\u200d]]", "", text).split()))
