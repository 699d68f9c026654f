"""Items of `cues`, and their shares.

items.parquet has a row for each sentence with a cue and each detector that finds one:

    dataset     the text
    condition   the detector: `words` (the list) or `model`
    item        line and place of the sentence: `12.2` is the second sentence of line 12
    line        the line alone
    sentence    the sentence
    cues        its cues, joined by `|`: `not|un-`
    kinds       their kinds, joined by `|`: `particle|affix`

summary.parquet has the shares of sentences with a cue, and with a cue of each kind (split), of all sentences (n). A
share describes a text, of which every sentence was read, so it has no interval.
"""

from collections.abc import Mapping, Sequence

import polars as pl

from ..items import ALL, SEPARATOR
from ..summary import SCHEMA
from .word_list import Kind

ITEMS = {
    "dataset": pl.String,
    "condition": pl.String,
    "item": pl.String,
    "line": pl.Int64,
    "sentence": pl.String,
    "cues": pl.String,
    "kinds": pl.String,
}
WORDS, MODEL = "words", "model"
DETECTORS = (WORDS, MODEL)
SHARE = "share"


def sentences_of(text: int) -> str:
    """The name of the count of all sentences of a text, by its number."""
    return f"sentences of text {text + 1}"


def summarise(items: pl.LazyFrame, texts: Sequence[str], counts: Mapping[str, float]) -> pl.DataFrame:
    """The rows of summary.parquet.

    Args:
        items: All items.
        texts: What the texts are called.
        counts: Sentences of each text; see `sentences_of`.
    """
    kinds = pl.col("kinds").str.split(SEPARATOR)
    has = {str(kind): kinds.list.contains(str(kind)) for kind in Kind}
    found = (
        items.select("dataset", "condition", negated=pl.lit(1), **has)
        .group_by("dataset", "condition")
        .agg(pl.col("negated", *map(str, Kind)).sum())
        .collect(engine="streaming")
    )
    by_cell = {(row["dataset"], row["condition"]): row for row in found.to_dicts()}
    rows = []
    for number, text in enumerate(texts):
        n = int(counts[sentences_of(number)])
        for detector in DETECTORS:
            own = by_cell.get((text, detector), {})
            for split, column in ((ALL, "negated"), *((str(kind), str(kind)) for kind in Kind)):
                rows.append(
                    dict.fromkeys(SCHEMA)
                    | {
                        "dataset": text,
                        "condition": detector,
                        "split": split,
                        "metric": SHARE,
                        "value": own.get(column, 0) / n,
                        "n": n,
                    }
                )
    return pl.DataFrame(rows, schema=SCHEMA)
