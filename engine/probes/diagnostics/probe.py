"""`negengine diagnostics`: what a model predicts where people's predictions are known (Ettinger 2020).

`diagnostics_data` says what is in the data sets and how contexts are perturbed. Metrics, as in upstream's code:

    accuracy@k        one of the k most probable tokens, of the whole vocabulary, is an expected word
    sensitivity       the good completion is more probable than each bad one
    sensitivity>0.01  by more than 0.01

A word that is not one token of the model is never among the k, and a comparison with it never comes out right; how
often that happens, `outside:accuracy` and `outside:sensitivity` tell: the share of items with such a word.

Rows of summary.parquet, values as fractions:

    dataset       condition                                split                       metric
    CPRAG-102     original                                 all, H, L                   every one
                  truncated, shuffled, shuffled-truncated  all, H, L                   accuracy@k, outside:accuracy
                  shuffled, shuffled-truncated             all, H, L                   sd:accuracy@k
                  shuffled, shuffled-truncated             draw-1, draw-2 …            accuracy@k, outside:accuracy
    ROLE-88       original                                 all                         every one
                  original                                 cloze-1 to cloze-4          accuracy@k, outside:accuracy
                  -Obj, -Sub, -ObjSub                      all, cloze-1 to cloze-4     accuracy@k, outside:accuracy
    NEG-136-SIMP  original                                 all, affirmative            every one
                  original                                 negative                    sensitivity, outside:sensitivity
    NEG-136-NAT   as SIMP, and splits licensed, unlicensed, affirmative-licensed …

H and L are the highly and the less constraining contexts; the bins go from cloze-1, the contexts where fewest people
gave the expected word, to cloze-4. The negative contexts have no expected word. A shuffled value is the mean over
draws, sd: the standard deviation between them (divided by their number, as upstream). `original vs …` and `affirmative
vs negative` hold the paired tests; of shuffles the first draw is taken, so that each item has one outcome.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from rich.markup import escape
from rich.table import Table

from ...errors import InputError
from ...inference.cloze import log_softmax, logits_in_batches, slices
from ...inference.exported import ExportedModel
from ...inference.model import MaskedLM
from ...sentences.tokenizer import NOT_ONE_TOKEN, MaskTokenizer
from .. import run as probe
from ..gh22.acts import ranked
from ..published import WHAT_BERT_IS_NOT, column, published
from ..summary import (
    ALL,
    DIFFERENCE,
    HOLM,
    ITEM_SCHEMA,
    ORIGINAL,
    P_VALUE,
    VERSUS,
    Contrast,
    Row,
    contrasts,
    frame,
    means,
    with_holm,
)
from ..targets import target_ids
from .items import (
    BINS,
    CONSTRAINTS,
    CPRAG,
    CPRAG_PERTURBED,
    DATASETS,
    LICENSING,
    NAT,
    POLARITIES,
    ROLE,
    ROLE_PERTURBED,
    SIMP,
    TRUNCATED,
    Completion,
    Diagnostics,
    Item,
    build_items,
)

STAGE = "diagnostics"
DRAWS = 3
CUTS = (1, 5)
THRESHOLD = 0.01
SENSITIVITY, BEYOND_THRESHOLD = "sensitivity", f"sensitivity>{THRESHOLD}"
ACCURACIES = tuple(f"accuracy@{k}" for k in CUTS)
METRICS = (*ACCURACIES, SENSITIVITY, BEYOND_THRESHOLD)
OUTSIDE_ACCURACY, OUTSIDE_SENSITIVITY = "outside:accuracy", "outside:sensitivity"
SPREAD = "sd:"
_ITEMS_PER_PART = 128
_TOP = max(CUTS)
_FIRST_DRAW = "draw-1"
_SCHEMA: Mapping[str, Any] = {
    **ITEM_SCHEMA,
    "draw": pl.Int32,
    **dict.fromkeys(METRICS, pl.Boolean),
    "query": pl.String,
    "expected": pl.List(pl.String),
    "rank": pl.Int32,
    "top": pl.List(pl.String),
    "top_probability": pl.List(pl.Float32),
    "compared": pl.List(pl.String),
    "probability": pl.List(pl.Float32),
    "outside_expected": pl.List(pl.String),
    "outside_compared": pl.List(pl.String),
}


@dataclass(frozen=True, eq=False)
class Plan:
    """A run ready to run.

    Attributes:
        exported: the model.
        tokenizer: its tokenizer.
        items: what is asked.
        ids: the token of each completion's word, or `NOT_ONE_TOKEN`.
        settings: what the items were made from.
    """

    exported: ExportedModel
    tokenizer: MaskTokenizer
    items: tuple[Item, ...]
    ids: Mapping[Completion, int]
    settings: Mapping[str, Any]

    @property
    def parts(self) -> tuple[slice, ...]:
        """Ranges of items."""
        return tuple(slice(i, i + _ITEMS_PER_PART) for i in range(0, len(self.items), _ITEMS_PER_PART))

    @property
    def identity(self) -> dict[str, Any]:
        """What must be the same for two runs to give the same items."""
        return {**probe.model_identity(self.exported), **self.settings, "items per part": _ITEMS_PER_PART}

    @property
    def outside(self) -> dict[str, list[str]]:
        """Data set → the words in it that are not one token of the model."""
        words: dict[str, set[str]] = {}
        for item in self.items:
            for completion in item.completions:
                if self.ids[completion] == NOT_ONE_TOKEN:
                    words.setdefault(item.dataset, set()).add(completion.word)
        return {dataset: sorted(found) for dataset, found in words.items()}


def plan(exported: ExportedModel, diagnostics: Diagnostics, *, draws: int = DRAWS, seed: int = 0) -> Plan:
    """Lay out a run.

    Args:
        exported: the model.
        diagnostics: from `diagnostics_data.read_diagnostics`.
        draws: how many times the words of a sentence are shuffled.
        seed: of the shuffles.

    Raises:
        InputError: no draw, or a sentence that is too long for the model or has a mask of its own.
    """
    if draws < 1:
        raise InputError(f"--draws {draws}: give 1 or more")
    tokenizer = MaskTokenizer.load(exported.folder, exported.mask_token)
    items = build_items(diagnostics, draws=draws, seed=seed)
    places = {completion.text: item.place for item in items for completion in item.completions}
    slices(exported, tokenizer, list(places), list(places.values()))  # refuses what it cannot encode
    completions = list(dict.fromkeys(completion for item in items for completion in item.completions))
    ids = target_ids(tokenizer, [one.text for one in completions], [one.word for one in completions])
    settings = {"data sha256": diagnostics.sha256, "draws": draws, "seed": seed}
    return Plan(exported, tokenizer, items, dict(zip(completions, ids.tolist(), strict=True)), settings)


def run(plan: Plan, model: MaskedLM, folder: Path, *, session: Mapping[str, Any] | None = None) -> pl.DataFrame:
    """Ask everything, or resume that, and write items.parquet and summary.parquet; the summary is returned."""
    return probe.run(
        folder,
        STAGE,
        plan.identity,
        [len(_texts(plan.items[part])) for part in plan.parts],
        lambda number: score(plan, model, plan.parts[number]),
        summarise,
        about={
            "model folder": str(plan.exported.folder.resolve()),
            "items": len(plan.items),
            "outside the vocabulary": plan.outside,
        },
        session=session,
    )


def _texts(items: Sequence[Item]) -> dict[str, int]:
    """The texts of some items, each once, and their positions."""
    texts = dict.fromkeys(completion.text for item in items for completion in item.completions)
    return {text: row for row, text in enumerate(texts)}


@dataclass(frozen=True, eq=False)
class _Predictions:
    """Of each completion the rank and the probability, 0 and NaN outside the vocabulary; of each text the top."""

    rank: Mapping[Completion, int]
    probability: Mapping[Completion, float]
    top: Mapping[str, list[str]]
    top_probability: Mapping[str, list[float]]


def score(plan: Plan, model: MaskedLM, part: slice) -> pl.DataFrame:
    """The items of a range: one row each."""
    items = plan.items[part]
    predictions = _predict(plan, model, items)
    return pl.DataFrame([_judge(plan, predictions, item) for item in items], schema=_SCHEMA)


def _predict(plan: Plan, model: MaskedLM, items: Sequence[Item]) -> _Predictions:
    texts = _texts(items)
    completions = list(dict.fromkeys(completion for item in items for completion in item.completions))
    text_of = np.array([texts[completion.text] for completion in completions])
    ids = np.array([plan.ids[completion] for completion in completions])
    rank, probability = np.zeros(len(completions), np.int64), np.full(len(completions), np.nan)
    top = np.empty((len(texts), _TOP), np.int64)
    top_probability = np.empty((len(texts), _TOP))
    place_in_batch = np.full(len(texts), -1)
    for rows, logits in logits_in_batches(model, slices(plan.exported, plan.tokenizer, list(texts))):
        place_in_batch[:] = -1
        place_in_batch[rows] = np.arange(len(rows))
        (which,) = np.nonzero((place_in_batch[text_of] >= 0) & (ids != NOT_ONE_TOKEN))
        own = logits[place_in_batch[text_of[which]]]
        rank[which] = 1 + (own > own[np.arange(len(which)), ids[which], None]).sum(axis=1)
        probability[which] = np.exp(log_softmax(logits)[place_in_batch[text_of[which]], ids[which]])
        top[rows], chances = ranked(logits, _TOP, np.empty(0, np.int64))
        top_probability[rows] = np.exp(chances)
    words = [[plan.tokenizer.token_text(i) for i in row] for row in top.tolist()]
    return _Predictions(
        dict(zip(completions, rank.tolist(), strict=True)),
        dict(zip(completions, probability.tolist(), strict=True)),
        dict(zip(texts, words, strict=True)),
        dict(zip(texts, top_probability.tolist(), strict=True)),
    )


def _judge(plan: Plan, predictions: _Predictions, item: Item) -> dict[str, Any]:
    """A row of items.parquet; without what the item does not ask for."""
    text = item.completions[0].text
    row: dict[str, Any] = {
        "dataset": item.dataset,
        "condition": item.condition,
        "item": item.item,
        "splits": list(item.splits),
        "cluster": item.cluster,
        "draw": item.draw,
        "query": text,
        "top": predictions.top[text],
        "top_probability": predictions.top_probability[text],
    }
    if item.expected:
        ranks = [rank for one in item.expected if (rank := predictions.rank[one])]
        row |= {f"accuracy@{k}": any(rank <= k for rank in ranks) for k in CUTS}
        row |= {
            "expected": [one.word for one in item.expected],
            "rank": min(ranks, default=None),
            "outside_expected": _outside(plan, item.expected),
        }
    if item.comparisons:
        compared = tuple(dict.fromkeys(one for pair in item.comparisons for one in pair))
        probability = predictions.probability
        # Comparisons with NaN are false, differences with it too.
        row |= {
            SENSITIVITY: all(probability[good] > probability[bad] for good, bad in item.comparisons),
            BEYOND_THRESHOLD: all(probability[good] - probability[bad] > THRESHOLD for good, bad in item.comparisons),
            "compared": [one.sentence for one in compared],
            "probability": [None if np.isnan(probability[one]) else probability[one] for one in compared],
            "outside_compared": _outside(plan, compared),
        }
    return row


def _outside(plan: Plan, completions: Sequence[Completion]) -> list[str]:
    return list(dict.fromkeys(one.word for one in completions if plan.ids[one] == NOT_ONE_TOKEN))


def summarise(items: pl.DataFrame) -> pl.DataFrame:
    """The summary of a run's items; the module says which rows it has."""
    counted = items.with_columns(
        (pl.col("outside_expected").list.len() > 0).alias(OUTSIDE_ACCURACY),
        (pl.col("outside_compared").list.len() > 0).alias(OUTSIDE_SENSITIVITY),
    )
    # Only the contexts of ROLE-88 are themselves the same in two conditions; elsewhere it is the row of the file.
    same = pl.when(pl.col("dataset") == ROLE).then("item").otherwise("cluster")
    rows = [
        *means(counted, (*METRICS, OUTSIDE_ACCURACY, OUTSIDE_SENSITIVITY)),
        *_spreads(items),
        *contrasts(items.with_columns(item=same), _contrasts()),
    ]
    return with_holm(frame(rows))


