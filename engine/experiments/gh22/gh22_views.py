"""Tables and sections of `gh22`: Table 2 of the paper with our figures, drops, curves by the rank of the ACT."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import polars as pl

from ...text.pattern import PatternSet
from ...views import Column, Figure, Section, Table
from ...views.charts import Lines, Points
from ..published import column, fraction, published
from ..summary import HOLM, correction_note, detectable_note
from .gh22_patterns import Variant

if TYPE_CHECKING:
    from .gh22 import Gh22Run

_HEAD = {"number": pl.String, "polarity": pl.String, "aux": pl.Boolean, "adv": pl.Boolean}


def rates_table(summary: pl.DataFrame, variant: Variant, patterns: PatternSet, model: str) -> Table:
    """Repetition rates of one variant in the layout of Table 2, with a column for each rank of the ACT.

    The columns aux and adv say whether the target has that word. All rates are fractions. Where the model is one of the
    paper's, the paper's rates are shown next to ours.
    """
    values = _values(summary, variant)
    ranks = _ranks(values)
    paper = column("gh22", model) if variant is Variant.ORIGINAL else None
    printed = published("gh22")["figures"][paper]["GH22"]["original"] if paper else {}
    printed = {split.partition("@")[0]: own["repetition_rate"] for split, own in printed.items()}
    words = published("gh22")["columns"]
    metrics = [f"{metric}@{rank}" for rank in ranks for metric in ("repetition_rate", "ungrammatical")]
    rows = [
        {
            "number": pattern.name[:-1],
            "polarity": pattern.name[-1],
            **{key: word in pattern.target.split() for key, word in words.items()},
            **{name: _value(values, pattern.name, name) for name in metrics},
            "published": fraction(printed[pattern.name]) if pattern.name in printed else None,
        }
        for pattern in patterns.scored
    ]
    return Table(
        title=f"GH22, {variant}: {model}. Repetition of the ACT (in brackets: top-1 is not a verb), %",
        frame=pl.DataFrame(rows, schema=_HEAD | dict.fromkeys([*metrics, "published"], pl.Float64)),
        columns=[
            Column("n°", "number"),
            Column("pol.", "polarity"),
            Column("aux", "aux"),
            Column("adv", "adv"),
            *(
                Column(f"rank {rank}", f"repetition_rate@{rank}", f"ungrammatical@{rank}", decimals=1, scale=100)
                for rank in ranks
            ),
            *([Column("paper, rank 1", "published", decimals=1, scale=100)] if paper else []),
        ],
        section="number",
    )


def drops_table(summary: pl.DataFrame, variant: Variant) -> Table:
    """The drops P − N of one variant with their 95 % intervals (fractions), and p adjusted with Holm's method."""
    values = _values(summary, variant)
    ranks = _ranks(values)
    rows, drops, adjusted = [], [], None
    for number in dict.fromkeys(split.partition("@")[0] for split, metric in values if metric == "drop"):
        row: dict[str, Any] = {"number": number}
        for rank in ranks:
            drop, p = (values[f"{number}@{rank}", metric] for metric in ("drop", f"{HOLM}:repetition_rate"))
            row |= {f"drop@{rank}": drop["value"], f"low@{rank}": drop["low"], f"high@{rank}": drop["high"]}
            row |= {f"p@{rank}": p["value"]}
            adjusted = p
            drops.append(drop)
        rows.append(row)
    figures = [f"{name}@{rank}" for rank in ranks for name in ("drop", "low", "high", "p")]
    return Table(
        title=f"GH22, {variant}: drop P − N with 95 % interval, and p (Holm)",
        frame=pl.DataFrame(rows, schema={"number": pl.String} | dict.fromkeys(figures, pl.Float64)),
        columns=[
            Column("n°", "number"),
            *(
                Column(
                    f"rank {rank}",
                    f"drop@{rank}",
                    low=f"low@{rank}",
                    high=f"high@{rank}",
                    p=f"p@{rank}",
                    decimals=1,
                    scale=100,
                    unit="percentage points",
                )
                for rank in ranks
            ),
        ],
        notes=[
            *(
                [correction_note(adjusted, "McNemar's exact test; [NAME, PROF] pairs are independent")]
                if adjusted
                else []
            ),
            *detectable_note(drops),
        ],
    )


def acts_sentence(summary: pl.DataFrame) -> str:
    """How many of the ACTs are not verbs, in one sentence; empty without the original patterns."""
    values = _values(summary, Variant.ORIGINAL)
    shares = [
        f"{100 * values[split, metric]['value']:.1f} % at rank {split.partition('@')[2]}"
        for split, metric in values
        if metric == "act_not_a_verb"
    ]
    return f"ACTs that are not verbs of the lexicon: {', '.join(shares)}." if shares else ""


