"""What a report says about a run of the Self-Contained Negation Test, from the answer to the single words."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import polars as pl

from ...basics.frames import scan_frame
from ...basics.numerals import fixed, percent
from ...inference.exported import REFERENCE
from ...requests.summary import correction_note, estimated
from ...statistics.p_values import holm
from ...text.pattern import Role
from ...views import Column, Figure, Section, Table, charts
from ...views.labels import numbered
from .negation_runs import ScoresRun, SelectionRun
from .negation_tables import POINTS, rates_table, selection_table
from .rates import PAIR, SCORES_FILE, differences
from .reading import STRONG

_TOP = 8
_RANKS = ((1, "1"), (2, "2"), (3, "3"), (5, "4–5"), (10, "6–10"), (100, "11–100"), (1000, "101–1,000"))
_BEYOND = "> 1,000"
_QUANTILES = {"q5": "5 %", "q25": "25 %", "q50": "median", "q75": "75 %", "q95": "95 %"}
_MOST = 12
_PATTERN = Column("pattern", "pattern")
_PERCENT: Mapping[str, Any] = {"decimals": 1, "scale": 100, "unit": "%"}
_DIFFERENCE: Mapping[str, Any] = {"decimals": 1, "signed": True, "unit": POINTS}


def selected(run: SelectionRun) -> list[Section]:
    """The one section of a selection that is not scored yet."""
    return [Section("Selected triplets", run.remarks(), tables=run.tables())]


def scored(run: ScoresRun) -> list[Section]:
    """The sections of a scored run, from the answer to the single sentences."""
    scores, patterns = scan_frame(run.folder / SCORES_FILE), run.rates["pattern"].to_list()
    between = differences(scores, run.selection.triplets.lazy(), patterns, run.selection.patterns.selecting.name)
    precision = _precision_note(scores)
    medians = _quantiles(scores, patterns, "expected_rank").select("pattern", "q50").iter_rows()
    fall = f"The median rank of the verb is {', '.join(f'{rank:.0f} in {name}' for name, rank in medians)}."
    falls = [_rank_figure(scores, patterns, fall), _logprob_figure(_quantiles(scores, patterns, "expected_logprob"))]
    return [
        _verdict(run),
        _drops(run, between),
        Section(
            "What changes between two patterns?",
            ["All patterns have the same triplets. The first table of this chapter has a sentence of each pattern."],
            figures=[_matrix(between, patterns)],
        ),
        _replacements(scores, run.rates, precision),
        # A shift is visible even if the first choice stays the same.
        Section("How far does the verb fall?", [fall], figures=falls, notes=precision),
        _drivers(run, scores),
    ]


def _in_order(column: str, values: Sequence[str]) -> pl.Expr:
    """The place of a value among all of them, to sort by."""
    return pl.col(column).replace_strict({value: i for i, value in enumerate(values)}, return_dtype=pl.Int64)


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


def _gaps(run: ScoresRun, between: pl.DataFrame) -> Table:
    forbidden, controls = (
        [pattern.name for pattern in run.selection.patterns.scored if pattern.role is role]
        for role in (Role.FORBIDDEN, Role.CONTROL)
    )
    frame = (
        between.filter(pl.col("first").is_in(controls) & pl.col("second").is_in(forbidden))
        # A drop is 100 - rate, so the difference of drops is the difference of the rates with its sides exchanged.
        .select("difference", "low", "high", "p", "least_p", "n", forbidden="second", control="first")
        .sort(_in_order("forbidden", forbidden), maintain_order=True)
    )
    adjusted, tests = holm(frame["p"].to_numpy(), frame["least_p"].to_numpy())
    frame = frame.with_columns(p_holm=pl.Series(adjusted, dtype=pl.Float64), tests=pl.lit(tests, pl.Int64))
    how = "sign flips of pairs, of verbs, and by Student's test for both; the largest one"
    return Table(
        "By how much: drop of the forbidden pattern − drop of the control, on the same triplets",
        frame,
        [
            Column("forbidden", "forbidden"),
            Column("control", "control"),
            Column("difference", "difference", **_DIFFERENCE),
            Column("95 % interval", low="low", high="high", **_DIFFERENCE),
            Column("p (Holm)", "p_holm", significant=2),
            Column("triplets", "n"),
        ],
        notes=[
            "interval: pairs and verbs are clusters",
            *([] if frame.is_empty() else [correction_note(frame, how, " of this table")]),
        ],
    )


def _drops(run: ScoresRun, between: pl.DataFrame) -> Section:
    selection = run.selection
    paper = selection.paper
    table = rates_table(run.rates, selection.patterns, selection.shown, paper)
    scored_patterns = table.frame.filter(pl.col("role") != str(Role.SELECTING))
    drawn = scored_patterns.with_columns(pattern=pl.format("{}, {}", "pattern", "role"))
    ends, source = {"low": "drop_low_two_way", "high": "drop_high_two_way"}, numbered(["paper", run.model_name])
    ours = drawn.select("pattern", "n", drop="drop", **ends, source=pl.lit(source[1]), is_own=pl.lit(value=True))
    theirs = drawn.select("pattern", drop="published", source=pl.lit(source[0]), is_own=pl.lit(value=False))
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
        tables=[_gaps(run, between), selection_table(selection.shown, paper)],
    )


def _points(difference: float) -> str:
    return fixed(difference, 1, (-100, 0, 100), "+")


def _matrix(between: pl.DataFrame, patterns: Sequence[str]) -> Figure:
    cells = pl.DataFrame(list(product(patterns, patterns)), schema=["first", "second"], orient="row")
    cells = cells.join(between, on=["first", "second"], how="left", maintain_order="left").with_columns(
        text=pl.col("difference").map_elements(_points, pl.String).str.replace("-", "−").fill_null("")
    )
    once = between.filter(_in_order("first", patterns) < _in_order("second", patterns)).drop("p")
    counts = ("both", "only_first", "only_second", "neither")
    table = Table(
        "Difference of the repetition rates on the same triplets: first − second",
        once,
        [
            Column("first", "first"),
            Column("second", "second"),
            Column("triplets", "n"),
            Column("difference", "difference", low="low", high="high", **_DIFFERENCE),
            *(Column(name.replace("_", " "), name) for name in counts),
        ],
        notes=[
            "both, only first, only second, neither: in how many triplets the verb is repeated",
            "pairs and verbs are clusters for the interval",
            "first − second is the drop of the second, if the first is the selecting pattern",
        ],
    )
    largest = once.sort(pl.col("difference").abs(), maintain_order=True).row(-1, named=True)
    return Figure(
        "differences",
        charts.Matrix(cells, row="first", column="second", value="difference", text="text"),
        table,
        f"A matrix of differences between patterns. The largest is {largest['first']} − {largest['second']}: "
        f"{_points(largest['difference'])} {POINTS}.",
        f"Repetition rate of the row minus that of the column, in {POINTS}.",
    )


def _replacements(scores: pl.LazyFrame, rates: pl.DataFrame, notes: Sequence[str]) -> Section:
    counts = (
        scores.filter(~pl.col("repeated"))
        .group_by("pattern", "top1")
        .agg(n=pl.len().cast(pl.Int64))
        .collect()
        .join(rates.select("pattern", triplets="n"), on="pattern")
        .with_columns(share=pl.col("n") / pl.col("n").sum().over("pattern"))
        .sort("n", "top1", descending=[True, False])
    )
    top = (
        counts.group_by("pattern", maintain_order=True)
        .head(_TOP)
        .sort(_in_order("pattern", rates["pattern"].to_list()), maintain_order=True)
        .select("pattern", "top1", "n", "share", "triplets")
    )
    title = "What does the model say instead of the verb?"
    if top.is_empty():
        return Section(title, ["The model repeats every verb in every pattern."])
    distinct = dict(counts.group_by("pattern").agg(pl.len()).iter_rows())
    said = [
        f"{pattern}: always “{answer}” ({n:,} times)."
        if distinct[pattern] == 1
        else f"{pattern}: most often “{answer}” ({n:,} times, {percent(share, 0)} % of the answers that are not the "
        f"verb), among {distinct[pattern]:,} different answers."
        for pattern, answer, n, share, _ in top.group_by("pattern", maintain_order=True).first().iter_rows()
    ]
    table = Table(
        "Most frequent answers that are not the verb",
        top,
        [
            _PATTERN,
            Column("answer", "top1"),
            Column("triplets", "n"),
            Column("share of these answers", "share", **_PERCENT),
        ],
        section="pattern",
    )
    labelled = top.with_columns(text=pl.col("n").map_elements("{:,}".format, pl.String))
    plot = charts.Bars(labelled, x="n", y="top1", panel="pattern", title="triplets", text="text")
    caption = f"The most frequent first choices that are not the verb, at most {_TOP}, with the number of triplets."
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
    ranks = counts.with_columns(share=pl.col("n") / total, cumulative=so_far / total)
    ends = {label: str(last) for last, label in _RANKS} | {_BEYOND: "all"}
    plot = charts.Lines(
        ranks.with_columns(percent=100 * pl.col("cumulative"), up_to=pl.col("rank").replace(ends)),
        x="up_to",
        y="percent",
        series="pattern",
        x_title="rank of the verb",
        y_title="triplets up to this rank (%)",
        domain=(0, 100),
    )
    columns = [
        _PATTERN,
        Column("rank", "rank"),
        Column("triplets", "n"),
        Column("share", "share", **_PERCENT),
        Column("share up to this rank", "cumulative", **_PERCENT),
    ]
    return Figure(
        "ranks",
        plot,
        Table("Rank of the expected verb", ranks, columns, section="pattern"),
        f"Lines of the share of the triplets whose verb has a rank or a better one. {said}",
        "Share of the triplets whose verb is among the first predictions: rank 1 is the repetition rate.",
        joint=True,
    )


def _logprob_figure(quantiles: pl.DataFrame) -> Figure:
    title = "log-probability of the verb (natural logarithm)"
    table = Table(
        "Log-probability of the expected verb: quantiles over the triplets",
        quantiles,
        [
            _PATTERN,
            Column("triplets", "n"),
            *(Column(heading, name, decimals=2) for name, heading in _QUANTILES.items()),
        ],
        notes=["natural logarithm; the half of all triplets lies between 25 % and 75 %"],
    )
    return Figure(
        "log-probabilities",
        charts.Points(
            quantiles, x="q50", y="pattern", low="q25", high="q75", title=title, n="n", zero=False, explained=False
        ),
        table,
        "A point for the median log-probability of the verb in each pattern, with a line for the middle half.",
        "Median of the verb's log-probability; the line holds the middle half of the triplets. "
        "It is not a confidence interval.",
        joint=True,
    )


def _quantiles(scores: pl.LazyFrame, patterns: Sequence[str], column: str) -> pl.DataFrame:
    number = pl.col(column).cast(pl.Float64)
    each = (number.quantile(int(q[1:]) / 100, "nearest").alias(q) for q in _QUANTILES)
    own = scores.group_by("pattern").agg(*each, n=pl.col(column).count())
    return own.collect().sort(_in_order("pattern", patterns), maintain_order=True)


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


def _drivers(run: ScoresRun, scores: pl.LazyFrame) -> Section:
    """Repetition rates by gender, and by the verbs, professions and names with the largest effect on the rates."""
    words = run.selection.triplets.lazy().select("triplet", *PAIR, "gender", "verb")
    selecting = run.selection.patterns.selecting.name
    counts = scores.select("triplet", "pattern", "repeated").join(words, on="triplet")
    counts = counts.filter(pl.col("pattern") != selecting)
    overall = run.rates.filter(pl.col("pattern") != selecting)
    kinds = ("gender", "verb", "profession", "name")
    figures = [_driver_figure(what, counts, overall) for what in kinds]
    shown = (
        f"Shown are the {_MOST} words with the largest effect on the rates: the number of a word's triplets times the "
        "distance of its rate from the pattern's, added up over the patterns. A word whose triplets are of fewer "
        "than five pairs or verbs has no line: these do not show how they differ."
    )
    said = [_driver(figure.data, what) for figure, what in zip(figures[1:], kinds[1:], strict=True)]
    return Section("Which words drive the result?", said, figures=figures, notes=[shown])


def _driver_figure(what: str, scores: pl.LazyFrame, rates: pl.DataFrame) -> Figure:
    """Rates of the words with the largest effect; `scores` has a row for each triplet and pattern, with its words."""
    overall = dict(rates.select("pattern", pl.col("repetition_rate") / 100).iter_rows())
    sums = (pl.col("repeated").sum().cast(pl.Int64).alias("repetitions"), pl.len().cast(pl.Int64).alias("n"))
    counts = scores.group_by("pattern", what).agg(*sums).collect().sort("pattern", what)
    known = pl.col("pattern").replace_strict(overall, return_dtype=pl.Float64)
    moved = counts.with_columns(overall=known).with_columns(
        rate=pl.col("repetitions") / pl.col("n"),
        contribution=(pl.col("repetitions") - pl.col("n") * pl.col("overall")) / pl.col("n").sum().over("pattern"),
    )
    strength = moved.group_by(what, maintain_order=True).agg(strength=pl.col("contribution").abs().sum())
    strongest = strength.sort("strength", what, descending=[True, False]).head(_MOST)[what].to_list()
    in_order = sorted(strongest) if what == "gender" else strongest
    rows = (
        moved.filter(pl.col(what).is_in(strongest))
        .sort(_in_order("pattern", [*overall]), _in_order(what, in_order))
        .select("pattern", what, "n", "repetitions", "rate", "overall", "contribution")
    )
    kinds = {"pair": pl.struct(*PAIR).rank("dense"), "crossed": pl.col("verb").rank("dense")}
    shown = scores.filter(pl.col(what).is_in(strongest)).select("pattern", what, "repeated", **kinds).collect()
    groups = shown.sort("pair", "crossed").partition_by("pattern", what, as_dict=True)  # one order: the same digits
    ends = [
        estimated(own["repeated"], own["pair"], crossed=None if what == "verb" else own["crossed"])[1:3]
        for own in (groups[key] for key in rows.select("pattern", what).iter_rows())
    ]
    frame = rows.hstack(pl.DataFrame(ends, schema={"low": pl.Float64, "high": pl.Float64}, orient="row"))
    table = Table(
        f"Repetition rate by {what}",
        frame,
        [
            _PATTERN,
            Column(what, what),
            Column("triplets", "n"),
            Column("repetition rate", "rate", low="low", high="high", **_PERCENT),
            Column("effect on the rate of all", "contribution", decimals=2, scale=100, signed=True, unit=POINTS),
        ],
        section="pattern",
    )
    plot = charts.Points(
        frame.with_columns(pl.col("rate", "low", "high", "overall") * 100),
        x="rate",
        y=what,
        low="low",
        high="high",
        n="n",
        panel="pattern",
        title="repetition",
        unit="%",
        domain=(0, 100),
    )
    alt = f"A small chart for each pattern with a point for the repetition rate of each {what}, with its interval."
    return Figure(f"by-{what}", plot, table, alt, f"Repetition rate by {what}.", wide=True, joint=what == "gender")


def _driver(frame: pl.DataFrame, what: str) -> str:
    if frame.is_empty():
        return f"There is no {what}."
    row = frame.sort(pl.col("contribution").abs(), descending=True, maintain_order=True).row(0, named=True)
    way = "raises" if row["contribution"] > 0 else "lowers"
    return (
        f"The {what} with the largest effect on a rate is “{row[what]}”: it {way} the rate of {row['pattern']} by "
        f"{abs(100 * row['contribution']):.2f} percentage points ({row['n']:,} triplets, "
        f"{percent(row['rate'])} % repeated)."
    )
