"""The rows of a run on a user's table against the table itself, as an outsider reads it (`verify --torch`)."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import regex

from ...basics.errors import InputError
from ...basics.frames import literal
from ...basics.paths import with_home
from ...basics.reading import file_sha256, is_file, paths_in
from ...inference.again import Draw
from ...library.sentences import OWN
from ...requests.items import WHY
from ...text.table_sources import bare
from .checks import Check
from .reference import other_reader
from .results import StoredStage

COLUMNS = "columns"  # of the table, by their purpose: a key of the metadata
_TEXTS, _LABELS = ("sentence", "good", "bad", "prefix", "targets"), ("groups", "cluster", "item", "pair", "acceptable")
_FILE_NAME = "file name"  # a label that no column has
_ONE = {"syntax/semantics": "syntax_semantics", "s-selection": "argument_structure"}  # of BLiMP: one label each
_TURKISH = str.maketrans("Iİ", "ıi")  # capital letters → small ones
Named = dict[str, Any]
# Its row; what the row has, by the table's own names of columns; column, word and `repeats_word` of its target, if any.
Asked = tuple[int, Named, tuple[str, str, bool] | None]


def check_own_rows(stage: StoredStage, items: pl.DataFrame, draw: Draw) -> Check:
    """Some rows, and how many there are; skipped where the table was in memory, is gone, or is another one now."""
    check = Check(stage.name, "rows are those of the table, as others read it", unit="rows")
    given = stage.record.metadata.get("call", {}).get("arguments", {})
    data = given.get("data")
    path = with_home(data["path"]) if isinstance(data, dict) and "path" in data else None
    names = items["file"].unique(maintain_order=True).to_list() if "file" in items.columns else [None]
    paths = {name: own for name in names for own in ([] if path is None else _files(path, name))}
    if len(paths) < len(names):
        return check.skipped("the table was in memory, or is not there any more")
    if _sha256(paths) != stage.record.identity["data sha256"]:
        return check.skipped(f"{path} has changed since")
    texts, labels = (_named(stage.record.metadata[COLUMNS], kinds) for kinds in (_TEXTS, _LABELS))
    found = [name for name in (*texts, *labels) if name not in _named(given, given)]
    drawn = pl.DataFrame(draw.some(items.filter(pl.col(WHY).is_null())), schema=items.schema)
    is_whole = not stage.record.identity["skip bad rows"]
    try:
        asking, own_names = stage.record.metadata[COLUMNS], stage.record.metadata[OWN]
        for name, own in paths.items():
            of_file = drawn if name is None else drawn.filter(file=name)
            rows = items if name is None else items.filter(file=name)
            n = rows["row"].n_unique() if is_whole else None
            asked = [_as_named(item, asking, own_names) for item in of_file.to_dicts()]
            if said := _wrong(own, asked, n, (texts, labels, found)):
                return check.damaged(f"{own}: {said}", stage.decide_again)
    except (InputError, OSError, UnicodeError, ValueError, LookupError, pl.exceptions.PolarsError) as error:
        return check.skipped(f"others cannot read {path} ({error})")
    return Check(stage.name, check.what, len(drawn), "rows")


def _wrong(path: Path, items: list[Asked], n: int | None, columns: tuple[list[str], ...]) -> str:
    (table_rows, told, seen), (texts, labels, _) = other_reader(), columns
    number, by_row = 0, dict[int, list[Asked]]()
    for item in items:
        by_row.setdefault(item[0], []).append(item)
    for number, row in enumerate(table_rows(path, [*texts, *labels]), 1):
        if number in by_row:
            own = {literal(seen(name)): told(cell) for name, cell in row.items()}
            own |= {name: seen(own[name]) for name in labels if own.get(name) is not None}
            for _, there, target in by_row[number]:
                said = _difference(there, own, *columns)
                if not said and target and not can_repeat(seen(own[target[0]]), seen(own[texts[0]]), told=target[2]):
                    said = f"{own[target[0]]!r} has repeats_word {target[2]}, but the file has {own[texts[0]]!r}"
                if said:
                    return f"row {number}: {said}"
    return "" if n in {None, number} else f"it has {number:,} rows, the run {n:,}"


def _difference(item: Named, row: Named, texts: list[str], labels: list[str], found: list[str]) -> str:
    """What items.parquet has and a row of the file does not; empty if nothing differs.

    Labels are as a person sees them, texts without white space at their ends. `found` are columns found by their names.
    """
    for name in (own for own in (*texts, *labels) if own in item):
        cell, there = row.get(name), None if item[name] is None else str(item[name]).strip()
        if there not in {cell, _ONE.get(cell or "", cell)}:
            return f"{name} is {there!r}, but the file has {cell!r}"
        if name in found and name != name.lower() in row:
            return f"{name} was taken for {name.lower()}, which the file has, too"
    return ""


def can_repeat(word: str, sentence: str, *, told: bool) -> bool:
    """Whether a sentence can be told to have a word already, or not to have it, as a reader judges.

    What is told as absent must not stand there alone, between the boundaries of words of Unicode (UAX 29).
    """
    sentence = sentence.replace("[MASK]", " ")
    forms = [(word, sentence)]
    if any(letter in word + sentence for letter in "ıİ"):
        forms.append((word.translate(_TURKISH), sentence.translate(_TURKISH)))
    small = [(own.casefold(), text.casefold()) for own, text in forms]
    if told:
        return any(own in text for own, text in small)
    return not any(regex.search(rf"(?w)\b{regex.escape(own)}\b", text) for own, text in small)


def _as_named(item: dict[str, Any], columns: Mapping[str, Any], own: Mapping[str, str]) -> Asked:
    """What an item has of its row, under the table's own names of columns; and its target, where it has one."""
    row: dict[str | None, Any] = {name: item[kept] for kept, name in own.items()}
    row[columns.get("sentence") or columns.get(item["role"])] = item.get("text")
    row[columns.get("prefix")] = item.get("context")
    target = (item["condition"], item["word"], item["repeats_word"]) if "word" in item else None
    row |= {} if target is None else {target[0]: target[1]}
    return item["row"], {name: value for name, value in row.items() if name is not None}, target


def _named(values: Mapping[str, Any], keys: Iterable[str]) -> list[str]:
    """The names of columns that some values of a JSON object hold, alone or in a list."""
    found = [values.get(key) for key in keys]
    every = [name for own in found for name in (own if isinstance(own, list) else [own]) if isinstance(name, str)]
    return [name for name in dict.fromkeys(every) if name != _FILE_NAME]


def _files(path: Path, name: str | None) -> Iterator[Path]:
    if name is None:
        yield from [path] if is_file(path) else []
    else:
        files = paths_in(path)
        own = [file for file in files if file.name == name] or [file for file in files if bare(file).stem == name]
        yield from own[:1]


def _sha256(paths: Mapping[str | None, Path]) -> str:
    if None in paths:
        return file_sha256(paths[None])
    lines = [f"{file_sha256(path)}  {name}\n" for name, path in paths.items()]
    return hashlib.sha256("".join(lines).encode()).hexdigest()
