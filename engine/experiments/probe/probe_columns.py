"""Columns of a user's table of sentences by their purpose, and the requests of its rows: one for each target."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, ClassVar

import polars as pl

from ...basics.errors import InputError, did_you_mean
from ...inference.free_text import MASK
from ...text.spelling import repeats
from ..own_table import WANTED, Labels, RequestColumns, yes_or_no

DATASET = "stimuli"
TARGET_COLUMN = "target_column"  # what `--unwanted` calls the column that a target stands in
IS_WANTED, REPEATS = "is_wanted", "repeats"  # columns of the requests
IS_TOP1, LOGPROB, PREFERRED = "is_top1", "logprob", "preferred"
TESTED = (IS_TOP1, LOGPROB)
_WANTED = (("wanted",), ("unwanted",))
_MOST_LISTED = 12


@dataclass(frozen=True)
class Columns(RequestColumns):
    """Columns of a table by their purpose."""

    made: ClassVar[Sequence[str]] = (*RequestColumns.made, "text", "word", IS_WANTED, REPEATS)

    sentence: str  # the sentences, with one mask each
    targets: tuple[str, ...]  # the words that could stand at the mask; each makes an item of its own
    # Whether a target is wanted: a column says it by yes or no, or a column and a value name the rows where it is not,
    # or all targets of one column are unwanted.
    wanted: str | None = field(default=None, kw_only=True)
    unwanted: tuple[str, str] | None = field(default=None, kw_only=True)
    unwanted_target: str | None = field(default=None, kw_only=True)
    mask_token: str = field(default=MASK, kw_only=True)  # of the model, which users may write, too

    @property
    def needed(self) -> tuple[str, ...]:
        return self.sentence, *self.targets

    @property
    def shared(self) -> dict[str, str]:
        column = self.unwanted[0] if self.unwanted else self.wanted
        return {**({column: WANTED} if column else {}), **super().shared}

    def requests(self, rows: pl.DataFrame, title: str) -> pl.DataFrame:  # noqa: ARG002 - the data set has a fixed name
        masked = pl.col(self.sentence).str.strip_chars().str.replace_all(self.mask_token, MASK, literal=True)
        keys = self.keys(rows, DATASET, "") | {"text": masked}
        if self.item is not None:
            keys["pair"] = pl.col(self.item).cast(pl.String)
        by_target = [
            rows.with_columns(
                **keys
                | {
                    "condition": pl.lit(target),
                    "word": pl.col(target).str.strip_chars(),
                    IS_WANTED: self._is_wanted(target),
                }
            )
            for target in self.targets
        ]
        found = pl.concat(by_target)
        texts = zip(found["word"], found["text"], strict=True)
        told = [repeats(word, text.split(MASK)) for word, text in texts]  # the mask stands for no word
        return found.with_columns(pl.Series(REPEATS, told, pl.Boolean))

    def subject(self, request: Mapping[str, Any]) -> str:
        return "" if request["word"] is None else f"{request['condition']} {request['word']!r}"

    def _is_wanted(self, target: str) -> pl.Expr:
        """Null where a row does not say it."""
        if self.unwanted_target is not None:
            return pl.lit(target != self.unwanted_target)
        if self.unwanted is not None:
            column, value = self.unwanted
            return pl.col(column).cast(pl.String) != value
        return yes_or_no(self.wanted, *_WANTED) if self.wanted else pl.lit(None, pl.Boolean)

    def row_faults(self, rows: pl.DataFrame) -> pl.Series:
        """Why sentences cannot be asked, as far as their text shows it."""
        column = pl.col(self.sentence)
        masks = column.str.count_matches(MASK, literal=True)
        if self.mask_token != MASK:
            masks += column.str.count_matches(self.mask_token, literal=True)
        judged, odd = pl.lit(None, pl.String), pl.lit(value=False)
        if self.wanted:
            judged = pl.col(self.wanted).cast(pl.String)
            odd = judged.is_not_null() & yes_or_no(self.wanted, *_WANTED).is_null()
        reason = (
            pl.when(masks == 0)
            .then(pl.lit(f"{self.sentence} has no {MASK}; write {MASK} where the target belongs"))
            .when(masks > 1)
            .then(pl.lit(f"{self.sentence} has ") + masks.cast(pl.String) + f" {MASK}; one is needed")
            .when(odd)
            .then(pl.lit(f"{self.wanted} is ") + judged + "; yes or no is needed, or nothing")
        )
        same = (self._same_word(*two) for two in combinations(self.targets, 2))
        return rows.select(reason=pl.coalesce(reason, *same)).to_series()

    @staticmethod
    def _same_word(one: str, other: str) -> pl.Expr:
        word, second = (pl.col(name).str.strip_chars() for name in (one, other))
        said = pl.concat_str(pl.lit(f"{one} and {other} are the same word, "), word, pl.lit("; give two that differ"))
        return pl.when(word == second).then(said)

    def refuse_unknown(self, table: str, labels: Labels) -> None:
        """InputError for a value of `--unwanted` that no row has."""
        if self.unwanted_target is not None:
            column, value, known = TARGET_COLUMN, self.unwanted_target, [*self.targets]
        elif self.unwanted is not None:
            column, value = self.unwanted
            known = labels.rows[column].drop_nulls().unique().to_list()
        else:
            return
        if value not in known:
            listed = ", ".join(map(repr, sorted(known)[:_MOST_LISTED]))
            raise InputError(
                f"--unwanted {column}={value}: {did_you_mean(value, known)}no row of {table} has {value!r} in "
                f"{column}; it has {listed}"
            )


def unwanted_rows(option: str, columns: Collection[str]) -> tuple[str, str]:
    """The column and the value of `--unwanted COLUMN=VALUE`; an `InputError` if it is not of this form.

    A `=` may stand in the name of a column: the longest name that is a column counts.
    """
    found = [(option[:i], option[i + 1 :]) for i, sign in enumerate(option) if sign == "=" and option[i + 1 :]]
    if not found:
        raise InputError(f"--unwanted {option}: give COLUMN=VALUE, such as group=negated")
    return max((own for own in found if own[0] in columns), key=lambda own: len(own[0]), default=found[0])