def _spreads(items: pl.DataFrame) -> list[Row]:
    """The standard deviations between the accuracies of several draws."""
    keys = ("dataset", "condition", "splits")
    drawn = items.explode("splits").filter(pl.col("draw").is_not_null(), ~pl.col("splits").str.starts_with("draw-"))
    accuracies = drawn.group_by(*keys, "draw", maintain_order=True).agg(pl.col(*ACCURACIES).mean())
    spread = accuracies.group_by(*keys, maintain_order=True).agg(pl.col(*ACCURACIES).std(ddof=0), n=pl.len())
    return [
        (row["dataset"], row["condition"], row["splits"], f"{SPREAD}{metric}", row[metric], None, None, row["n"])
        for row in spread.filter(pl.col("n") > 1).iter_rows(named=True)
        for metric in ACCURACIES
    ]


def _contrasts() -> list[Contrast]:
    cprag = [(TRUNCATED, ALL), *((condition, _FIRST_DRAW) for condition in CPRAG_PERTURBED if condition != TRUNCATED)]
    role = [(condition, ALL) for condition in ROLE_PERTURBED]
    perturbed = [
        Contrast(dataset, metric, (ORIGINAL, ALL), perturbation)
        for dataset, perturbations in ((CPRAG, cprag), (ROLE, role))
        for perturbation in perturbations
        for metric in ACCURACIES
    ]
    affirmative, negative = POLARITIES
    polarities = [
        Contrast(dataset, metric, (ORIGINAL, f"{affirmative}{kind}"), (ORIGINAL, f"{negative}{kind}"))
        for dataset, kinds in ((SIMP, ("",)), (NAT, ("", *(f"-{kind}" for kind in LICENSING.values()))))
        for kind in kinds
        for metric in (SENSITIVITY, BEYOND_THRESHOLD)
    ]
    return [*perturbed, *polarities]


