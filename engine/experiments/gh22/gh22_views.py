"""Tables and figures of `gh22`: Table 2 of the paper with our rates, drops, curves by the rank of the ACT."""

from typing import TYPE_CHECKING

import polars as pl

from ...text.pattern import PatternSet
from ...views import Column, Figure, Section, Table
from ...views.charts import Lines
from ..published import published
from ..summary import HOLM
from ..view import POINTS, Chart, Values, View
from .gh22_patterns import Variant

if TYPE_CHECKING:
    from .gh22 import Gh22Run

_SPLIT = pl.col("split").str.split("@").list  # PATTERN@RANK, or NUMBER@RANK
_BY_RANK = {"pattern": _SPLIT.first(), "rank": _SPLIT.last()}
_COLUMNS = {**_BY_RANK, "metric": pl.format("{}@{}", "metric", _SPLIT.last())}  # a column for each metric and rank


def rates(variant: Variant, patterns: PatternSet, ranks: list[str]) -> View:
    """Repetition rates of one variant in the layout of Table 2; aux and adv: whether the target has that word."""
    words = published("gh22")["columns"]
    rows = [
        {"pattern": pattern.name, "number": pattern.name[:-1], "polarity": pattern.name[-1],
         **{key: word in pattern.target.split() for key, word in words.items()}}
        for pattern in patterns.scored
    ]  # fmt: skip
    return View(
        f"GH22, {variant}: {{model}}. Repetition of the ACT (in brackets: top-1 is not a verb), %",
        ("pattern",),
        [
            Column("n°", "number"),
            Column("pol.", "polarity"),
            *(Column(word, word) for word in words),
            *(
                Values(
                    f"rank {rank}",
                    f"repetition_rate@{rank}",
                    beside=f"ungrammatical@{rank}",
                    paper=f"paper, rank {rank}",
                )
                for rank in ranks
            ),
        ],
        where=pl.col("condition") == str(variant),
        also=_COLUMNS,
        rows=pl.DataFrame(rows),
        section="number",
    )


def drops(variant: Variant, ranks: list[str]) -> View:
    """The drops P − N of one variant with their 95 % intervals, and p adjusted with Holm's method."""
    return View(
        f"GH22, {variant}: drop P − N with 95 % interval, and p (Holm)",
        ("pattern",),
        [
            Column("n°", "pattern"),
            *(
                Values(f"rank {rank}", f"drop@{rank}", interval=True, p=f"{HOLM}:repetition_rate@{rank}", style=POINTS)
                for rank in ranks
            ),
        ],
        where=pl.col("condition") == str(variant),
        also=_COLUMNS,
        test="McNemar's exact test; [NAME, PROF] pairs are independent",
    )


def tables(run: "Gh22Run") -> list[Table]:
    """Rates and drops of each variant."""
    ranks = sorted(run.summary.select(_SPLIT.last().unique()).to_series(), key=int)
    both = ((rates(variant, patterns, ranks), drops(variant, ranks)) for variant, patterns in run.patterns.items())
    return [view.table(run) for views in both for view in views]


def acts_sentence(summary: pl.DataFrame) -> str:
    """How many of the ACTs are not verbs, in one sentence; empty without the original patterns."""
    found = summary.filter(metric="act_not_a_verb").with_columns(**_BY_RANK)
    shares = [f"{100 * row['value']:.1f} % at rank {row['rank']}" for row in found.iter_rows(named=True)]
    return f"ACTs that are not verbs of the lexicon: {', '.join(shares)}." if shares else ""


def sections(run: "Gh22Run") -> list[Section]:
    """The drops, then the rates; one figure for each pattern set."""
    adjusted = run.summary.filter(pl.col("metric").str.starts_with(f"{HOLM}:"))["value"]
    n, clear = run.items.select("name", "profession").n_unique(), (adjusted < 0.05).sum()
    asked = f"{run.model_name} was asked for its own words (ACTs) again, in {n:,} pairs of a name and a profession."
    said = f"The affirmative and the negated sentence differ in {clear} of {len(adjusted)} comparisons"
    acts, shown = acts_sentence(run.summary), tables(run)
    lowered = [_drops(run, variant, table) for variant, table in zip(run.patterns, shown[1::2], strict=True)]
    repeated = [_rates(run, variant, table) for variant, table in zip(run.patterns, shown[::2], strict=True)]
    note = "Rank is that of the ACT among the model's own predictions for the first sentence."
    return [
        Section(
            "Does a negation lower the repetition?",
            [f"{said} (p < 0.05, adjusted with Holm's method).", asked],
            lowered,
        ),
        Section("How often is the ACT repeated?", [acts] if acts else [], repeated, notes=[note]),
    ]


def _drops(run: "Gh22Run", variant: Variant, table: Table) -> Figure:
    chart = Chart(
        f"drops-{variant}",
        "drop",
        "drop (percentage points)",
        f"Patterns “{variant}”: repetition rate of the affirmative sentence minus that of its negation.",
        where=pl.col("condition") == str(variant),
        also=_BY_RANK,
        label=pl.format("{}P − {}N, rank {}", "pattern", "pattern", "rank"),
        panel=None,
    )
    return chart.figure(run, table)


def _rates(run: "Gh22Run", variant: Variant, table: Table) -> Figure:
    own = run.summary.filter(condition=str(variant), metric="repetition_rate").with_columns(**_BY_RANK)
    data = own.select(
        "rank",
        pl.col("value", "low", "high") * 100,
        number=pl.format("patterns {}", pl.col("pattern").str.head(-1)),
        polarity=pl.col("pattern").str.tail(1).replace({"P": "affirmative (P)", "N": "negated (N)"}),
    )
    printed = run.paper.figures.filter(condition=str(variant)).with_columns(**_BY_RANK).select(
        "rank",
        value=100 * pl.col("published"),
        number=pl.format("patterns {}", pl.col("pattern").str.head(-1)),
        polarity=pl.format("paper, {}", pl.col("pattern").str.tail(1)),
    )  # fmt: skip
    lines = Lines(
        pl.concat([data, printed], how="diagonal"), x="rank", y="value", low="low", high="high", series="polarity",
        panel="number", x_title="rank of the ACT", y_title="repetition (%)", domain=(0, 100),
    )  # fmt: skip
    alt = f"{variant}: lines of the repetition rate by the rank of the ACT, for affirmative and negated sentences."
    caption = f"Patterns “{variant}”: repetition rate by the rank of the ACT."
    return Figure(f"rates-{variant}", lines, table, alt, caption, wide=True)
