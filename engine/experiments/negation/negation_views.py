"""What a report says about a run of the Self-Contained Negation Test, from the answer to the single words."""

from collections.abc import Sequence
from itertools import product

import polars as pl

from ...basics.frames import scan_frame
from ...basics.numerals import POINTS, fixed, percent
from ...inference.exported import REFERENCE
from ...text.pattern import Role
from ...views import Column, Figure, Section, Table, charts
from ...views.labels import numbered
from ..view import PERCENT
from .negation_runs import ScoresRun, SelectionRun
from .negation_tables import rates_table, selection_table
from .rates import SCORES_FILE
from .reading import STRONG

TOP = 8
_RANKS = ((1, "1"), (2, "2"), (3, "3"), (5, "4–5"), (10, "6–10"), (100, "11–100"), (1000, "101–1,000"))
_BEYOND = "> 1,000"
_PATTERN = Column("pattern", "pattern")


def selected(run: SelectionRun) -> list[Section]:
    """The one section of a selection that is not scored yet."""
    return [Section("Selected triplets", run.remarks(), tables=run.tables())]


def scored(run: ScoresRun) -> list[Section]:
    """The sections of a scored run, from the answer to the single sentences."""
    scores, patterns = scan_frame(run.folder / SCORES_FILE), run.rates["pattern"].to_list()
    precision, rank = _precision_note(scores), pl.col("expected_rank").cast(pl.Float64)
    medians = dict(scores.group_by("pattern").agg(rank.quantile(0.5, "nearest")).collect().iter_rows())
    fall = f"The median rank of the verb is {', '.join(f'{medians[name]:.0f} in {name}' for name in patterns)}."
    return [
        _verdict(run),
        _drops(run),
        _replacements(scores, run.rates, precision),
        # A shift is visible even if the first choice stays the same.
        Section("How far does the verb fall?", [fall], figures=[_rank_figure(scores, patterns, fall)], notes=precision),
    ]


def _verdict(run: ScoresRun) -> Section:
    n = int(run.rates["n"].max() or 0)  # type: ignore[arg-type]
    about = (
        f"{run.model_name} was asked for the verb in {n:,} triplets of a name, a profession and a verb, in each of "
        f"{len(run.rates)} patterns. It repeats all these verbs where nothing is negated."
    )
    how = (
        f"A model passes if its drop in every forbidden pattern is strong, which is above {STRONG:g}, and above its "
        "drop in every control. In a forbidden pattern the negation rules out that the verb is repeated; in a control "
        "the verb stays natural."
    )
    said = [run.reading, about, *([run.same_text] if run.same_text else [])]
    return Section("Does the model pass the test?", said, notes=[how])


def _drops(run: ScoresRun) -> Section:
    selection = run.selection
    paper = selection.paper
    table = rates_table(run.rates, selection.patterns, selection.shown, paper)
    scored_patterns = table.frame.filter(pl.col("role") != str(Role.SELECTING))
    drawn = scored_patterns.with_columns(pattern=pl.format("{}, {}", "pattern", "role"))
    ends, source = {"low": "drop_low_two_way", "high": "drop_high_two_way"}, numbered(["paper", run.model_name])
    ours = drawn.select("pattern", "n", drop="drop", **ends, source=pl.lit(source[1]), is_own=pl.lit(value=True))
    theirs = drawn.select("pattern", drop="published drop", source=pl.lit(source[0]), is_own=pl.lit(value=False))
    shown = pl.concat([ours, theirs], how="diagonal").drop_nulls("drop")
    series = "source" if shown["source"].n_unique() > 1 else None
    listed = ", ".join(
        f"{name} {fixed(drop, 1, (-100, 0, 100))}"
        for name, drop in scored_patterns.drop_nulls("drop")["pattern", "drop"].iter_rows()
    )
    plot = charts.Points(
        shown, x="drop", y="pattern", low="low", high="high", n="n", series=series, title="drop", unit=POINTS
    )
    caption = "Drop of the repetition rate in each pattern. Pairs and verbs are clusters."
    figure = Figure(
        "drops",
        plot,
        table,
        f"A point for the drop of each pattern: {listed}.",
        caption + (" The paper prints its drops without intervals." if series else ""),
        joint=True,
    )
    return Section(
        "How much does each pattern lower the repetition of the verb?",
        ["The drop is 100 − repetition rate: the share of the triplets in which another word is the first choice."],
        figures=[figure],
        tables=[selection_table(selection.shown, paper)],
    )


