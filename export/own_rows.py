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

from ..engine.basics.errors import InputError

_UNSEEN = regex.compile(r"(?V1)[\p{Default_Ignorable_Code_Point}--[\u200c\u200d]]")
_NOTHING = regex.compile(r"|NA|NaN|<NA>|NaT|\\N|#(N/A|REF!|NAME\?|VALUE!|DIV/0!|NUM!|SPILL!|CALC!)")
_ONE = {"syntax/semantics": "syntax_semantics", "s-selection": "argument_structure"}  # of BLiMP
_HAN = regex.compile(r"\p{Han}+")
Row = Mapping[str, Any]


def table_rows(path: Path, needed: Sequence[str]) -> Iterator[Row]:
    """The rows of a table with the columns `needed`; `InputError` for one that is neither CSV, JSON nor Parquet."""
    if path.suffix.lower() == ".parquet":
        yield from pl.read_parquet(path, columns=list(needed), glob=False).iter_rows(named=True)
        return
    packed = path.read_bytes()[:2] == b"\x1f\x8b"
    with (gzip.open if packed else open)(path, "rt", encoding="utf-8-sig", newline="") as file:
        first = next((line for line in file if line.strip() and not line.lower().startswith("sep=")), "")
        if first.lstrip()[:1] in {"{", "["}:
            for text in [first + file.read()] if first.lstrip()[0] == "[" else chain([first], filter(str.strip, file)):
                # Of a key that stands there twice the first one counts, and in most programs the last one.
                found = json.loads(text, object_pairs_hook=lambda pairs: dict(reversed(pairs)))
                yield from found if isinstance(found, list) else [found]
            return
        for delimiter in ",;\t| ":
            [header] = csv.reader([first], delimiter=delimiter)
            if set(needed) <= set(names := [unicodedata.normalize("NFC", name.strip()) for name in header]):
                break
        else:
            raise InputError(f"{path}: csv finds no columns {', '.join(needed)}")
        for fields in csv.reader(file, delimiter=delimiter):
            own = fields[1:] if len(fields) == len(names) + 1 else fields  # R's write.table names the rows
            if any(fields) and own != header:
                yield dict(zip(names, own, strict=True))


def difference(item: Row, row: Row, texts: Sequence[str], labels: Sequence[str], found: Sequence[str]) -> str:
    """What items.parquet has of the columns in use and the file does not; empty if nothing differs.

    The columns `found` were found by their names.
    """
    for name in (own for own in (*texts, *labels) if own in item):
        if name in found and name != name.lower() in row:
            return f"{name} was taken for {name.lower()}, which the file has, too"
        cell, there = row.get(name), item[name]
        wanted = _text(cell)
        if name in labels and wanted is not None:
            wanted = " ".join(_seen(wanted).split())
            wanted = _ONE[wanted] if wanted in _ONE and there == _ONE[wanted] else wanted
        if isinstance(cell, str | int | float | None) and wanted != (None if there is None else str(there)):
            return f"{name} is {there!r}, but the file has {cell!r}"
    if "target_column" not in item:
        return ""
    word, sentence = str(row[item["target_column"]]).strip(), str(row[texts[0]])
    if item["expected"] != word:
        return f"the target is {item['expected']!r}, but the file has {word!r}"
    return _repetition(
        item["repeats_word"], *(_seen(own.casefold()) for own in (word, sentence.replace("[MASK]", " ")))
    )


def _repetition(told: bool, word: str, sentence: str) -> str:
    """A word that does not stand there is not repeated; one that stands between spaces is, and so is a Chinese one."""
    alone = word in (own.strip(".,;:!?'\"()") for own in sentence.split()) or _HAN.fullmatch(word)
    is_wrong = word not in sentence if told else word in sentence and alone
    return f"repeats_word is {told} for {word!r} in {sentence!r}" if is_wrong else ""


def _seen(text: str) -> str:
    return unicodedata.normalize("NFC", _UNSEEN.sub("", text))


def _text(cell: Any) -> str | None:
    """A cell as a text; None where no value stands."""
    text = str(cell).lower() if isinstance(cell, bool) else str(cell)
    is_nothing = cell is None or cell != cell or _NOTHING.fullmatch(text.strip())  # noqa: PLR0124 - NaN
    return None if is_nothing else text
