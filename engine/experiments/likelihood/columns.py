"""What the columns of a user's table are for: one sentence in each row, or minimal pairs.

sentences   one sentence in each row
pairs       two sentences in each row: a good one and a bad one; BLiMP's files are like this
pair rows   one sentence in each row, and two rows are a pair: they share a value, and another column says which
            of them is good
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

from ...errors import InputError
from ...text.user_table import Table, find_column, needed_column

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
    """Columns of a table by their purpose.

    Attributes:
        sentence: The sentences; None where a row holds a pair.
        good: The better sentences of pairs; None where a row holds one sentence.
        bad: The other sentences of pairs.
        pair: What the two rows of a pair share; None where rows are not parts of pairs.
        acceptable: Whether a row is the good one of its pair.
        groups: What means and accuracies are computed for, beside those of all.
        cluster: What rows share that depend on each other; None where they are independent.
    """

    sentence: str | None = None
    good: str | None = None
    bad: str | None = None
    pair: str | None = None
    acceptable: str | None = None
    groups: tuple[str, ...] = ()
    cluster: str | None = None

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

        Args:
            table: The table.
            sentence: By default `sentence` or `text`, where there are not two columns of a pair.
            good: By default `sentence_good` or `good`, if the table has the other one, too.
            bad: By default `sentence_bad` or `bad`.
            pair: What the two rows of a pair share.
            acceptable: Which of them is the good one.
            group: One or several; by default `group`, and in BLiMP's layout `field`, `linguistics_term` and `UID`.
            cluster: By default `cluster`; in BLiMP's layout `UID`.

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
        """Whether sentences come in pairs."""
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
        """JSON values."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Columns":
        """The opposite of `to_json`."""
        return cls(**{**value, "groups": tuple(value["groups"])})


def side_words() -> str:
    """What the column `--acceptable` can hold, for messages."""
    return ", ".join(f"{good}/{bad}" for good, bad in zip(*_WORDS.values(), strict=True) if "." not in good)