def _replacements(scores: pl.LazyFrame, rates: pl.DataFrame, notes: Sequence[str]) -> Section:
    counts = (
        scores.filter(~pl.col("repeated"))
        .group_by("pattern", "top1")
        .agg(n=pl.len().cast(pl.Int64))
        .collect()
        .join(rates.select("pattern", triplets="n"), on="pattern")
        .with_columns(share=pl.col("n") / pl.col("n").sum().over("pattern"), distinct=pl.len().over("pattern"))
        .sort(pl.col("pattern").cast(pl.Enum(rates["pattern"])), -pl.col("n"), "top1")
    )
    top = counts.group_by("pattern", maintain_order=True).head(TOP).select("pattern", "top1", "n", "share", "triplets")
    title = "What does the model say instead of the verb?"
    if top.is_empty():
        return Section(title, ["The model repeats every verb in every pattern."])
    most_frequent = counts.unique("pattern", keep="first", maintain_order=True)
    said = [
        f"{pattern}: always “{answer}” ({n:,} times)."
        if distinct == 1
        else f"{pattern}: most often “{answer}” ({n:,} times, {percent(share, 0)} % of the answers that are not the "
        f"verb), among {distinct:,} different answers."
        for pattern, answer, n, _, share, distinct in most_frequent.iter_rows()
    ]
    table = Table(
        "Most frequent answers that are not the verb",
        top,
        [
            _PATTERN,
            Column("answer", "top1"),
            Column("triplets", "n"),
            Column("share of these answers", "share", **PERCENT),
        ],
        section="pattern",
    )
    labelled = top.with_columns(text=pl.col("n").map_elements("{:,}".format, pl.String))
    plot = charts.Bars(labelled, x="n", y="top1", panel="pattern", title="triplets", text="text")
    caption = f"The most frequent first choices that are not the verb, at most {TOP}, with the number of triplets."
    figure = Figure("replacements", plot, table, " ".join(said), caption, wide=True)
    return Section(title, said, figures=[figure], notes=notes)


def _rank_figure(scores: pl.LazyFrame, patterns: Sequence[str], said: str) -> Figure:
    """Counts of ranks in bins: pattern, rank, n, share, cumulative."""
    label = pl.lit(_BEYOND)
    for last, name in reversed(_RANKS):
        label = pl.when(pl.col("expected_rank") <= last).then(pl.lit(name)).otherwise(label)
    found = scores.group_by("pattern", rank=label).agg(n=pl.len().cast(pl.Int64)).collect()
    labels = [*(name for _, name in _RANKS), _BEYOND]
    bins = pl.DataFrame(list(product(patterns, labels)), schema=["pattern", "rank"], orient="row")
    counts = bins.join(found, on=["pattern", "rank"], how="left", maintain_order="left").fill_null(0)
    total, so_far = (own.over("pattern") for own in (pl.col("n").sum(), pl.col("n").cum_sum()))
    ranks = counts.with_columns(share=pl.col("n") / total, cumulative=so_far / total, triplets=total)
    ends = {label: str(last) for last, label in _RANKS} | {_BEYOND: "all"}
    plot = charts.Lines(
        ranks.with_columns(percent=100 * pl.col("cumulative"), up_to=pl.col("rank").replace(ends)),
        x="up_to",
        y="percent",
        series="pattern",
        x_title="rank of the verb",
        title="triplets up to this rank (%)",
        domain=(0, 100),
        n="triplets",
    )
    columns = [
        _PATTERN,
        Column("rank", "rank"),
        Column("triplets", "n"),
        Column("share", "share", **PERCENT),
        Column("share up to this rank", "cumulative", **PERCENT),
    ]
    return Figure(
        "ranks",
        plot,
        Table("Rank of the expected verb", ranks, columns, section="pattern"),
        f"Lines of the share of the triplets whose verb has a rank or a better one. {said}",
        "Share of the triplets whose verb is among the first predictions: rank 1 is the repetition rate.",
        joint=True,
    )


def _precision_note(scores: pl.LazyFrame) -> list[str]:
    rows = dict(scores.group_by("precision").agg(pl.len()).collect().iter_rows())
    low = {name: n for name, n in rows.items() if name != REFERENCE}
    if not low:
        return []
    share = percent(sum(low.values()) / sum(rows.values()), 0)
    said = (
        "The run used mixed precision: whether a verb is repeated is exact. Other answers, ranks and log-probabilities "
        f"come from the low-precision model ({', '.join(sorted(low))}) in {share} % of the sentences, which the "
        "column precision marks."
    )
    return [said]
