"""What a person reads of the test: Table 2 of the paper with our rates, drops with tests, curves by rank."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import polars as pl

from ...basics.numerals import percent
from ...requests.summary import DIFFERENCE, HOLM
from ...text.pattern import PatternSet
from ...views import Column, Figure, Section, Table
from ...views.charts import Lines
from ..published import published
from ..view import POINTS, Chart, Values, View
from .gh22_patterns import Variant

if TYPE_CHECKING:
    from .gh22 import Gh22Run

NO_VERB, NO_TEXT = "act_not_a_verb", "act_not_a_text"
RATE = "repetition_rate"
_RANK = pl.col("split").str.extract(r"@(\d+)$")
BY_RANK = {"pattern": pl.col("split").str.extract(r"^(\w+)@"), "rank": _RANK}  # of `1P@50`, and of `1P@50 vs 1N@50`
_DROP = pl.col("metric").replace({f"{DIFFERENCE}:{RATE}": "drop"})
_COLUMNS = {**BY_RANK, "metric": pl.format("{}@{}", _DROP, _RANK)}  # a column for each metric and rank


def tables(run: "Gh22Run") -> Iterator[Table]:
    """Two for each variant."""
    ranks = sorted(run.summary.select(_RANK.unique()).to_series(), key=int)
    for variant, patterns in run.patterns.items():
        yield _rates(variant, patterns, ranks).table(run)
        yield _drops(variant, ranks).table(run)


def _rates(variant: Variant, patterns: PatternSet, ranks: list[str]) -> View:
    """In the layout of Table 2; aux and adv: whether the target has that word."""
    words = published("gh22")["columns"]
    rows = [
        {"pattern": pattern.name, "number": pattern.name[:-1], "polarity": pattern.name[-1],
         **{key: word in pattern.target.split() for key, word in words.items()}}
        for pattern in patterns.scored
    ]  # fmt: skip
    each = (
        Values(f"rank {rank}", f"{RATE}@{rank}", beside=f"ungrammatical@{rank}", paper=f"paper, rank {rank}")
        for rank in ranks
    )
    return View(
        f"GH22, {variant}: {{model}}. Repetition of the ACT (in brackets: top-1 is not a verb), %",
        ("pattern",),
        [Column("n°", "number"), Column("pol.", "polarity"), *(Column(word, word) for word in words), *each],
        where=pl.col("condition") == str(variant),
        also=_COLUMNS,
        rows=pl.DataFrame(rows),
        section="number",
    )


def _drops(variant: Variant, ranks: list[str]) -> View:
    each = (Values(f"rank {rank}", f"drop@{rank}", interval=True, p=f"{HOLM}:{RATE}@{rank}", style=POINTS)
            for rank in ranks)  # fmt: skip
    return View(
        f"GH22, {variant}: drop P − N with 95 % interval, and p (Holm)",
        ("pattern",),
        [Column("n°", "pattern"), *each],
        where=(pl.col("condition") == str(variant)) & pl.col("split").str.contains(" vs "),
        also={**_COLUMNS, "pattern": BY_RANK["pattern"].str.head(-1)},
        test="McNemar's exact test; [NAME, PROF] pairs are independent",
    )


def _drops_figure(run: "Gh22Run", variant: Variant, table: Table) -> Figure:
    chart = Chart(
        f"drops-{variant}",
        f"{DIFFERENCE}:{RATE}",
        "drop (percentage points)",
        f"Patterns “{variant}”: repetition rate of the affirmative sentence minus that of its negation.",
        where=pl.col("condition") == str(variant),
        also={**BY_RANK, "number": BY_RANK["pattern"].str.head(-1)},
        label=pl.format("{}P − {}N, rank {}", "number", "number", "rank"),
        panel=None,
    )
    return chart.figure(run, table)


def _rates_figure(run: "Gh22Run", variant: Variant, table: Table) -> Figure:
    own = run.summary.filter(condition=str(variant), metric=RATE).with_columns(**BY_RANK)
    number, polarity = pl.format("patterns {}", pl.col("pattern").str.head(-1)), pl.col("pattern").str.tail(1)
    named = polarity.replace({"P": "affirmative (P)", "N": "negated (N)"})
    data = own.select("rank", pl.col("value", "low", "high") * 100, number=number, polarity=named)
    printed = run.paper.figures.filter(condition=str(variant)).with_columns(**BY_RANK).select(
        "rank", value=100 * pl.col("published"), number=number, polarity=pl.format("paper, {}", polarity)
    )  # fmt: skip
    lines = Lines(
        pl.concat([data, printed], how="diagonal"), x="rank", y="value", low="low", high="high", series="polarity",
        panel="number", x_title="rank of the ACT", y_title="repetition (%)", domain=(0, 100),
    )  # fmt: skip
    alt = f"{variant}: lines of the repetition rate by the rank of the ACT, for affirmative and negated sentences."
    caption = f"Patterns “{variant}”: repetition rate by the rank of the ACT."
    return Figure(f"rates-{variant}", lines, table, alt, caption, wide=True)


def acts_told(summary: pl.DataFrame) -> Iterator[str]:
    """How many ACTs are not verbs, by the original patterns; and how many are not texts, if there are any."""
    found = summary.with_columns(**BY_RANK)
    shares = [f"{percent(value)} % at rank {rank}"
              for value, rank in found.filter(metric=NO_VERB).select("value", "rank").iter_rows()]  # fmt: skip
    if shares:
        yield f"ACTs that are not verbs of the lexicon: {', '.join(shares)}."
    lost = found.filter(metric=NO_TEXT).with_columns(lost=(pl.col("value") * pl.col("n")).round().cast(pl.Int64))
    for (condition,), own in lost.group_by("condition", maintain_order=True):
        each = own.select(pl.format("{} of {} at rank {}", "lost", "n", "rank")).to_series()
        yield (
            f"{condition}: ACTs that are not texts of their own, such as a byte, were not asked: {', '.join(each)}. "
            "No other figure counts them."
        )


def sections(run: "Gh22Run") -> list[Section]:
    """A report asks whether a negation lowers the repetition, and how often the ACT is repeated."""
    adjusted = run.summary.filter(pl.col("metric").str.starts_with(f"{HOLM}:"))["value"]
    n, clear = run.items["pair"].n_unique(), (adjusted < 0.05).sum()
    asked = f"{run.model_name} was asked for its own words (ACTs) again, in {n:,} pairs of a name and a profession."
    said = f"The affirmative and the negated sentence differ in {clear} of {len(adjusted)} comparisons"
    shown = run.tables()
    lowered = [_drops_figure(run, *own) for own in zip(run.patterns, shown[1::2], strict=True)]
    repeated = [_rates_figure(run, *own) for own in zip(run.patterns, shown[::2], strict=True)]
    note = "Rank is that of the ACT among the model's own predictions for the first sentence."
    first = [f"{said} (p < 0.05, adjusted with Holm's method).", asked]
    return [
        Section("Does a negation lower the repetition?", first, lowered),
        Section("How often is the ACT repeated?", [*acts_told(run.summary)], repeated, notes=[note]),
    ]
