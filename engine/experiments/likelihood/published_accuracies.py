"""Accuracies that others publish for the groups of a table, such as those of BLiMP's paper."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from ...requests.items import ALL
from ...text.table import open_table
from ..labels import Told

OVERALL = "overall"
"""What stands in a column of groups where a row is about all of them."""


def read_published(path: Path, groups: Sequence[str], told: Told) -> dict[str, list[tuple[str | None, str, float]]]:
    """Model → (column, group, accuracy as a fraction), from a table with a column of numbers (or %) for each model.

    The other columns are groups, the finest one first; a row is about the first one that is not `OVERALL`. It counts
    only if the pairs of a run have all that it is about: the accuracy of a field says nothing of a part of the field.
    """
    table = open_table(path)
    models = [name for name, dtype in table.schema.items() if dtype.is_numeric()]
    names = [name for name in table.columns if name not in models]
    known, finest = set(told.groups.select("column", "group").iter_rows()), names[:1]
    rows = pl.concat([table.read(part).frame for part in range(len(table.parts))]).to_dicts()
    found: dict[str, list[tuple[str | None, str, float]]] = {name: [] for name in models}
    for row in rows:
        about = {name: row[name] for name in names if row[name] != OVERALL}
        within = [(name, one[name]) for one in rows if about.items() <= one.items() for name in finest]
        name = next(iter(about), None)
        if name in {None, *groups} and known >= {own for own in within if own[1] != OVERALL}:
            for model in models:
                share = row[model] / (100 if row[model] > 1 else 1)
                found[model].append((name, ALL if name is None else about[name], share))
    return found