# ---------------------------------------------------------------- tables

_Key = tuple[str, str, str]
_Values = Mapping[tuple[str, str, str, str], dict[str, Any]]
_HEADINGS = dict(zip((ORIGINAL, *CPRAG_PERTURBED), ("Orig", "Shuf", "Trunc", "Shuf + Trunc"), strict=True))
_AFFIRMATIVE = POLARITIES[0]
_ACCURACY_TABLES: Mapping[str, Mapping[str, _Key]] = {
    CPRAG: {
        **{heading: (CPRAG, condition, ALL) for condition, heading in _HEADINGS.items()},
        **{split: (CPRAG, ORIGINAL, split) for split in CONSTRAINTS},
    },
    ROLE: {_HEADINGS.get(condition, condition): (ROLE, condition, ALL) for condition in (ORIGINAL, *ROLE_PERTURBED)},
    f"{ROLE} by cloze": {name: (ROLE, ORIGINAL, name) for name in BINS},
    "NEG-136": {name: (name, ORIGINAL, _AFFIRMATIVE) for name in (SIMP, NAT)},
}
_SENSITIVITY_ROWS: tuple[_Key, ...] = (
    *((CPRAG, ORIGINAL, split) for split in (ALL, *CONSTRAINTS)),
    (ROLE, ORIGINAL, ALL),
    *((SIMP, ORIGINAL, polarity) for polarity in POLARITIES),
    *((NAT, ORIGINAL, polarity) for polarity in POLARITIES),
    *((NAT, ORIGINAL, f"{polarity}-{kind}") for kind in LICENSING.values() for polarity in POLARITIES),
)
_PREFERRED, _BY_MORE = "preferred", f"> {THRESHOLD}"
_OUTSIDE_NOTE = "outside: items with a word that is not one token of the model; it counts as wrong"


