"""The tables of `cues` with a trained detector, in the layout of the paper's Table 1."""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl

from ...views import Column, Table
from ..items import ALL
from .summary import MODEL, WORDS
from .word_list import Kind

_SHOWN = 20  # cues of a detector in the table


@cache
def published() -> dict[str, Any]:
    """What the papers print; see published.toml."""
    return tomllib.loads((Path(__file__).parent / "published.toml").read_text("utf-8"))


def paper_shares() -> str:
    """The shares of the paper's Table 1, in one line."""
    shares = ", ".join(f"{name} {value:.2f} %" for name, value in published()["shares"].items())
    return f"sentences with a cue in the paper's Table 1: {shares}"


def share_table(summary: pl.DataFrame, model: str) -> Table:
    """Texts: sentences, the share with a cue, and the shares of the kinds of cue, by either detector.

    The frame has the columns text, detector, sentences, share, and the share of each kind; shares are fractions.

    Args:
        summary: The content of summary.parquet.
        model: The detector's name.
    """
    kinds = [str(kind) for kind in Kind]
    frame = (
        summary.pivot(on="split", index=["dataset", "condition", "n"], values="value", aggregate_function="first")
        .with_columns(pl.col("condition").replace({WORDS: "list of words", MODEL: model}))
        .rename({"dataset": "text", "condition": "detector", "n": "sentences", ALL: "share"})
        .select("text", "detector", "sentences", "share", *kinds)
    )
    return Table(
        title="Sentences with a negation cue",
        frame=frame,
        columns=[
            Column("text", "text"),
            Column("detector", "detector"),
            Column("sentences", "sentences"),
            *(Column(f"{name}, %", name, decimals=2, scale=100, unit="%") for name in ("share", *kinds)),
        ],
    )


def cue_table(counts: Mapping[str, Mapping[str, int]], model: str) -> Table:
    """The most frequent cues of all texts, by either detector.

    Args:
        counts: Detector → cue → how often.
        model: The detector's name.
    """
    rows = [
        {"detector": name, "cue": cue, "count": n}
        for detector, name in ((WORDS, "list of words"), (MODEL, model))
        for cue, n in sorted(counts[detector].items(), key=lambda item: (-item[1], item[0]))[:_SHOWN]
    ]
    return Table(
        title="The most frequent cues",
        frame=pl.DataFrame(rows, schema={"detector": pl.String, "cue": pl.String, "count": pl.Int64}),
        columns=[Column("detector", "detector"), Column("cue", "cue"), Column("count", "count")],
    )
