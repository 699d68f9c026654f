"""The outsider of `verify --torch` reads a user's table again: with `csv` and `json`, by the rules of the documents.

It shares nothing with the program's reading. In items.parquet, a text is as the file has it; a label has one spelling.
"""

import csv
import gzip
import json
import math
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from ..engine.basics.errors import InputError

_NOTHING = re.compile(r"|NA|NaN|<NA>|NaT|\\N|#(N/A|REF!|NAME\?|VALUE!|DIV/0!|NUM!|SPILL!|CALC!)")
_UNSEEN = dict.fromkeys(map(ord, "\u200b\u2060\ufeff\u00ad\u200e\u200f"))
_ONE = {"syntax/semantics": "syntax_semantics", "s-selection": "argument_structure"}  # of BLiMP
_HAN = re.compile("[\u4e00-\u9fff]+")
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
            text = first + file.read()
            listed = first.lstrip().startswith("[")
            for line in [text] if listed else filter(str.strip, text.split("\n")):
                found = json.loads(line, object_pairs_hook=_each_once)
                yield from found if listed else [found]
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


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return {name: value if sum(name == own for own, _ in pairs) == 1 else pairs for name, value in pairs}


def difference(item: Row, row: Row, texts: Sequence[str], labels: Sequence[str], found: Sequence[str]) -> str:
    """What items.parquet has of the columns in use and the file does not; empty if nothing differs.

    The columns `found` were found by their names.
    """
    for name in (own for own in (*texts, *labels) if own in item):
        cell, there = row.get(name), item[name]
        if name in found and name != name.lower() in row:
            return f"{name} was taken for {name.lower()}, which the file has, too"
        wanted = None if _is_nothing(cell) else _text(cell)
        if name in labels and wanted is not None:
            wanted = " ".join(unicodedata.normalize("NFC", wanted).translate(_UNSEEN).split())
            wanted = _ONE[wanted] if wanted in _ONE and there == _ONE[wanted] else wanted
        if isinstance(cell, str | int | float | None) and wanted != (None if there is None else _text(there)):
            return f"{name} is {there!r}, but the file has {cell!r}"
    if "target_column" not in item:
        return ""
    word, sentence = _text(row[item["target_column"]]).strip(), _text(row[texts[0]]).replace("[MASK]", " ")
    if item["expected"] != word:
        return f"the target is {item['expected']!r}, but the file has {word!r}"
    return _repetition(
        item["repeats_word"], *(unicodedata.normalize("NFC", own).casefold() for own in (word, sentence))
    )


def _repetition(told: bool, word: str, sentence: str) -> str:
    """A word that does not stand there is not repeated; one that stands between spaces is, and so is a Chinese one."""
    stands = word.translate(_UNSEEN) in sentence.translate(_UNSEEN)
    alone = word in (own.strip(".,;:!?'\"()") for own in sentence.split()) or _HAN.fullmatch(word)
    is_wrong = not stands if told else stands and alone
    return f"repeats_word is {told} for {word!r} in {sentence!r}" if is_wrong else ""


def _is_nothing(cell: Any) -> bool:
    is_nan = isinstance(cell, float) and math.isnan(cell)
    return cell is None or is_nan or _NOTHING.fullmatch(_text(cell).strip()) is not None


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
