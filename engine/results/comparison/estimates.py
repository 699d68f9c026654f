"""The rates of runs, each with its interval, in one frame, and the table that a paper prints."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from ...basics.errors import InputError
from ...basics.frames import literal
from ...basics.numerals import FRACTION
from ...basics.printable import some
from ...experiments.finished_run import group_labels
from ...experiments.gh22.gh22 import DATASET as GH22
from ...experiments.negation.negation_runs import DATASET
from ...experiments.view import PERCENT, POINTS
from ...library.run import Run
from ...requests.items import RANGES
from ...requests.summary import estimated
from ...views import Column, Table
from ...views.labels import numbered, told_apart

GROUP = ("dataset", "condition", "column", "split", "metric")  # the columns of outcomes that make a group
SHOWN = ("dataset", "condition", "split", "metric")  # those that people read; for `split`, they read `LABEL`
LABEL = "label of the split"
MODEL = "model"
DROP = "drop"
_DROP: Mapping[str, Any] = {"scale": 1, "unit": POINTS["unit"]}
_NUMBER: Mapping[str, Any] = {"decimals": 3, "wrap": False}
_FIGURES = {
    "n": pl.Int64,
    "clusters": pl.Int64,
    **dict.fromkeys(("value", "low", "high"), pl.Float64),
    "unit": pl.String,
    "items": pl.String,
}


def outcomes_of(run: Run, by: str | None = None) -> pl.DataFrame:
    """A run's outcomes, each item once in its group (else InputError); one without a cluster is its own cluster."""
    outcomes = run.outcomes(by)
    missing = [name for name in ("column", "cluster", "crossed") if name not in outcomes.columns]
    outcomes = outcomes.with_columns(pl.lit(None, pl.String).alias(name) for name in missing)
    repeated = outcomes.filter(pl.struct(*GROUP, "item").is_duplicated())
    if not repeated.is_empty():
        raise InputError(
            f"{run.folder}: the item {repeated['item'][0]!r} occurs more than once; compare joins by items"
        )
    return outcomes.with_columns(pl.col("cluster").fill_null(pl.col("item")))


def main_items(outcomes: pl.DataFrame, by_construction: Sequence[str], *, every: bool = False) -> pl.DataFrame:
    """The outcomes of estimates: of all items, with `every` also of groups; no splits `by_construction`."""
    follows = pl.col("column").is_null() & pl.col("split").is_in(list(by_construction))
    kept = outcomes.filter(~follows)
    return kept if every else kept.filter(pl.col("column").is_null())


def estimates(
    outcomes: Mapping[str, pl.DataFrame], by: Sequence[str], drop_of: tuple[str, str] | None = None
) -> pl.DataFrame:
    """A row for each model and group, in the order in which they come.

    Columns: model, those of `by`, n, clusters, value, low, high (95 % interval; null where nothing varies), unit
    (`fraction` where all outcomes are 0 or 1, for all models, else empty), items (a digest, the same for figures of the
    same items); drop, drop_low and drop_high of `drop_of` (100 - 100 × value, in percentage points).
    """
    parts = [
        (name, key, part) for name, own in outcomes.items() for key, part in own.group_by(*by, maintain_order=True)
    ]
    yes_or_no: dict[Any, bool] = {}
    metrics = [str(dict(zip(by, key, strict=True)).get("metric", "")) for _, key, _ in parts]
    for metric, (_, key, part) in zip(metrics, parts, strict=True):
        known = yes_or_no.get(key, metric not in RANGES)  # a number stays one, also where it is 0 or 1 by chance
        yes_or_no[key] = known and bool(part["value"].is_in([0.0, 1.0]).all())
    rows: list[tuple[Any, ...]] = []
    for metric, (name, key, part) in zip(metrics, parts, strict=True):
        values = part["value"].cast(pl.Boolean) if yes_or_no[key] else part["value"]
        unit = FRACTION if yes_or_no[key] else ""
        crossed = None if part["crossed"].null_count() else part["crossed"]
        value, low, high, *_ = estimated(values, part["cluster"], metric, crossed)
        items = f"{int(part['item'].hash().sum()):016x}"  # in any order
        rows.append((name, *key, len(part), part["cluster"].n_unique(), value, low, high, unit, items))
    frame = pl.DataFrame(rows, schema={MODEL: pl.String, **dict.fromkeys(by, pl.String), **_FIGURES}, orient="row")
    if drop_of is None or not {"dataset", "metric"} <= set(by):
        return frame
    falling = pl.when((pl.col("dataset") == drop_of[0]) & (pl.col("metric") == drop_of[1]))
    ends = {DROP: "value", f"{DROP}_low": "high", f"{DROP}_high": "low"}
    return frame.with_columns(**{name: falling.then(100 - 100 * pl.col(of)) for name, of in ends.items()})


