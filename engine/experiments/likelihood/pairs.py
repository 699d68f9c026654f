"""Minimal pairs: is the good sentence the more probable one?

A pair is decided by the difference of the two log-likelihoods. Two ways to compute the same sums in fp32 differ in the
last digits, so a difference below `TIE` is a tie. A tie is not correct: a model that cannot tell the sentences apart
does not know the rule. The share of ties stands beside the accuracy.
"""

import polars as pl

from ...errors import InputError
from ...text.table_rows import Check
from .columns import BAD, GOOD, SIDES, Columns
from .items import CORRECT, CORRECT_PER_TOKEN, FILE, LIKELIHOOD, PER_TOKEN, SIDE, TIE
from .source import Tables

ROUNDING = 1e-4  # natural logarithms
_OTHER = ": bad"
_KEPT = (LIKELIHOOD, PER_TOKEN)


def with_verdicts(items: pl.DataFrame) -> pl.DataFrame:
    """Judge pairs whose sentences are in one row of the table: each good sentence, then its bad one."""
    following = items.select(pl.col(name).shift(-1).alias(name + _OTHER) for name in _KEPT)
    return items.hstack(following).with_columns(_verdicts(pl.col(SIDE) == GOOD)).drop(following.columns)


def with_joined_verdicts(items: pl.LazyFrame, columns: Columns) -> pl.LazyFrame:
    """Judge pairs whose sentences are two rows of the table.

    Args:
        items: Rows in any order; their other columns are not held in memory.
        columns: What the columns are for.
    """
    names = items.collect_schema().names()
    keys = [name for name in (FILE, columns.pair) if name is not None and name in names]
    bad = items.filter(pl.col(SIDE) == BAD).select(*keys, *_KEPT).collect(engine="streaming")
    bad = bad.rename({name: name + _OTHER for name in _KEPT}).unique(keys, keep="none")
    joined = items.join(bad.lazy(), on=keys, how="left", maintain_order="left")
    return joined.with_columns(_verdicts(pl.col(SIDE) == GOOD)).drop([name + _OTHER for name in _KEPT])


def refuse_incomplete(tables: Tables, columns: Columns, check: Check) -> None:
    """Refuse pairs without exactly one good and one bad row.

    Args:
        tables: What is scored.
        columns: What the columns are for.
        check: The rows that do not count.

    Raises:
        InputError: There is such a pair.
    """
    pair = str(columns.pair)
    seen: dict[tuple[str | None, str], tuple[set[str], str]] = {}
    for number in range(len(tables.parts)):
        rows, file = tables.read(number, check)
        sides = rows.frame.select(pl.col(pair).cast(pl.String).alias("pair"), columns.side().alias("side"))
        for place, (key, side) in enumerate(sides.iter_rows()):
            line = None if rows.lines is None else int(rows.lines[place])
            where = tables.location(number, int(rows.numbers[place]), line)
            found = seen.setdefault((file, key), (set(), where))[0]
            if side in found:
                raise InputError(f"{where}: the pair {key!r} has two {side} sentences; it needs one of each")
            found.add(side)
    for (_, key), (found, where) in seen.items():
        if len(found) < len(SIDES):
            lacking = BAD if GOOD in found else GOOD
            raise InputError(f"{where}: the pair {key!r} has no {lacking} sentence; it needs one of each")


def _verdicts(counts: pl.Expr) -> list[pl.Expr]:
    difference, by_token = (pl.col(name) - pl.col(name + _OTHER) for name in _KEPT)
    return [
        pl.when(counts).then(difference > ROUNDING).alias(CORRECT),
        pl.when(counts).then(by_token > ROUNDING).alias(CORRECT_PER_TOKEN),
        pl.when(counts).then(difference.abs() <= ROUNDING).alias(TIE),
    ]