def tables(summary: pl.DataFrame, model: str) -> list[Table]:
    """The paper's tables with our figures, and its own in brackets as far as they are known here; in percent.

    Args:
        summary: content of summary.parquet.
        model: what to call the model; if it is one of the paper's two, its figures stand beside ours.

    Returns:
        Tables of accuracies for each of CPRAG-102, ROLE-88 (two) and NEG-136 that was asked for, one of sensitivities,
        and one of paired tests.
    """
    values: _Values = {
        (row["dataset"], row["condition"], row["split"], row["metric"]): row for row in summary.iter_rows(named=True)
    }
    accuracies = [_accuracy_table(name, columns, values, model) for name, columns in _ACCURACY_TABLES.items()]
    return [*(table for table in accuracies if table), _sensitivity_table(values, model), _tests_table(values)]


def _accuracy_table(name: str, columns: Mapping[str, _Key], values: _Values, model: str) -> Table | None:
    """A row for each k, a column for each condition or split; None if the data set was not asked for."""
    present = {heading: key for heading, key in columns.items() if (*key, ACCURACIES[0]) in values}
    if not present:
        return None
    keys = list(present.values())
    table = Table(title=f"{name}: {escape(model)}. Expected word among the first k, %", title_justify="left")
    table.add_column("k")
    for heading in present:
        table.add_column(heading, justify="right")
    for k, metric in zip(CUTS, ACCURACIES, strict=True):
        table.add_row(f"{k}", *(_figure(values, key, metric, model) for key in keys), end_section=k == CUTS[-1])
    table.add_row("n", *(f"{values[*key, ACCURACIES[0]]['n']:,}" for key in keys))
    table.add_row("outside", *(f"{_count(values[*key, OUTSIDE_ACCURACY]):,}" for key in keys))
    return _with_caption(table, _OUTSIDE_NOTE, {(key, metric) for key in keys for metric in ACCURACIES}, model)


