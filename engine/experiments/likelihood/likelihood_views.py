"""Tables and sections of `likelihood`: accuracies of minimal pairs, or means of sentences, by group."""

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from ...views import Column, Section, Table
from ..items import ALL
from ..view import Chart, Values, View
from .likelihood_items import ROUNDING
from .likelihood_summary import MEANS, PERPLEXITY

if TYPE_CHECKING:
    from .likelihood import LikelihoodRun

_ACCURACY, _MEAN = "accuracy", MEANS[1]
_SPLIT = Column("split", "split")
_PAIRS = View(
    "Minimal pairs: {model} (%)",
    ("split",),
    [
        _SPLIT,
        Column("pairs", "n"),
        Values("accuracy", _ACCURACY, interval=True),
        Values("per token", "accuracy_per_token"),
        Values("ties", "ties"),
    ],
    notes=[
        "accuracy: share of pairs whose good sentence is the more probable one, with 95 % interval",
        "per token: the same for the log-likelihood divided by the number of tokens",
        f"ties: pairs with a difference of at most {ROUNDING:g}; they count as not correct",
    ],
)
_RIGHT = Chart(
    "likelihood",
    _ACCURACY,
    "accuracy (%)",
    "Accuracy in each group, with 95 % intervals.",
    where=pl.col("split") != ALL,
    label=pl.col("split"),
    panel=None,
    keys=("split",),
)
_PROBABLE = replace(
    _RIGHT,
    metric=_MEAN,
    title="log-probability per token (natural logarithm)",
    caption="Log-probability per token in each group, with 95 % intervals.",
    zero=False,
    scale=1,
)


def results_table(run: "LikelihoodRun") -> Table:
    """How often the good sentence is the more probable one; or means over sentences."""
    if run.columns.has_pairs:
        return _PAIRS.table(run)
    pseudo = "" if run.is_causal else "pseudo-"
    headings = (f"{pseudo}log-likelihood", "per token", "per word", "per character")
    named = zip(headings, MEANS, strict=True)
    return View(
        "Sentences: {model}",
        ("split",),
        [
            _SPLIT,
            Column("sentences", "n"),
            *(Values(heading, metric, interval=True, style={"decimals": 2}) for heading, metric in named),
            Values(f"{pseudo}perplexity", PERPLEXITY, style={"significant": 4}),
        ],
        notes=["means over sentences with 95 % intervals, natural logarithms"],
    ).table(run)


def sections(run: "LikelihoodRun") -> list[Section]:
    """One section: the answer, a figure by group, the table."""
    metric = _ACCURACY if run.columns.has_pairs else _MEAN
    row = run.summary.row(by_predicate=(pl.col("split") == ALL) & (pl.col("metric") == metric), named=True)
    if run.columns.has_pairs:
        title, chart = "Is the good sentence the more probable one?", _RIGHT
        said = [
            f"The good sentence is the more probable one in {100 * row['value']:.1f} % of {row['n']:,} pairs.",
            "A model that guesses is right in 50 %.",
        ]
    else:
        title, chart = "How probable are the sentences?", _PROBABLE
        mean, n = f"{row['value']:.2f}", f"{row['n']:,}"
        said = [f"The mean log-probability of a token is {mean} in {n} sentences (natural logarithm)."]
    groups = run.summary["split"].n_unique() - 1
    figures = [replace(chart.figure(run), wide=groups > 12)] if groups else []
    return [Section(title, said, figures=figures, tables=run.tables(), notes=run.remarks())]
