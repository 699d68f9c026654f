"""The outsider of `verify --torch` reads a user's table again: with `csv` and `json`, by the rules of the documents.

It shares nothing with the program's reading. In items.parquet, a text is as the file has it; a label has one spelling.
"""

import csv
import gzip
import json
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import polars as pl
import regex

_NOTHING = regex.compile(r"|NA|NaN|<NA>|NaT|\\N|#(N/A|REF!|NAME\?|VALUE!|DIV/0!|NUM!|SPILL!|CALC!)")
_ONE = {"syntax/semantics": "syntax_semantics", "s-selection": "argument_structure"}  # of BLiMP
Row = Mapping[str, Any]


def table_rows(path: Path, needed: Sequence[str]) -> Iterator[Row]:
    """The rows of a table in CSV, JSON or Parquet; any error for what is none of them."""
    if path.suffix.lower() == ".parquet":
        yield from pl.read_parquet(path, glob=False).rename(_seen).select(needed).iter_rows(named=True)
        return
    is_packed = path.read_bytes()[:2] == b"\x1f\x8b"
    with (gzip.open if is_packed else open)(path, "rt", encoding="utf-8-sig", newline="") as file:
        lines = (line.removeprefix("\ufeff") for line in file)  # files can be joined
        first = next(line for line in lines if line.strip() and not line.lower().startswith("sep="))
        # Of a key that stands there twice the first one counts, and in most programs the last one.
        decode = json.JSONDecoder(object_pairs_hook=lambda own: {_seen(key): value for key, value in own[::-1]}).decode
        if first.lstrip()[0] in "[{":
            is_list = first.lstrip()[0] == "["
            yield from decode(first + file.read()) if is_list else map(decode, filter(str.strip, chain([first], lines)))
            return
        headers = {sign: next(csv.reader([first], delimiter=sign, skipinitialspace=True)) for sign in ",;\t| "}
        sign = max(headers, key=lambda sign: len({*map(_seen, headers[sign])} & {*needed}))
        names = [*map(_seen, headers[sign])]
        for fields in csv.reader(lines, delimiter=sign, skipinitialspace=True):
            own = fields[-len(names) :]  # R's write.table names the rows
            if "".join(fields).strip("-: " if sign == "|" else ""):  # the header again is not a row of values
                yield dict.fromkeys(names) if own == headers[sign] else dict(zip(names, own, strict=False))


def difference(
    item: Row,
    row: Row,
    texts: Sequence[str],
    labels: Sequence[str],
    found: Sequence[str],
    target: tuple[str, str, bool] | None = None,
) -> str:
    """What items.parquet has and the file does not; empty if nothing differs. `found` were found by their names.

    `target` is a column, the word that was asked there, and whether its sentence is said to have it already.
    """
    for name in (own for own in (*texts, *labels) if own in item):
        cell, there = row.get(name), item[name]
        text = str(cell).lower() if isinstance(cell, bool) else str(cell)
        text = _seen(text) if name in labels else text
        is_nothing = cell is None or cell != cell or _NOTHING.fullmatch(text.strip())  # noqa: PLR0124 - NaN
        wanted = {None} if is_nothing else {text, _ONE.get(text, text)}
        if not isinstance(cell, list | dict) and (None if there is None else str(there)) not in wanted:
            return f"{name} is {there!r}, but the file has {cell!r}"
        if name in found and name != name.lower() in row:
            return f"{name} was taken for {name.lower()}, which the file has, too"
    if target is None:
        return ""
    column, expected, told = target
    word, sentence = str(row[column]).strip(), _seen(str(row[texts[0]])).casefold()
    sentence = sentence.replace("[mask]", " ")
    own = _seen(word).casefold()
    # A word that does not stand there is not repeated; one between spaces is, and so is a Chinese one.
    alone = own in (part.strip(".,;:!?'\"()") for part in sentence.split()) or regex.fullmatch(r"\p{Han}+", own)
    if expected != word or (own not in sentence if told else own in sentence and alone):
        return f"{expected!r} has repeats_word {told}, but the file has {word!r} for {sentence!r}"
    return ""


def _seen(text: str) -> str:
    """A name as a person sees it."""
    return unicodedata.normalize("NFC", " ".join(regex.sub(r"(?V1)[\p{DI}--[\u200c\u200d]]", "", text).split()))
