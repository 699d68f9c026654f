"""`ng.by_group`: the rates of runs by gender, profession, verb, name, or what else the items have."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from ...basics.errors import InputError, did_you_mean
from ...basics.frames import literal
from ...experiments.view import POINTS
from ...library.run import BY, Run
from ...library.shown import Shown
from ...views import Column, Table
from .estimates import (
    DROP,
    GROUP,
    MODEL,
    SHOWN,
    blocks,
    category,
    estimates,
    heading_of,
    key_columns,
    main_items,
    other_items,
    outcomes_of,
    texts_of,
)
from .runs import labels, open_alike, refuse_unlike

_KEYS = ("dataset", "condition", "split")  # what the items of every run can be grouped by, beside `Run.groupings`
_GROUP = "group"
_FEW = 12  # so many groups are all shown
_ENDS, _ENDS_OF_SEVERAL = 5, 3  # else so many at each end, of one run and of several


@dataclass(frozen=True, eq=False)
class Groups(Shown):
    """Rates by group.

    Attributes:
        frame: A row for each model, group and metric: the columns of `estimates`, and `effect`: by how much the group
            raises the value of all items, or the drop where there is one; of rates a fraction.
        by: What the groups are, such as gender.
        of: The column of the frame that names them: `group`, or else dataset, condition or split.
        clusters: What the clusters are, such as `relations`.
    """

    frame: pl.DataFrame
    by: str
    of: str
    clusters: str

    def main_tables(self) -> list[Table]:
        """Of many groups those with the largest effect on the values, up and down."""
        most = _ENDS if self.frame[MODEL].n_unique() == 1 else _ENDS_OF_SEVERAL
        keys, blocks = [*dict.fromkeys([*GROUP, self.of])], [name for name in GROUP if name not in self._groups]
        groups = self.frame.select(keys).unique(maintain_order=True)  # the strongest first
        place, count = pl.int_range(pl.len()).over(blocks), pl.len().over(blocks)
        ends = groups.filter((count <= _FEW) | (place < most) | (place >= count - most))
        kept = self.frame.join(ends, on=keys, how="semi", nulls_equal=True, maintain_order="left")
        said = f"shown: the {most} groups that raise a figure most, and the {most} that lower it most; "
        notes = [f"{said}--format csv and --json have all"] if len(kept) < len(self.frame) else []
        return [replace(table, notes=[*table.notes, *notes]) for table in replace(self, frame=kept).tables()]

    def document(self) -> Any:
        return self.frame.to_dicts()

    @property
    def _groups(self) -> list[str]:
        """The columns that name a group."""
        return ["column", "split"] if self.of == "split" else [self.of]

    def tables(self) -> list[Table]:
        tables, shown = [], [key for key in SHOWN if key not in self._groups]
        for block in blocks(self.frame, shown):
            value, low, high = block.figures
            of_effect = {**block.style, **(POINTS if block.is_rate else {"signed": True})}
            of_effect["decimals"] += 1
            figure = "drop" if block.falls else "rate" if block.is_rate else "value"
            columns = [
                *key_columns(block.varying, block.frame),
                Column(heading_of(self.by, block.frame), self.of),
                Column(MODEL, MODEL),
                Column("n", "n", wrap=False),
                Column("clusters", "clusters", wrap=False),
                Column(value, value, low=low, high=high, **block.style),
                Column(f"effect on the {figure} of all", "effect", **{**of_effect, "wrap": True}),
            ]
            notes = [
                *block.constant,
                f"clusters: {self.clusters}" + (" (and verbs for the interval)" if block.falls else ""),
                f"effect on the {figure} of all: by how much the group raises or lowers the {figure} of all items",
            ]
            notes += other_items(block.frame, self.of)
            what = {"drop": "Drop of the repetition rate", "rate": "Rates", "value": "Values"}[figure]
            rows = block.frame.with_columns(category(block.frame, block.varying or [self.of]).alias("block"))
            section, title = "block" if block.varying else None, f"{what} by {heading_of(self.by, block.frame)}"
            tables.append(Table(title, rows, columns, section=section, notes=notes, texts=texts_of(rows)))
        return tables


def by_group(*runs: Run | str | Path, by: str) -> Groups:
    """The rates of each group of items, of one run or of several side by side.

    Args:
        runs: Finished runs, or their folders.
        by: gender, profession, verb or name; of LAMA, relation; of every run also dataset, condition and group (or
            pattern, which is the group of the Self-Contained Negation Test), the column `split`.

    Returns:
        The rates with intervals; the groups that raise a drop or a value most stand first.

    Raises:
        InputError: As for `compare`; or the items of the runs cannot be grouped so.
    """
    found = open_alike(runs)
    refuse_unlike(found)
    by, known = literal(by), found[0].groupings
    key = {"pattern": "split", "group": "split"}.get(by, by)
    own = by if by in known else None  # a name of the items', or the user's, comes first
    if own is None and key not in _KEYS:
        listed = [*known, *_KEYS]
        near = did_you_mean(by, listed)
        raise InputError(
            f"--by {by}: the items of {found[0].folder} cannot be grouped so: {near}give {', '.join(sorted(listed))}"
        )
    of = key if own is None else _GROUP
    kept = {}
    for name, run in zip(labels(found), found, strict=True):
        items = main_items(outcomes_of(run, own), found[0].by_construction, every=of == "split")
        kept[name] = items.rename({BY: _GROUP}, strict=False)
    group = ["column", "split"] if of == "split" else [of]
    keys = [name for name in GROUP if name not in group]
    frame = estimates(kept, [*keys, *group], found[0].drop_of)
    over = pl.col("value").mul(pl.col("n")).sum().over(MODEL, *keys) / pl.col("n").sum().over(MODEL, *keys)
    share = pl.col("n") / pl.col("n").sum().over(MODEL, *keys)
    effect = (pl.col("value") - over) * share
    if DROP in frame.columns:
        effect = pl.when(pl.col(DROP).is_null()).then(effect).otherwise(0 - effect)
    first, strength = pl.col("row").min(), pl.col("effect").mean().over(*keys, *group)
    order = [first.over(*keys), strength, *map(pl.col, group), first.over(MODEL)]
    frame = frame.with_columns(effect=effect).with_row_index("row")
    frame = frame.sort(order, descending=[False, True, *[False] * len(group), False]).drop("row")
    return Groups(frame, by, of, found[0].clusters)
