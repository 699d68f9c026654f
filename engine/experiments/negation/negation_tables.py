"""The paper's Tables 5, 6, 8 and 9 with our figures, the published ones (of pattern files) beside them."""

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import combinations
from typing import TYPE_CHECKING, Any

import polars as pl

from ...basics.choices import Coreference
from ...basics.errors import InputError
from ...basics.numerals import FRACTION, POINTS, fixed
from ...basics.printable import counted
from ...inference.audit import audit_sentences
from ...library.run import Contrast
from ...runs.record import differences
from ...statistics.clusters import FEWEST
from ...text.bundled import PATTERNS, SELF_CONTAINED_NEGATION
from ...text.pattern import PatternSet, PublishedColumn
from ...text.pattern_files import PatternFile, load_language
from ...views import Column, Table

if TYPE_CHECKING:
    from .negation_runs import ScoresRun

SUBJECTS = {
    Coreference.SAME_NAME: "same name",
    Coreference.SAME_GENDER: "other name, same gender",
    Coreference.OTHER_GENDER: "other name, other gender",
    Coreference.PRONOUN: "pronoun",
}
_SELECTION = {
    "row": pl.Int64,
    **dict.fromkeys(("quantity", "label"), pl.String),
    **dict.fromkeys(("value", "low", "high"), pl.Float64),
    "estimated": pl.Boolean,
    "published": pl.Float64,
    "unit": pl.String,
    "decimals": pl.Int64,
    "printed": pl.String,
}
_DROP: Mapping[str, Any] = {"decimals": 1, "unit": POINTS}
_IN_MILLIONS = ("tested", "repeating")
_UNITS = {"verbs": "verbs", "pairs": "pairs", "ratio": "%"}


Published = Mapping[str, PublishedColumn]
"""What papers print for a model: a value of `Coreference` → the column with the drops; empty if no paper has it."""


def published(model_name: str, patterns: PatternSet) -> Published:
    """The published figures for a model, by its hub id or bare name."""
    columns = patterns.published or _bundled(patterns.sha256)
    return {column.coreference: column for column in columns if model_name in column.models}


def _doubts(paper: Published) -> str:
    return "; ".join(dict.fromkeys(doubt for column in paper.values() for doubt in column.doubts))


@cache
def _bundled(sha256: str) -> tuple[PublishedColumn, ...]:
    """The figures of the bundled set with this digest. The paper's own set is read first, and mostly alone."""
    named = sorted(PATTERNS, key=lambda name: name != SELF_CONTAINED_NEGATION)
    sets = (load_language(name).patterns for name in named if PatternFile.read(name).content.published)
    return next((patterns.published for patterns in sets if patterns.sha256 == sha256), ())


def selection_table(selection: Mapping[str, Any], paper: Published) -> Table:
    """The content of selection.json in the layout of Table 5; low and high are the interval of an estimated ratio."""
    lazy, coreference = selection.get("lazy"), selection["coreference"]
    estimate = ", estimated" if lazy else ""
    labels = {
        "verbs": "1. Available verbs",
        "pairs": "2. Available name–profession pairs",
        "tested": f"3. Tested triplets (of {lazy['candidates']:,})" if lazy else "3. Tested triplets (row 1 × row 2)",
        "repeating": f"4. Triplets whose verb is repeated{estimate}",
        "ratio": f"5. Ratio (%){estimate}" if lazy else "5. Ratio (row 4 / row 3, %)",
        "selected": "6. Selected triplets",
    }
    column: Mapping[str, float | None] = {}
    if own := paper.get(coreference):  # Table 5 is about pronouns; Tables 8 and 9 have row 6 only
        column = own.selection if coreference == Coreference.PRONOUN else {"selected": own.triplets}
    rows = [
        {
            "row": number,
            "quantity": quantity,
            "label": label,
            "value": float(selection[quantity]),
            "low": lazy["ratio_low"] if lazy and quantity == "ratio" else None,
            "high": lazy["ratio_high"] if lazy and quantity == "ratio" else None,
            "estimated": lazy is not None and quantity in {"repeating", "ratio"},
            "published": column.get(quantity),
            "unit": _UNITS.get(quantity, "triplets"),
            "decimals": 1 if quantity == "ratio" else 0,
            # All the digits that the paper prints.
            "printed": f"{n / 1e6:.1f} M" if quantity in _IN_MILLIONS and (n := column.get(quantity)) else None,
        }
        for number, (quantity, label) in enumerate(labels.items(), 1)
    ]
    here = [Column("here", "value", decimals="decimals")]
    here += [Column("95 % interval", low="low", high="high", decimals="decimals")] if lazy else []
    return Table(
        f"Selection of triplets: {selection['model']}, {selection['pattern']}{_target(coreference)}",
        pl.DataFrame(rows, schema=_SELECTION),
        [Column("", "label"), *here, *([Column("paper", "published", decimals="decimals")] if column else [])],
        notes=audit_sentences(selection.get("precision", {})),
        texts={"published": "printed"},
    )