def _values(summary: pl.DataFrame, variant: Variant) -> dict[tuple[str, str], dict[str, Any]]:
    own = summary.filter(pl.col("condition") == str(variant))
    return {(row["split"], row["metric"]): row for row in own.iter_rows(named=True)}


def _value(values: Mapping[tuple[str, str], Mapping[str, Any]], pattern: str, name: str) -> float:
    """The value of METRIC@RANK of a pattern."""
    metric, _, rank = name.rpartition("@")
    return float(values[f"{pattern}@{rank}", metric]["value"])


def _ranks(values: Mapping[tuple[str, str], object]) -> list[int]:
    return sorted({int(split.partition("@")[2]) for split, _ in values})


def sections(run: "Gh22Run") -> list[Section]:
    """The drops, then the rates; one figure for each pattern set."""
    significant = run.summary.filter(pl.col("metric").str.starts_with(f"{HOLM}:"))
    clear = int((significant["value"] < 0.05).sum())
    n = run.items.select("name", "profession").n_unique()
    said = [
        f"{run.model_name} was asked for its own words (ACTs) again, in {n:,} pairs of a name and a profession.",
        (
            f"The affirmative and the negated sentence differ in {clear} of {len(significant)} comparisons "
            "(p < 0.05, adjusted with Holm's method)."
        ),
    ]
    acts = acts_sentence(run.summary)
    return [
        Section(
            "Does a negation lower the repetition?", said, figures=[_drops(run, table) for table in _tables(run, 1)]
        ),
        Section(
            "How often is the ACT repeated?",
            [acts] if acts else [],
            figures=[_rates(run, table) for table in _tables(run, 0)],
            notes=["Rank is that of the ACT among the model's own predictions for the first sentence."],
        ),
    ]


def _tables(run: "Gh22Run", which: int) -> list[tuple[str, Table]]:
    return [
        (
            str(variant),
            drops_table(run.summary, variant) if which else rates_table(run.summary, variant, patterns, run.model_name),
        )
        for variant, patterns in run.patterns.items()
    ]


def _rates(run: "Gh22Run", named: tuple[str, Table]) -> Figure:
    """Curves by rank: a small chart for each number, a line for each polarity; the paper's rate at rank 1."""
    variant, table = named
    own = _by_rank(run.summary, variant, "repetition_rate").with_columns(
        number=pl.format("patterns {}", pl.col("name").str.head(-1)),
        polarity=pl.col("name").str.tail(1).replace({"P": "affirmative (P)", "N": "negated (N)"}),
    )
    printed = table.frame.drop_nulls("published").select(
        number=pl.format("patterns {}", "number"),
        polarity=pl.format("paper, {}", "polarity"),
        rank=pl.lit("1"),
        value=100 * pl.col("published"),
    )
    data = pl.concat([own, printed], how="diagonal_relaxed")
    return Figure(
        f"rates-{variant}",
        Lines(
            data,
            x="rank",
            y="value",
            low="low",
            high="high",
            series="polarity",
            panel="number",
            x_title="rank of the ACT",
            y_title="repetition (%)",
            domain=(0, 100),
        ),
        table,
        f"{variant}: lines of the repetition rate by the rank of the ACT, for affirmative and negated sentences.",
        f"Patterns “{variant}”: repetition rate by the rank of the ACT, with 95 % intervals.",
        wide=True,
    )


def _drops(run: "Gh22Run", named: tuple[str, Table]) -> Figure:
    variant, table = named
    data = _by_rank(run.summary, variant, "drop").with_columns(
        pattern=pl.format("{}P − {}N, rank {}", "name", "name", "rank")
    )
    return Figure(
        f"drops-{variant}",
        Points(data, x="value", y="pattern", low="low", high="high", title="drop (percentage points)"),
        table,
        f"{variant}: a point for the drop from the affirmative to the negated sentence, for each pattern and rank.",
        f"Patterns “{variant}”: repetition rate of the affirmative sentence minus that of its negation, with 95 % "
        "intervals.",
        joint=True,
    )


def _by_rank(summary: pl.DataFrame, variant: str, metric: str) -> pl.DataFrame:
    """Name (of a pattern, or its number), rank, value, low, high in percent, of one metric."""
    return summary.filter((pl.col("condition") == variant) & (pl.col("metric") == metric)).select(
        pl.col("split").str.split("@").list.get(0).alias("name"),
        pl.col("split").str.split("@").list.get(1).alias("rank"),
        pl.col("value", "low", "high") * 100,
    )