def _sensitivity_table(values: _Values, model: str) -> Table:
    """How often the good completion is preferred: a row for each split."""
    table = Table(title=f"{escape(model)}. Good completion more probable than the bad, %", title_justify="left")
    for heading in ("", "split"):
        table.add_column(heading)
    for heading in (_PREFERRED, "95 % interval", _BY_MORE, "n"):
        table.add_column(heading, justify="right")
    keys = [key for key in _SENSITIVITY_ROWS if (*key, SENSITIVITY) in values]
    for i, key in enumerate(keys):
        preferred = values[*key, SENSITIVITY]
        table.add_row(
            _short(key[0]),
            key[2],
            _figure(values, key, SENSITIVITY, model),
            f"{100 * preferred['low']:.1f} to {100 * preferred['high']:.1f}",
            _figure(values, key, BEYOND_THRESHOLD, model),
            f"{preferred['n']:,}",
            end_section=i + 1 == len(keys) or keys[i + 1][0] != key[0],
        )
    outside = [
        f"{_short(dataset)} {_count(share)} of {share['n']}"
        for dataset in DATASETS
        if (share := values.get((dataset, ORIGINAL, ALL, OUTSIDE_SENSITIVITY)))
    ]
    shown = {(key, metric) for key in keys for metric in (SENSITIVITY, BEYOND_THRESHOLD)}
    return _with_caption(table, f"{_OUTSIDE_NOTE}: {', '.join(outside)}", shown, model)


def _tests_table(values: _Values) -> Table:
    """Conditions and polarities against each other: differences and McNemar's test, adjusted after Holm."""
    names = {SENSITIVITY: _PREFERRED, BEYOND_THRESHOLD: _BY_MORE}
    table = Table(title="Against each other, on the same items", title_justify="left")
    for heading in ("", "which", "metric"):
        table.add_column(heading)
    for heading in ("diff.", "p (exact)", "p (Holm)"):
        table.add_column(heading, justify="right")
    for (dataset, condition, split, name), row in values.items():
        metric = name.removeprefix(f"{DIFFERENCE}:")
        if metric != name:
            p, adjusted = (values[dataset, condition, split, f"{one}:{metric}"]["value"] for one in (P_VALUE, HOLM))
            figures = (f"{100 * row['value']:+.1f}", f"{p:.2g}", f"{adjusted:.2g}")
            table.add_row(_short(dataset), _sides(condition, split), names.get(metric, metric), *figures)
    return table


def _short(dataset: str) -> str:
    return dataset.removeprefix("NEG-136-").split("-")[0]


def _sides(condition: str, split: str) -> str:
    """What a test sets against each other: `Orig / Trunc`, `aff. / neg., licensed`."""
    if condition != ORIGINAL:
        return " / ".join(_HEADINGS.get(side, side) for side in condition.split(VERSUS))
    licensing = split.partition(VERSUS)[0].removeprefix(_AFFIRMATIVE).removeprefix("-")
    return ", ".join(["aff. / neg.", *([licensing] if licensing else [])])


def _figure(values: _Values, key: _Key, metric: str, model: str) -> str:
    text = f"{100 * values[*key, metric]['value']:.1f}"
    if spread := values.get((*key, f"{SPREAD}{metric}")):
        text += f" ± {100 * spread['value']:.1f}"
    if (figure := _published(model).get((key, metric))) is None:
        return text
    printed = f"≈ {figure['value']:.0f}" if figure.get("about") else f"{figure['value']:.1f}"
    return f"{text} ({printed}{' ?' if 'doubt' in figure else ''})"


def _count(share: Mapping[str, Any]) -> int:
    n: int = round(share["value"] * share["n"])
    return n


def _published(model: str) -> dict[tuple[_Key, str], dict[str, Any]]:
    """What is known here of the paper's figures for a model, by key and metric."""
    name = column(WHAT_BERT_IS_NOT, model)
    return {
        ((row["dataset"], row["condition"], row["split"]), metric): {**row, "value": row[name]}
        for row in published(WHAT_BERT_IS_NOT)["rows"]
        if name in row
        for metric in row["metrics"]
    }


def _with_caption(table: Table, note: str, shown: set[tuple[_Key, str]], model: str) -> Table:
    figures = [figure for key, figure in _published(model).items() if key in shown]
    doubts = dict.fromkeys(figure["doubt"] for figure in figures if "doubt" in figure)
    paper = ["in brackets: the paper; " + "; ".join([*published(WHAT_BERT_IS_NOT)["doubts"], *doubts])]
    table.caption = "\n".join([note, *(paper if figures else [])])
    table.caption_justify = "left"
    return table
