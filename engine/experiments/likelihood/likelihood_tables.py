"""A user's tables of sentences or minimal pairs: what their columns are for.

sentences   one sentence in each row
pairs       two sentences in each row: a good one and a bad one; BLiMP's files are like this
pair rows   one sentence in each row, and two rows are a pair: they share a value, and another column says which
            of them is good

Several tables have the same columns, and lie in one folder, such as BLiMP.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import polars as pl

from ...basics.errors import InputError
from ...text.user_table import Table, find_column, needed_column
from ..items import SEPARATOR
from ..own_table import OwnColumns, find_columns

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
class Columns(OwnColumns):
    """Columns of a table by their purpose."""

    sentence: str | None = None  # None where a row holds a pair
    good: str | None = None  # the better sentences of pairs; None where a row holds one sentence
    bad: str | None = None  # the other sentences of pairs
    pair: str | None = None  # what the two rows of a pair share; None where rows are not parts of pairs
    acceptable: str | None = None  # whether a row is the good one of its pair

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
        groups = find_columns(table, "--group", group, ["group"])
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

    def side(self) -> pl.Expr:
        """Which sentence of its pair a row with one sentence is: `good` or `bad`; null where it is not known."""
        value = pl.col(str(self.acceptable)).cast(pl.String).str.strip_chars().str.to_lowercase()
        return pl.when(value.is_in(_WORDS[GOOD])).then(pl.lit(GOOD)).when(value.is_in(_WORDS[BAD])).then(pl.lit(BAD))

    def split_names(self) -> list[pl.Expr]:
        """The value alone where there is one column of groups."""
        values = (pl.col(name).cast(pl.String).str.replace_all(SEPARATOR, "/", literal=True) for name in self.groups)
        if len(self.groups) == 1:
            return list(values)
        return [pl.lit(f"{name}: ") + value for name, value in zip(self.groups, values, strict=True)]


def side_words() -> str:
    """What the column `--acceptable` can hold, for messages."""
    return ", ".join(f"{good}/{bad}" for good, bad in zip(*_WORDS.values(), strict=True) if "." not in good)
