"""A user's tables of sentences or minimal pairs: what their columns are for, and how they are read.

sentences   one sentence in each row
pairs       two sentences in each row: a good one and a bad one; BLiMP's files are like this
pair rows   one sentence in each row, and two rows are a pair: they share a value, and another column says which
            of them is good

Several tables have the same columns, and lie in one folder, such as BLiMP.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from ...basics.errors import InputError
from ...basics.reading import is_folder, paths_in
from ...text.table_rows import Check, Rows
from ...text.user_table import Stimuli, Table, TableLike, find_column, needed_column, open_table

BLIMP = "blimp"
"""The data set that a user names in the place of a file."""


class Method(StrEnum):
    """How a masked language model scores a sentence; `likelihood_scores` says how they differ."""

    ORIGINAL = "original"
    WITHIN_WORD = "within-word-l2r"


GOOD, BAD = "good", "bad"
SIDES = (GOOD, BAD)
_SENTENCE = ("sentence", "text")
_OBVIOUS = {GOOD: ("sentence_good", "good"), BAD: ("sentence_bad", "bad")}
_BLIMP_GROUPS, _BLIMP_CLUSTER = ("field", "linguistics_term", "UID"), "UID"
# What the column `--acceptable` can hold, in lower case.
_WORDS = {
    GOOD: ("good", "acceptable", "grammatical", "true", "yes", "1", "1.0"),
    BAD: ("bad", "unacceptable", "ungrammatical", "false", "no", "0", "0.0"),
}


@dataclass(frozen=True)
class Columns:
    """Columns of a table by their purpose."""

    sentence: str | None = None  # None where a row holds a pair
    good: str | None = None  # the better sentences of pairs; None where a row holds one sentence
    bad: str | None = None  # the other sentences of pairs
    pair: str | None = None  # what the two rows of a pair share; None where rows are not parts of pairs
    acceptable: str | None = None  # whether a row is the good one of its pair
    groups: tuple[str, ...] = ()  # what means and accuracies are computed for, beside those of all
    cluster: str | None = None  # what rows share that depend on each other; None where they are independent

    @classmethod
    def of(
        cls,
        table: Table,
        *,
        sentence: str | None = None,
        good: str | None = None,
        bad: str | None = None,
        pair: str | None = None,
        acceptable: str | None = None,
        group: str | Sequence[str] = (),
        cluster: str | None = None,
    ) -> "Columns":
        """Find the columns: those that are named, else those with the obvious names.

        By default, if the table has both, `sentence_good` or `good` and `sentence_bad` or `bad`; else `sentence` or
        `text`. By default `group` and `cluster`; in BLiMP's layout the groups `field`, `linguistics_term` and `UID`,
        the clusters `UID`.

        Raises:
            InputError: The table lacks a column, or the options contradict each other.
        """
        if (pair is None) != (acceptable is None):
            missing = "--pair COLUMN" if pair is None else "--acceptable COLUMN (which sentence is the good one)"
            raise InputError(f"pairs in two rows need both --pair and --acceptable: give {missing}")
        in_one_row = good is not None or bad is not None
        in_rows = sentence is not None or pair is not None
        if in_one_row and in_rows:
            raise InputError("--good and --bad are for pairs in one row: remove --sentence, --pair and --acceptable")
        groups = tuple(
            needed_column(table, "--group", name, [name]) for name in ([group] if isinstance(group, str) else group)
        ) or tuple(filter(None, [find_column(table, "--group", None, ["group"])]))
        if twice := [name for name in groups if groups.count(name) > 1]:
            raise InputError(f"--group {twice[0]}: given twice; name each column once")
        clusters = find_column(table, "--cluster", cluster, ["cluster"])
        two = [find_column(table, f"--{side}", None, _OBVIOUS[side]) for side in SIDES]
        if not in_rows and (in_one_row or all(two)):
            if all(name in table.columns for name in _BLIMP_GROUPS):
                groups, clusters = groups or _BLIMP_GROUPS, clusters or _BLIMP_CLUSTER
            return cls(
                good=needed_column(table, "--good", good, _OBVIOUS[GOOD]),
                bad=needed_column(table, "--bad", bad, _OBVIOUS[BAD]),
                groups=groups,
                cluster=clusters,
            )
        return cls(
            sentence=needed_column(table, "--sentence", sentence, _SENTENCE),
            pair=None if pair is None else needed_column(table, "--pair", pair, [pair]),
            acceptable=None if acceptable is None else needed_column(table, "--acceptable", acceptable, [acceptable]),
            groups=groups,
            cluster=clusters,
        )

    @property
    def texts(self) -> tuple[str, ...]:
        """The columns with the sentences: one, or the good and the bad ones."""
        return (self.sentence,) if self.sentence else (str(self.good), str(self.bad))

    @property
    def has_pairs(self) -> bool:
        return self.sentence is None or self.pair is not None

    @property
    def by_side(self) -> dict[str | None, str]:
        """Side → the column with its sentences; None is the side of sentences that stand alone in their row."""
        return {None: self.sentence} if self.sentence else dict(zip(SIDES, self.texts, strict=True))

    def side(self) -> pl.Expr:
        """Which sentence of its pair a row with one sentence is: `good` or `bad`; null where it is not known."""
        value = pl.col(str(self.acceptable)).cast(pl.String).str.strip_chars().str.to_lowercase()
        return pl.when(value.is_in(_WORDS[GOOD])).then(pl.lit(GOOD)).when(value.is_in(_WORDS[BAD])).then(pl.lit(BAD))

    def to_json(self) -> dict[str, Any]:
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Columns":
        return cls(**{**value, "groups": tuple(value["groups"])})


def side_words() -> str:
    """What the column `--acceptable` can hold, for messages."""
    return ", ".join(f"{good}/{bad}" for good, bad in zip(*_WORDS.values(), strict=True) if "." not in good)


ENDINGS = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")


@dataclass(frozen=True, eq=False)
class Tables:
    """One table, or several with the same columns."""

    name: str  # what results call them: the name of the file or folder
    stimuli: tuple[Stimuli, ...]
    files: tuple[str, ...] = ()  # what results call each of several tables; empty for a single one

    @cached_property
    def parts(self) -> tuple[tuple[int, int], ...]:
        """All parts: number of the table, number of its part."""
        return tuple((t, number) for t, stimuli in enumerate(self.stimuli) for number in range(len(stimuli.parts)))

    @property
    def sizes(self) -> list[int]:
        return [self.stimuli[t].parts[number].size for t, number in self.parts]

    @property
    def sha256(self) -> str:
        """Of the one table, or of the names and digests of all."""
        if not self.files:
            return self.stimuli[0].sha256
        lines = [f"{stimuli.sha256}  {file}\n" for file, stimuli in zip(self.files, self.stimuli, strict=True)]
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    @property
    def schema(self) -> dict[str, pl.DataType]:
        """All columns; a column that is a number in one table and a text in another one is a text."""
        found: dict[str, pl.DataType] = {}
        for stimuli in self.stimuli:
            for name, dtype in stimuli.schema.items():
                found[name] = dtype if found.get(name, dtype) == dtype else pl.String()
        return found

    def read(self, number: int, check: Check) -> tuple[Rows, str | None]:
        """The rows of a part, and what results call their table."""
        t, own = self.parts[number]
        rows = self.stimuli[t].read(own, check)
        missing = [
            pl.lit(None, dtype).alias(name) for name, dtype in self.schema.items() if name not in rows.frame.columns
        ]
        frame = rows.frame.with_columns(missing).select(*self.schema).cast(pl.Schema(self.schema))
        return replace(rows, frame=frame), self.files[t] if self.files else None

    def location(self, number: int, row: int, line: int | None) -> str:
        """Where a row of a part stands, for a message."""
        return self.stimuli[self.parts[number][0]].location(row, line)

    def places(self) -> dict[str, Path]:
        """The files by a name, for `Stage.files`."""
        return {f"table {t}": stimuli.path for t, stimuli in enumerate(self.stimuli) if stimuli.path is not None}

    def at(self, places: Mapping[str, Path]) -> "Tables":
        """The same tables in other places."""
        return replace(
            self,
            stimuli=tuple(
                stimuli.at(places[name]) if (name := f"table {t}") in places else stimuli
                for t, stimuli in enumerate(self.stimuli)
            ),
        )


def open_tables(source: TableLike) -> tuple[str, list[Table]]:
    """Open a table, or all tables of a folder in the order of their names; and what results call them.

    Raises:
        InputError: A file is not a table; a folder has none; two tables have other columns.
    """
    if not isinstance(source, str | Path):
        return "frame", [open_table(source)]
    path = Path(source)
    if not is_folder(path):
        return path.stem, [open_table(path)]
    paths = [own for own in paths_in(path) if own.suffix.lower() in ENDINGS]
    if not paths:
        raise InputError(f"{path}: this folder does not hold a table; the name of a table ends in {', '.join(ENDINGS)}")
    tables = [open_table(own) for own in paths]
    for own, table in zip(paths[1:], tables[1:], strict=True):
        if set(table.columns) != set(tables[0].columns):
            other = sorted(set(table.columns) ^ set(tables[0].columns))
            raise InputError(f"{own}: only one of this file and {paths[0]} has the column {other[0]!r}")
    return path.resolve().name, tables


def scan_tables(
    name: str, tables: Sequence[Table], texts: Sequence[str], check: Check, *, skip_bad: bool, rows_per_part: int
) -> Tables:
    """Read all rows once; with `skip_bad` bad rows are counted.

    Raises:
        InputError: A file cannot be read; a row is bad; no row of a table can be used.
    """
    stimuli = [table.scan(texts, check, skip_bad=skip_bad, rows_per_part=rows_per_part) for table in tables]
    several = len(tables) > 1
    return Tables(name, tuple(stimuli), tuple(Path(str(own.path)).stem for own in stimuli) if several else ())
