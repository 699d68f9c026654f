"""`ng.by_group`: the rates of runs by gender, profession, verb, name, or what else the items have."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from ...basics.errors import InputError, did_you_mean
from ...library.run import Run
from ...library.shown import Shown
from ...views import Column, Table
from .differences import GROUP, outcomes_of
from .estimates import DROP, MODEL, PERCENT, estimates, main_items
from .runs import labels, open_alike, refuse_unlike

_NOT_GROUPS = {"item", "value", "metric", "cluster", "crossed"}
_FEW = 12  # so many groups are all shown
_ENDS, _ENDS_OF_SEVERAL = 5, 3  # else so many at each end, of one run and of several
_MOVES = "moves"


@dataclass(frozen=True, eq=False)
class Groups(Shown):
    """Rates by group.

    Attributes:
        frame: A row for each model, group and metric: the columns of `estimates`, and `moves`: by how much the group
            moves the value of all items, or the drop where there is one, in the unit of the value.
        clusters: What the clusters are, such as `relations`.
    """

    frame: pl.DataFrame
    by: str
    clusters: str

    def tables(self) -> list[Table]:
        """All groups: a table for rates, and one for other numbers."""
        return self._tables(self.frame)

    def main_tables(self) -> list[Table]:
        """Of many groups those that move the values most, up and down."""
        most = _ENDS if self.frame[MODEL].n_unique() == 1 else _ENDS_OF_SEVERAL
        keys = [*self._blocks, self.by]
        groups = self.frame.select(keys).unique(maintain_order=True)  # the strongest first
        place, count = pl.int_range(pl.len()).over(self._blocks), pl.len().over(self._blocks)
        ends = groups.filter((count <= _FEW) | (place < most) | (place >= count - most))
        kept = self.frame.join(ends, on=keys, how="semi", nulls_equal=True, maintain_order="left")
        if len(kept) == len(self.frame):
            return self.tables()
        said = (
            f"shown: the {most} groups that raise a figure most, and the {most} that lower it most; "
            "--format csv and --json have all"
        )
        return self._tables(kept, [said])

    def document(self) -> Any:
        return self.frame.to_dicts()

    @property
    def _blocks(self) -> list[str]:
        """What is shown together: the groups of one metric."""
        return [key for key in GROUP if key != self.by]

    def _tables(self, frame: pl.DataFrame, notes: Sequence[str] = ()) -> list[Table]:
        tables = []
        for unit in (PERCENT, ""):
            own = frame.filter(pl.col("unit") == unit)
            if own.is_empty():
                continue
            falls = DROP in own.columns and own[DROP].null_count() == 0
            figures: dict[str, Any] = {"decimals": 1 if unit else 3, "wrap": False}
            value = (
                [Column("drop", DROP, low=f"{DROP}_low", high=f"{DROP}_high", **figures)]
                if falls
                else [Column("value", "value", low="low", high="high", **figures)]
            )
            varying = [key for key in self._blocks if own[key].n_unique() > 1]
            constant = [str(own[key][0]) for key in self._blocks if key not in varying]
            columns = [
                *(Column(key, key) for key in varying),
                Column(self.by, self.by),
                Column(MODEL, MODEL),
                Column("n", "n", wrap=False),
                Column("clusters", "clusters", wrap=False),
                *value,
                Column("moves", _MOVES, signed=True, decimals=2 if unit else 4, wrap=False),
            ]
            what, figure = ("Drop of the repetition rate", "drop") if falls else ("Rates", "rate")
            if not unit:
                what, figure = "Values", "value"
            kinds = f"{self.clusters} (and verbs for the interval)" if falls else self.clusters
            said = [
                *([f"all rows: {', '.join(constant)}"] if constant else []),
                f"{'in percent; ' if unit else ''}[95 % interval]; clusters: {kinds}",
                f"moves: by how much the group moves the {figure} of all items",
                *notes,
            ]
            block = pl.concat_str([*varying, pl.lit("")], separator=" ").alias("block")
            tables.append(Table(f"{what} by {self.by}", own.with_columns(block), columns, section="block", notes=said))
        return tables


def by_group(*runs: Run | str | Path, by: str) -> Groups:
    """The rates of each group of items, of one run or of several side by side.

    Args:
        runs: Finished runs, or their folders.
        by: gender, profession, verb or name; of LAMA, relation; of every run also dataset, condition and split (or
            pattern, which is the split of the Self-Contained Negation Test).

    Returns:
        The rates with intervals; the groups that raise a drop or a value most stand first.

    Raises:
        InputError: As for `compare`; or the items of the runs cannot be grouped so.
    """
    found = open_alike(runs)
    refuse_unlike(found)
    names = labels(found)
    outcomes = {name: outcomes_of(run, GROUP) for name, run in zip(names, found, strict=True)}
    column = _column(by, found[0], outcomes[names[0]])
    keep = [main_items(own, run.by_construction) for own, run in zip(outcomes.values(), found, strict=True)]
    if column == "split":
        keep = [
            own.filter(~pl.col("split").is_in(list(run.by_construction)))
            for own, run in zip(outcomes.values(), found, strict=True)
        ]
    chosen = dict(zip(names, keep, strict=True))
    blocks = [key for key in GROUP if key != column]
    frame = estimates(chosen, [*blocks, column], found[0].drop_of)
    over = pl.col("value").mul(pl.col("n")).sum().over(MODEL, *blocks) / pl.col("n").sum().over(MODEL, *blocks)
    share = pl.col("n") / pl.col("n").sum().over(MODEL, *blocks)
    moves = (pl.col("value") - over) * share
    if DROP in frame.columns:
        moves = pl.when(pl.col(DROP).is_null()).then(moves).otherwise(-moves)
    frame = frame.with_columns(moves.alias(_MOVES))
    return Groups(_sorted(frame, blocks, column), column, found[0].clusters)


def _column(by: str, run: Run, outcomes: pl.DataFrame) -> str:
    known = [name for name in outcomes.columns if name not in _NOT_GROUPS]
    wanted = "split" if by == "pattern" and by not in known else by
    if wanted not in known:
        raise InputError(
            f"--by {by}: the items of {run.folder} cannot be grouped so: {did_you_mean(by, known)}"
            f"give {', '.join(sorted(known))}"
        )
    return wanted


def _sorted(frame: pl.DataFrame, blocks: Sequence[str], column: str) -> pl.DataFrame:
    """Blocks in the order in which they come; in each, the groups from the strongest to the weakest."""
    order = {key: place for place, key in enumerate(frame.select(blocks).unique(maintain_order=True).iter_rows())}
    place = pl.Series("place", [order[key] for key in frame.select(blocks).iter_rows()], dtype=pl.Int64)
    models = {name: number for number, name in enumerate(frame[MODEL].unique(maintain_order=True))}
    return (
        frame.with_columns(
            place,
            pl.col(_MOVES).mean().over(*blocks, column).alias("mean"),
            pl.col(MODEL).replace_strict(models, return_dtype=pl.Int64).alias("number"),
        )
        .sort("place", "mean", column, "number", descending=[False, True, False, False])
        .drop("place", "mean", "number")
    )
