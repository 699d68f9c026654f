"""The rates of runs, each with its interval, in one frame, and the table that a paper prints."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from ...basics.errors import InputError
from ...library.run import Run
from ...requests.items import ALL
from ...requests.summary import estimated
from ...views import Column, Table

GROUP = ("dataset", "condition", "split", "metric")  # the columns of outcomes that make a group
MODEL = "model"
PERCENT = "%"
DROP = "drop"
_FIGURES = {
    "n": pl.Int64,
    "clusters": pl.Int64,
    **dict.fromkeys(("value", "low", "high"), pl.Float64),
    "unit": pl.String,
}


def outcomes_of(run: Run, group: Sequence[str]) -> pl.DataFrame:
    """A run's outcomes, each item once in its group (else InputError); one without a cluster is its own cluster."""
    outcomes = run.outcomes()
    repeated = outcomes.filter(pl.struct(*group, "item").is_duplicated())
    if not repeated.is_empty():
        raise InputError(
            f"{run.folder}: the item {repeated['item'][0]!r} occurs more than once; compare joins by items"
        )
    missing = [name for name in ("cluster", "crossed") if name not in outcomes.columns]
    outcomes = outcomes.with_columns(pl.lit(None, pl.String).alias(name) for name in missing)
    return outcomes.with_columns(pl.col("cluster").fill_null(pl.col("item")))


def main_items(outcomes: pl.DataFrame, by_construction: Sequence[str], *, every: bool = False) -> pl.DataFrame:
    """The outcomes of estimates: with `every` all splits but those `by_construction`; else `all` where it is."""
    kept = outcomes.filter(~pl.col("split").is_in(list(by_construction)))
    if every:
        return kept
    whole = (pl.col("split") == ALL).any().over("dataset", "condition", "metric")
    return kept.filter((pl.col("split") == ALL) | ~whole)


def estimates(
    outcomes: Mapping[str, pl.DataFrame], by: Sequence[str], drop_of: tuple[str, str] | None = None
) -> pl.DataFrame:
    """A row for each model and group, in the order in which they come.

    Columns: model, those of `by`, n, clusters, value, low, high (95 % interval; null where nothing varies), unit (`%`
    where all outcomes are 0 or 1, for all models); drop, drop_low and drop_high (100 - value) of `drop_of`.
    """
    parts = [
        (name, key, part) for name, own in outcomes.items() for key, part in own.group_by(*by, maintain_order=True)
    ]
    yes_or_no: dict[Any, bool] = {}
    for _, key, part in parts:
        yes_or_no[key] = yes_or_no.get(key, True) and bool(part["value"].is_in([0.0, 1.0]).all())
    rows: list[tuple[Any, ...]] = []
    for name, key, part in parts:
        values = part["value"].cast(pl.Boolean) if yes_or_no[key] else part["value"]
        scale, unit = (100, PERCENT) if yes_or_no[key] else (1, "")
        named = dict(zip(by, key, strict=True))
        clusters, crossed, *_ = [*_clusters(part, named), None, None]
        value, low, high, *_ = estimated(values, clusters, str(named.get("metric", "")), crossed)
        scaled = [None if figure is None else scale * figure for figure in (value, low, high)]
        rows.append((name, *key, len(part), part["cluster"].n_unique(), *scaled, unit))
    frame = pl.DataFrame(rows, schema={MODEL: pl.String, **dict.fromkeys(by, pl.String), **_FIGURES}, orient="row")
    if drop_of is None or not {"dataset", "metric"} <= set(by):
        return frame
    falling = pl.when((pl.col("dataset") == drop_of[0]) & (pl.col("metric") == drop_of[1]))
    ends = {DROP: "value", f"{DROP}_low": "high", f"{DROP}_high": "low"}
    return frame.with_columns(**{name: falling.then(100 - pl.col(of)) for name, of in ends.items()})


def _clusters(part: pl.DataFrame, named: Mapping[str, str]) -> list[pl.Series]:
    """The kinds of clusters that a group's items come in. A group that is itself a cluster is about this one alone."""
    known = [part[kind] for kind in ("cluster", "crossed") if not part[kind].null_count()]
    names = {name for key, name in named.items() if key not in {"dataset", "condition", "metric"}}
    return [kind for kind in known if kind.n_unique() > 1 or kind[0] not in names]


@dataclass(frozen=True, eq=False)
class Block:
    """The estimates of one unit, which a table or a chart shows together."""

    frame: pl.DataFrame
    is_rate: bool  # in percent
    falls: bool  # shown as a drop from 100 %
    varying: list[str]  # the keys that are not the same in all rows
    constant: list[str]  # a note on the others

    @property
    def figures(self) -> tuple[str, str, str]:
        return (DROP, f"{DROP}_low", f"{DROP}_high") if self.falls else ("value", "low", "high")

    @property
    def decimals(self) -> int:
        return 1 if self.is_rate else 3