_WORDS = {"is_top1": "first choice", "logprob": "log-probability"}  # metrics whose names are not words
TEXTS = {"split": LABEL, "metric": "metric in words"}  # keys → the columns that people read in their place
_HEADINGS = {"dataset": "data", "split": "group"}  # what people call the keys of a group, where it is another name
_SPLITS = {DATASET: "pattern", GH22: "pattern and rank"}  # and the splits of a data set


def labelled(frame: pl.DataFrame) -> pl.DataFrame:
    """A frame with the columns of `TEXTS` for those of its keys that it has."""
    if "split" in frame.columns:
        frame = frame.with_columns(group_labels(frame).alias(LABEL))
    if "metric" in frame.columns:
        words = pl.col("metric").replace(_WORDS).str.replace_all("_", " ")
        frame = frame.with_columns(words.alias(TEXTS["metric"]))
    return frame


def texts_of(frame: pl.DataFrame) -> dict[str, str]:
    """The `TEXTS` that a labelled frame has."""
    return {key: text for key, text in TEXTS.items() if text in frame.columns}


def heading_of(key: str, frame: pl.DataFrame) -> str:
    """What people call a key of a frame: the groups of the negation test are its patterns."""
    dataset = set(frame["dataset"]) if key == "split" and "dataset" in frame.columns else set()
    return _SPLITS[dataset.pop()] if len(dataset) == 1 and dataset <= {*_SPLITS} else _HEADINGS.get(key, key)


def key_columns(keys: Sequence[str], frame: pl.DataFrame) -> list[Column]:
    """The columns that say what a row of a frame is about."""
    return [Column(heading_of(key, frame), key) for key in keys]


def differing(frame: pl.DataFrame, keys: Sequence[str] = SHOWN) -> list[str]:
    """The keys that are not the same in all rows of a labelled frame."""
    return [key for key in keys if frame[LABEL if key == "split" else key].n_unique() > 1]


def constant_keys(frame: pl.DataFrame, keys: Sequence[str]) -> list[str]:
    """A note on the keys that have the same value in all rows of a labelled frame, if there are any."""
    said = [f"{heading_of(key, frame)} {own}" for key in keys for own in frame[TEXTS.get(key, key)].head(1)]
    return [f"the same everywhere: {', '.join(said)}"] if said else []


def category(frame: pl.DataFrame, keys: Sequence[str], texts: Mapping[str, str] | None = None) -> pl.Series:
    """For each row of a labelled frame one text for these keys, another one for others."""
    own, read = ([known.get(key, key) for key in keys] for known in ({"split": LABEL}, texts or {"split": LABEL}))
    return told_apart(frame, own, pl.concat_str(read, separator=" "), pl.concat_str(read, separator=", "))


@dataclass(frozen=True, eq=False)
class Block:
    """The estimates of one unit, which a table or a chart shows together."""

    frame: pl.DataFrame  # labelled
    is_rate: bool  # a fraction, or its drop
    falls: bool  # shown as a drop from 100 %
    varying: list[str]  # the keys that are not the same in all rows
    constant: list[str]  # a note on the others

    @property
    def figures(self) -> tuple[str, str, str]:
        return (DROP, f"{DROP}_low", f"{DROP}_high") if self.falls else ("value", "low", "high")

    @property
    def style(self) -> dict[str, Any]:
        """How a `Column` shows the figures: a drop is in points in the frame, too."""
        style: Mapping[str, Any] = {**PERCENT, **_DROP} if self.falls else PERCENT if self.is_rate else _NUMBER
        return dict(style)


def blocks(found: pl.DataFrame, keys: Sequence[str] = SHOWN) -> Iterator[Block]:
    """Rates, then all others."""
    for unit in (FRACTION, ""):
        own = labelled(found).filter(pl.col("unit") == unit)
        if not own.is_empty():
            falls = DROP in own.columns and own[DROP].null_count() == 0
            varying = differing(own, keys)
            constant = constant_keys(own, [key for key in keys if key not in varying])
            yield Block(own, unit == FRACTION, falls, varying, constant)


_NAMED = 6  # groups with other items
PRINTED = 12  # so many columns fit a page
_CATEGORY, _HEADING = "category", "heading"
OTHER_ITEMS = "not all models have the same items, so figures beside each other are not about the same ones"
_TESTED = "`compare` tests each two models on the items of both"


