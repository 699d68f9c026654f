"""Plain recounts: statements about a run's files that `negengine verify` confirms or refutes (`Run.recounts`).

A recount reads the files and nothing else: no model, and none of the functions that made the tables.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

ROUNDING = 1e-9  # largest difference of two figures that were computed from the same numbers in another order
LOGARITHM = 1e-5  # by how much a log-probability in fp32 may be above 0, and above that of a token with the same logit


@dataclass(frozen=True)
class Recount:
    """A statement, and what contradicts it."""

    what: str
    n: int  # how many rows were looked at
    wrong: str = ""  # the first contradiction and the number of all; empty if there is none


ITEM = ("dataset", "condition", "item")  # the columns that name a row of items.parquet


def holds(what: str, frame: pl.DataFrame, statement: pl.Expr, names: Sequence[str] = ITEM) -> Recount:
    """A statement about every row of a frame: true where it is right, null where the statement does not apply.

    `names` are the columns that name a row in a message.
    """
    wrong = frame.filter(~statement)
    if wrong.is_empty():
        return Recount(what, len(frame))
    first = ", ".join(f"{name} {value}" for name, value in zip(names, wrong.select(names).row(0), strict=True))
    more = f" and {len(wrong) - 1:,} rows more" if len(wrong) > 1 else ""
    return Recount(what, len(frame), f"not so for {first}{more}")


def same_figures(what: str, found: pl.DataFrame, wanted: pl.DataFrame, keys: Sequence[str]) -> Recount:
    """Figures of a table against the same columns with figures that were counted anew; `keys` name a row."""
    figures = [name for name in wanted.columns if name not in keys]
    both = found.select(*keys, *figures).join(wanted, on=keys, how="full", suffix="_wanted", coalesce=True)
    for name in figures:
        one, other = pl.col(name).cast(pl.Float64), pl.col(f"{name}_wanted").cast(pl.Float64)
        alike = pl.when(one.is_null() | other.is_null()).then(one.is_null() & other.is_null())
        wrong = both.filter(~alike.otherwise((one - other).abs() <= ROUNDING * pl.max_horizontal(1.0, other.abs())))
        if not wrong.is_empty():
            row = wrong.row(0, named=True)
            where = ", ".join(str(row[key]) for key in keys)
            return Recount(what, len(both), f"{where}: {name} is {row[name]}, counted again {row[f'{name}_wanted']}")
    return Recount(what, len(both))