def blocks(found: pl.DataFrame, keys: Sequence[str]) -> Iterator[Block]:
    """Estimates in percent, then all others."""
    for unit in (PERCENT, ""):
        own = found.filter(pl.col("unit") == unit)
        if not own.is_empty():
            falls = DROP in own.columns and own[DROP].null_count() == 0
            varying = [key for key in keys if own[key].n_unique() > 1]
            constant = constant_keys(own, [key for key in keys if key not in varying])
            yield Block(own, unit == PERCENT, falls, varying, constant)


FITTING, PRINTED = 4, 12  # how many columns fit a terminal of 80 columns, and a page
_LABEL, _HEADING = "label", "heading"
_WORDS = {"is_top1": "first choice", "logprob": "log-probability"}  # metrics whose names are not words
IN_WORDS = "metric in words"  # a column that people read in place of `metric`
TEXTS = {"metric": IN_WORDS}
HEADINGS = {"dataset": "data", "split": "group"}  # what people call the keys of a group, where it is another name


def in_words(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with the names of its metrics as people read them; without metrics as it is."""
    if "metric" not in frame.columns:
        return frame
    return frame.with_columns(pl.col("metric").replace(_WORDS).str.replace_all("_", " ").alias(IN_WORDS))


def key_columns(keys: Sequence[str]) -> list[Column]:
    """The columns that say what a row is about."""
    return [Column(HEADINGS.get(key, key), key) for key in keys]


def constant_keys(frame: pl.DataFrame, keys: Sequence[str]) -> list[str]:
    """A note on the keys that have the same value in all rows, if there are any."""
    first = in_words(frame).row(0, named=True)
    said = [f"{HEADINGS.get(key, key)} {first[IN_WORDS if key == 'metric' else key]}" for key in keys]
    return [f"the same everywhere: {', '.join(said)}"] if said else []


def models_in_rows(title: str, points: pl.DataFrame, *, decimals: int = 1, notes: Sequence[str] = ()) -> Table:
    """A row for each model, a column for each category, from model, category, value; heading, low and high if there."""
    ends = [name for name in ("low", "high") if name in points.columns]
    named = points[_HEADING if _HEADING in points.columns else "category"]
    headings = dict(zip(points["category"], named, strict=True))
    figures = {category: [category, *(f"{category} {end}" for end in ends)] for category in headings}
    rows: dict[str, dict[str, object]] = {}
    for point in points.iter_rows(named=True):
        own = (point[name] for name in ("value", *ends))
        rows.setdefault(point[MODEL], {MODEL: point[MODEL]}).update(zip(figures[point["category"]], own, strict=True))
    kinds = {MODEL: pl.String, **{name: pl.Float64 for own in figures.values() for name in own}}
    columns = [Column(MODEL, MODEL)]
    for category, heading in headings.items():
        shown: dict[str, Any] = {end: f"{category} {end}" for end in ends}
        columns.append(Column(heading, category, decimals=decimals, **shown))
    return Table(title, pl.DataFrame(list(rows.values()), schema=kinds), columns, notes=notes)


def estimates_tables(found: pl.DataFrame, clusters: str, *, most: int = PRINTED) -> list[Table]:
    """A table for rates, and one for other numbers; with more than `most` columns a row for each model and category."""
    tables = []
    for block in blocks(found, GROUP):
        own, falls = block.frame, block.falls
        varying = block.varying or ["split"]
        said = [IN_WORDS if key == "metric" else key for key in varying]
        what = "rates, %" if block.is_rate else "values, in their own unit"
        title = f"Models: {'drop of the repetition rate, percentage points' if falls else what}"
        notes = constant_keys(own, [key for key in GROUP if key not in varying])
        in_clusters = bool((own["clusters"] < own["n"]).any())
        kinds = f", with clusters ({clusters}{' and verbs' if falls else ''})" if in_clusters else ""
        notes.append(f"[95 % interval]{kinds}")
        value, low, high = block.figures
        shown = own.select(MODEL, *varying, "n", "clusters", "unit", value=value, low=low, high=high)
        labelled = shown.with_columns(pl.concat_str(varying, separator=" ").alias(_LABEL))
        labels = {label: place for place, label in enumerate(labelled[_LABEL].unique(maintain_order=True))}
        if len(labels) <= most:
            headings = in_words(own).select(pl.concat_str(said, separator=" ").alias(_HEADING))
            points = labelled.rename({_LABEL: "category"}).with_columns(headings)
            tables.append(models_in_rows(title, points, decimals=block.decimals, notes=notes))
            continue
        columns = [
            *key_columns(varying),
            Column(MODEL, MODEL),
            Column("n", "n", wrap=False),
            Column("value", "value", low="low", high="high", decimals=block.decimals, wrap=False),
        ]
        place = pl.col(_LABEL).replace_strict(labels, return_dtype=pl.Int64)
        rows, texts = in_words(labelled.sort(place, maintain_order=True)), TEXTS if "metric" in varying else {}
        tables.append(Table(title, rows, columns, section=_LABEL, notes=notes, texts=texts))
    return tables