def rates_table(
    rates: pl.DataFrame,
    patterns: PatternSet,
    selection: Mapping[str, Any],
    paper: Published,
    precision: Mapping[str, float | str] | None = None,
) -> Table:
    """Rates and drops in the layout of Table 6; with the paper's drops where it has tested the model."""
    coreference = selection["coreference"]
    column = paper.get(coreference)
    roles = {pattern.name: str(pattern.role) for pattern in patterns.all}
    names = rates["pattern"].to_list()
    frame = rates.with_columns(
        pl.Series("published drop", [column.drops.get(name) if column else None for name in names], dtype=pl.Float64),
        pl.Series("role", [roles.get(name) for name in names], dtype=pl.String),
    )
    # Of the paper's figures on Tables 8 and 9.
    doubts = _doubts(paper) if column and coreference != Coreference.PRONOUN else ""
    return Table(
        title=f"Drop of verb repetition: {selection['model']}{_target(coreference)}",
        frame=frame,
        columns=[
            Column("pattern", "pattern"),
            Column("rate %", "repetition_rate", decimals=1, unit="%"),
            Column("drop", "drop", **_DROP),
            Column("95 % interval", low="drop_low_two_way", high="drop_high_two_way", **_DROP, wrap=False),
            *([Column("paper", "published drop", **_DROP)] if column else []),
            Column("role", "role"),
        ],
        notes=[
            *_rates_notes(frame),
            *([f"paper: {doubts}"] if doubts else []),
            *(audit_sentences(precision) if precision is not None else []),
        ],
    )


def _rates_notes(frame: pl.DataFrame) -> list[str]:
    n, pairs, verbs = frame.filter(pl.col("n") == pl.col("n").max()).select("n", "pairs", "verbs").row(0)
    notes = [f"rate: repetition rate of {counted(n, 'triplet')} ({counted(pairs, 'pair')}, {counted(verbs, 'verb')})"]
    effects = []
    for name in ("design_effect", "design_effect_two_way"):
        known = sorted({f"{value:.1f}" for value in frame[name].drop_nulls()}, key=float)
        effects.append(" to ".join(dict.fromkeys((*known[:1], *known[-1:]))))
    if min(pairs, verbs) < FEWEST:
        kind = "pairs" if pairs < FEWEST else "verbs"
        notes.append(f"95 % interval: none, because fewer than {FEWEST} {kind} do not show how {kind} differ")
    elif all(effects):
        notes.append(
            f"95 % interval: pairs and verbs are clusters (design effect {effects[1]}; of pairs alone {effects[0]})"
        )
    if largest := max(frame["drop_detectable"].drop_nulls().to_list(), default=None):
        points = fixed(largest, 1, (0,))
        notes.append(f"true differences of {points} points or more between two patterns are found with 80 % power")
    return notes


