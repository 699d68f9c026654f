"""Sentences as a person reads them, with the model's answers: a random sample, and the worst failures."""

import polars as pl

from ...errors import InputError
from ...library.run import Run
from ...library.sentences import CORRECT, FAILED, REPEATED
from ...views import Column, Section, Table

SAMPLE, WORST = 100, 100
"""How many sentences of each kind a report has."""

_TITLE = "What do single sentences look like?"
_KEYS = ("item", "condition")
_HEADINGS = {
    "why": "shown as",
    "condition": "condition",
    "sentence": "sentence",
    "premise": "premise",
    "hypothesis": "hypothesis",
    "expected": "expected",
    "answer": "answer",
    REPEATED: "repeated",
    CORRECT: "correct",
    FAILED: "fails",
    "rank": "rank",
    "logprob": "log-probability",
}


def examples(run: Run) -> list[Section]:
    """The section. Where sentences cannot be built, it says why."""
    try:
        rows = run.sentence_rows()
        shown = pl.concat(
            [
                _worst(rows).select(pl.lit("worst failure").alias("why"), pl.all()),
                run.sentences(sample=SAMPLE).select(pl.lit("random sample").alias("why"), pl.all()),
            ]
        )
    except InputError as error:
        return [Section(_TITLE, [f"There are no sentences: {error}."])]
    columns = [
        Column(heading, name, decimals=2 if name == "logprob" else None)
        for name, heading in _HEADINGS.items()
        if name in shown.columns and shown[name].null_count() < len(shown)
    ]
    listing = Table("Sentences and the model's answers", shown, columns)
    n = int((shown["why"] == "worst failure").sum())
    said = f"Below are {n:,} of the worst failures and {len(shown) - n:,} sentences that were drawn at random."
    return [Section(_TITLE, [said], listing=listing, notes=[_note(shown)])]


def _worst(rows: pl.LazyFrame) -> pl.DataFrame:
    """The failures that are furthest from right, the same number of each condition.

    They are found without building any text.
    """
    names = rows.collect_schema().names()
    failures = rows.filter(pl.col(FAILED)).select(*_KEYS, "rank", "logprob", *(set(names) & {REPEATED})).collect()
    # A verb that is repeated in spite of a negation is the worse, the more probable it is.
    towards = pl.when(REPEATED).then(-1).otherwise(1) if REPEATED in names else pl.lit(1)
    badness = [
        towards * pl.col("logprob").cast(pl.Float64),
        -towards * pl.col("rank").cast(pl.Int64),
        *map(pl.col, _KEYS),
    ]
    each = max(1, WORST // max(1, failures["condition"].n_unique()))
    chosen = (
        failures.sort(*badness, nulls_last=True).group_by("condition", maintain_order=True).head(each).select(_KEYS)
    )
    if chosen.is_empty():
        return rows.head(0).collect()
    found = rows.filter(pl.col("item").is_in(chosen["item"].unique().implode())).collect()
    return chosen.join(found.unique(_KEYS, keep="first", maintain_order=True), on=_KEYS, maintain_order="left").select(
        names
    )


def _note(shown: pl.DataFrame) -> str:
    if REPEATED in shown.columns:
        return (
            "A sentence fails if the verb is repeated where the negation forbids it, or is not repeated where it stays "
            "natural. The worst repetitions are the most probable ones; the worst misses are the least probable ones."
        )
    return "The worst failures are those whose expected answer has the lowest probability or rank."
