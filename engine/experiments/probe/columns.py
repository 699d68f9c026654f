"""What the columns of a user's table are for, and the names that the results need."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ...errors import InputError
from ...text.user_table import Table, find_column, needed_column

ROW, TARGET_COLUMN, EXPECTED, TARGET_TOKENS = "row", "target_column", "expected", "target_tokens"
LOGPROB, RANK, IS_TOP1, TOP1, REPEATS = "logprob", "rank", "is_top1", "top1", "repeats_word"
SKIPPED = ("skipped: line", "skipped: reason", "skipped: content")
_OBVIOUS = {
    "sentence": ("sentence",),
    "target": ("target",),
    "group": ("group",),
    "cluster": ("cluster",),
    "item": ("item", "pair"),
}


@dataclass(frozen=True)
class Columns:
    """Columns of a table by their purpose.

    Attributes:
        sentence: The sentences, with one mask each.
        targets: The words that could stand at the mask; each makes an item of its own.
        groups: What rates are computed for.
        cluster: What rows share that depend on each other; None where they are independent.
        item: What the rows of one minimal pair share; None where there are no pairs.
    """

    sentence: str
    targets: tuple[str, ...]
    groups: tuple[str, ...] = ()
    cluster: str | None = None
    item: str | None = None

    @classmethod
    def of(
        cls,
        table: Table,
        *,
        sentence: str | None = None,
        target: str | Sequence[str] = (),
        group: str | Sequence[str] = (),
        cluster: str | None = None,
        item: str | None = None,
    ) -> "Columns":
        """Find the columns: those that are named, else those with the obvious names.

        Args:
            table: The table.
            sentence: By default `sentence`.
            target: One or several; by default `target`.
            group: One or several; by default `group`, if there is one.
            cluster: By default `cluster`, if there is one.
            item: By default `item` or `pair`, if there is one.

        Raises:
            InputError: The table lacks a column, or a column is named twice.
        """
        targets = _several(table, "--target", target)
        groups = _several(table, "--group", group)
        return cls(
            needed_column(table, "--sentence", sentence, _OBVIOUS["sentence"]),
            targets or (needed_column(table, "--target", None, _OBVIOUS["target"]),),
            groups or tuple(filter(None, [find_column(table, "--group", None, _OBVIOUS["group"])])),
            find_column(table, "--cluster", cluster, _OBVIOUS["cluster"]),
            find_column(table, "--item", item, _OBVIOUS["item"]),
        )

    @property
    def texts(self) -> tuple[str, ...]:
        """The columns that must hold a text in every row."""
        return self.sentence, *self.targets

    @property
    def clustered(self) -> str | None:
        """The column with the clusters of an interval: the rows of a minimal pair depend on each other, too."""
        return self.cluster or self.item

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Columns":
        """The opposite of `to_json`."""
        fields: dict[str, Any] = {name: tuple(own) if isinstance(own, list) else own for name, own in value.items()}
        return cls(**fields)


def result_names(top: int) -> list[str]:
    """The columns that a run adds to those of the table.

    Args:
        top: How many first choices are kept.
    """
    further = [name for i in range(1, top + 1) for name in (f"top{i}", f"top{i}_logprob")]
    return [ROW, TARGET_COLUMN, EXPECTED, TARGET_TOKENS, LOGPROB, RANK, IS_TOP1, *further, REPEATS]


def refuse_result_names(name: str, columns: Sequence[str], top: int) -> None:
    """Refuse a table with a column that has the name of a result.

    Args:
        name: Of the table.
        columns: Its columns.
        top: How many first choices are kept.

    Raises:
        InputError: There is one.
    """
    taken = {*result_names(top), *SKIPPED}
    if both := [column for column in columns if column in taken]:
        raise InputError(f"{name}: the column {both[0]!r} has the name of a result column; give it another name")


def _several(table: Table, option: str, given: str | Sequence[str]) -> tuple[str, ...]:
    names = [given] if isinstance(given, str) else list(given)
    found = tuple(needed_column(table, option, name, [name]) for name in names)
    if twice := [name for name in found if found.count(name) > 1]:
        raise InputError(f"{option} {twice[0]}: given twice; name each column once")
    return found