def other_items(found: pl.DataFrame, group: str = "") -> list[str]:
    """A line where models, or runs, have other items in the same group, such as skipped rows; none where they do not.

    The columns of `GROUP` that `found` has, and `group` beside them, name what is compared. The line names the groups,
    with the n of each model where these differ.
    """
    keys = [name for name in dict.fromkeys((*GROUP, group)) if name in found.columns]
    known, of = found[MODEL].unique(maintain_order=True).to_list(), pl.struct(MODEL, "n").alias("each")
    with_models = found.with_columns(models=pl.col(MODEL).n_unique().over("metric"))
    other = with_models.group_by(keys, maintain_order=True).agg("items", of, pl.col("models").first())
    lacks = pl.col("items").list.len() < pl.col("models")  # all items of the group, such as where each one was skipped
    other = labelled(other.filter((pl.col("items").list.n_unique() > 1) | lacks))
    if other.is_empty():
        return []
    named = [name for name in dict.fromkeys(("dataset", "condition", "split", group)) if name in other.columns]
    told: dict[str, str] = {}
    for name, each in zip(category(other, differing(other, named) or named[-1:]), other["each"].to_list(), strict=True):
        n = {own[MODEL]: own["n"] for own in each}
        numbers = [n.get(model, 0) for model in known]
        many = f" (n = {', '.join(f'{own:,}' for own in numbers)})" if len({*numbers}) > 1 else ""
        told.setdefault(name, f"{name}{many}")
    return [f"{OTHER_ITEMS}: {some([*told.values()], _NAMED)}; {_TESTED}"]


def _models_in_rows(title: str, points: pl.DataFrame, notes: Sequence[str], style: Mapping[str, Any]) -> Table:
    """A row for each model, a column for each category, from model, category, heading, value, low, high and n.

    n stands in a note where it is the same everywhere, else behind each value.
    """
    figures, headings = ("value", "low", "high", "n"), dict(points.select(_CATEGORY, _HEADING).iter_rows())
    kinds = ("", " low", " high", " n")
    names = numbered([MODEL, *(literal(f"{own}{kind}") for own in headings for kind in kinds)])[1:]
    placed = (f"{figure}_{own}" for own in headings for figure in figures)  # as `pivot` calls them
    frame = points.pivot(_CATEGORY, index=MODEL, values=figures).select(MODEL, **dict(zip(names, placed, strict=True)))
    columns, texts, alike = [Column(MODEL, MODEL)], dict[str, str](), points["n"].n_unique() == 1
    for heading, value, low, high, n in zip(headings.values(), *(names[i::4] for i in range(4)), strict=True):
        if not alike:
            frame = frame.with_columns(pl.format("n = {}", n).alias(f"{n} as read"))
            texts[n] = f"{n} as read"
        columns.append(Column(heading, value, low=low, high=high, beside=None if alike else n, **style))
    said = [f"n = {points['n'][0]:,} in every cell"] if alike else []
    return Table(title, frame, columns, notes=[*notes, *said], texts=texts, leads=MODEL)


def estimates_tables(found: pl.DataFrame, clusters: str, about: Sequence[str]) -> list[Table]:
    """A table for rates, and one for other numbers; with many columns a row for each model and category instead.

    `about` are notes of both, see `other_items`.
    """
    tables = []
    for block in blocks(found):
        own, falls = block.frame, block.falls
        varying = block.varying or ["split"]
        what = "rates" if block.is_rate else "values, in their own unit"
        title = f"Models: {'drop of the repetition rate' if falls else what}"
        notes = constant_keys(own, [key for key in SHOWN if key not in varying])
        in_clusters = bool((own["clusters"] < own["n"]).any())
        counts: list[int] = own["clusters"].unique().sort().to_list()
        many = " to ".join(f"{end:,}" for end in dict.fromkeys((counts[0], counts[-1])))
        notes += [*[f"clusters ({clusters}{' and verbs' if falls else ''}): {many}"] * in_clusters, *about]
        value, low, high = block.figures
        numbers = ("n", "clusters", "items", *block.figures)
        shown = own.select(MODEL, *GROUP, *texts_of(own).values(), *numbers)
        shown = shown.with_columns(category(shown, varying).alias(_CATEGORY))
        order = shown[_CATEGORY].unique(maintain_order=True)
        if len(order) <= PRINTED:
            ends = zip(("value", "low", "high"), block.figures, strict=True)
            fractions = {name: pl.col(figure) / (100 if falls else 1) for name, figure in ends}
            points = shown.with_columns(category(shown, varying, TEXTS).alias(_HEADING), **fractions)
            style = {"scale": 100, "unit": block.style["unit"]} if block.is_rate else {}
            tables.append(_models_in_rows(title, points, notes, {"decimals": block.style["decimals"], **style}))
            continue
        columns = [
            *key_columns(varying, own),
            Column(MODEL, MODEL),
            Column("n", "n", wrap=False),
            Column(value, value, low=low, high=high, **block.style),
        ]
        rows = shown.sort(pl.col(_CATEGORY).cast(pl.Enum(order)), maintain_order=True)
        tables.append(Table(title, rows, columns, section=_CATEGORY, notes=notes, texts=texts_of(rows), leads=MODEL))
    return tables