def _target(coreference: str) -> str:
    return "" if coreference == Coreference.PRONOUN else f", target about: {coreference}"


def contrast(runs: "Sequence[ScoresRun]") -> Contrast | None:
    """The patterns of one run, or runs of one model that differ in the target: Tables 8 and 9; None of any others.

    An `InputError` if the words, patterns or conventions of the runs differ.
    """
    scored = [pattern.name for pattern in runs[0].selection.patterns.scored]
    if len(runs) == 1:
        return Contrast(
            "Do the patterns differ?",
            f"Patterns on the same triplets: {runs[0].model_name}. Difference of the repetition rates: first − second",
            ("first", "second"),
            {pair: _sides([runs[0]] * 2, pair) for pair in combinations(scored, 2)},
        )
    if len({run.model_name for run in runs}) > 1 or len({run.coreference for run in runs}) < len(runs):
        return None
    ordered = sorted(runs, key=lambda run: list(SUBJECTS).index(Coreference(run.coreference)))
    for run in ordered[1:]:
        if unlike := differences(_words(ordered[0]), _words(run), "there"):
            raise InputError(f"{ordered[0].folder} and {run.folder} cannot be compared: {unlike}")
    rates = [  # with two columns before those of rates.parquet
        run.rates.select(
            pl.lit(run.coreference).alias("coreference"),
            pl.lit(run.selection.summary["selected"]).alias("selected"),
            pl.all(),
        )
        for run in ordered
    ]
    return Contrast(
        "What is the target sentence about?",
        "Targets on the triplets of both runs. Difference of the repetition rates: first − second",
        ("pattern", "first", "second"),
        {
            (name, *(run.coreference for run in pair)): _sides(pair, (name, name))
            for name in scored
            for pair in combinations(ordered, 2)
        },
        pl.concat(rates, how="diagonal"),
        [_targets_table(ordered, scored)],
    )


def _sides(runs: "Sequence[ScoresRun]", splits: Sequence[str]) -> Any:
    return tuple((run, run.coreference, split) for run, split in zip(runs, splits, strict=True))


def _targets_table(runs: "Sequence[ScoresRun]", patterns: Sequence[str]) -> Table:
    model = runs[0].model_name
    paper = published(model, runs[0].selection.patterns)
    frame: dict[str, Any] = {
        "pattern": ["selected triplets", *patterns],
        "unit": ["triplets", *(FRACTION for _ in patterns)],
        "decimals": [0, *(1 for _ in patterns)],
        "scale": [1, *(100 for _ in patterns)],
    }
    columns = [Column("pattern", "pattern")]
    for run in runs:
        drops = dict(run.rates.select("pattern", "drop").iter_rows())
        theirs = paper.get(run.coreference)
        shown, printed = run.coreference, f"{run.coreference}_published"
        own = [run.selection.summary["selected"], *map(drops.get, patterns)]
        printed_there = [theirs.triplets, *map(theirs.drops.get, patterns)] if theirs else [None] * len(own)
        for name, figures in ((shown, own), (printed, printed_there)):
            frame[name] = pl.Series(figures, dtype=pl.Float64, strict=False) / pl.Series(frame["scale"])
        column = Column(SUBJECTS[Coreference(shown)], shown, beside=printed, decimals="decimals", scale="scale")
        columns.append(column)
    notes = [f"in brackets: the paper; {_doubts(paper)}"] if paper else []
    return Table(
        title=f"Drop of verb repetition by what the target is about: {model}",
        frame=pl.DataFrame(frame).with_columns(section=pl.int_range(pl.len()) == 0),
        columns=columns,
        section="section",
        notes=[f"drops: in {POINTS} here, fractions in files", *notes],
    )


def _words(run: "ScoresRun") -> dict[str, Any]:
    """What runs that differ in the target must have in common: lexicon, patterns, which verbs are tried."""
    identity = run.selection.record.identity
    return {key: identity[key] for key in ("lexicon sha256", "patterns sha256", "verbs")}
