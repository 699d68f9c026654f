"""The results of `cues`: items, shares, tables, sections of a report, and what is counted again.

A share describes a text, of which every sentence was read, so it has no interval. Split: a kind of cue (Table 1).
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from ...basics.errors import InputError
from ...library.recount import Recount, holds, same_figures
from ...library.shown import Shown
from ...text.text_lines import stream_lines
from ...views import Column, Figure, Section, Table
from ...views.charts import Points
from ..finished_run import item_once
from ..items import ALL, SEPARATOR
from ..published import CELL, published
from ..summary import Row, frame
from .cue_texts import split_sentences
from .cue_words import Kind, find_cues

if TYPE_CHECKING:
    from .cues import CuesRun

ITEMS = {
    **dict.fromkeys(("dataset", "condition", "item"), pl.String),
    "line": pl.Int64,
    **dict.fromkeys(("sentence", "cues", "kinds"), pl.String),
}
WORDS, MODEL = "words", "model"
DETECTORS = (WORDS, MODEL)
SHARE = "share"
_SHOWN = 20  # cues of a detector in the table
_ITEM = ("dataset", "condition", "item")


def sentences_of(text: int) -> str:
    """The name of the count of all sentences of a text, by its number."""
    return f"sentences of text {text + 1}"


def summarise(items: pl.LazyFrame, texts: Sequence[str], counts: Mapping[str, float]) -> pl.DataFrame:
    """The rows of summary.parquet; `counts` has the sentences of each text by the names of `sentences_of`."""
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
                rows.append(Row(text, detector, split, SHARE, own.get(column, 0) / n, None, None, n))
    return frame(rows)


def paper_shares() -> str:
    """The shares of the paper's Table 1, in one line."""
    shares = ", ".join(f"{name} {value:.2f} %" for name, value in published("cues")["shares"].items())
    return f"sentences with a cue in the paper's Table 1: {shares}"


def share_table(summary: pl.DataFrame, model: str) -> Table:
    """Texts: sentences, the share with a cue, and the shares of the kinds of cue, by either detector; as fractions."""
    kinds = [str(kind) for kind in Kind]
    shares = (
        summary.pivot(on="split", index=["dataset", "condition", "n"], values="value", aggregate_function="first")
        .with_columns(pl.col("condition").replace({WORDS: "list of words", MODEL: model}))
        .rename({"dataset": "text", "condition": "detector", "n": "sentences", ALL: "share"})
        .select("text", "detector", "sentences", "share", *kinds)
    )
    return Table(
        title="Sentences with a negation cue",
        frame=shares,
        columns=[
            Column("text", "text"),
            Column("detector", "detector"),
            Column("sentences", "sentences"),
            *(Column(f"{name}, %", name, decimals=2, scale=100, unit="%") for name in ("share", *kinds)),
        ],
    )


def cue_table(counts: Mapping[str, Mapping[str, int]], model: str) -> Table:
    """The most frequent cues of all texts; `counts` has them by detector."""
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


def recounts(items: pl.DataFrame, summary: pl.DataFrame) -> Iterator[Recount]:
    """What must hold of a finished run."""
    yield item_once(items)
    yield holds(
        "each cue has a kind", items, pl.col("cues").str.count_matches("|", literal=True)
        == pl.col("kinds").str.count_matches("|", literal=True), _ITEM,
    )  # fmt: skip
    listed = items.with_columns(pl.col("kinds").str.split("|")).explode("kinds")
    yield holds("kinds are those of the list", listed, pl.col("kinds").is_in([str(kind) for kind in Kind]), _ITEM)
    once = listed.unique(["dataset", "condition", "item", "kinds"]).select("dataset", "condition", split="kinds")
    whole = items.select("dataset", "condition", split=pl.lit("all"))
    counted = pl.concat([once, whole]).group_by("dataset", "condition", "split").len("count")
    cells = summary.select(*CELL, "n").join(counted, on=["dataset", "condition", "split"], how="left")
    wanted = cells.select(*CELL, value=pl.col("count").fill_null(0) / pl.col("n"))
    yield same_figures("shares of summary.parquet are those of the items", summary, wanted, CELL)


@dataclass(frozen=True, eq=False)
class CueShares(Shown):
    """How common negation is in several text files, by the list of words; `shares` are those of `cue_share`."""

    shares: Sequence[dict[str, Any]]

    def tables(self) -> list[Table]:
        shown = ("share", *map(str, Kind))
        names = ("file", "sentences", "negated", "share")
        rows = [
            (*(own[name] for name in names), *(k / own["sentences"] for k in own["by_kind"].values()))
            for own in self.shares
        ]
        schema = {"text": pl.String, "sentences": pl.Int64, "negated": pl.Int64, **dict.fromkeys(shown, pl.Float64)}
        columns = [
            Column("text", "text"),
            Column("sentences", "sentences"),
            Column("with a cue", "negated"),
            *(Column(f"{name}, %", name, decimals=2, scale=100, unit="%") for name in shown),
        ]
        return [Table("Sentences with a negation cue", pl.DataFrame(rows, schema=schema, orient="row"), columns)]

    def document(self) -> Sequence[dict[str, Any]]:
        return self.shares


def cue_share(path: Path) -> dict[str, Any]:
    """How common negation is in a UTF-8 text file (also `.gz`); a line break ends a sentence. Shares are fractions."""
    sentences = negated = 0
    kinds: Counter[Kind] = Counter()
    words: Counter[str] = Counter()
    for line, _ in stream_lines(path, "give a text file"):
        for sentence in split_sentences(line):
            cues = find_cues(sentence)
            sentences += 1
            negated += bool(cues)
            kinds.update({cue.kind for cue in cues})
            words.update(cue.word for cue in cues)
    if not sentences:
        raise InputError(f"{path}:1: no sentence in this file; give a text with one sentence or paragraph per line")
    return {
        "file": str(path),
        "share": negated / sentences,
        "sentences": sentences,
        "negated": negated,
        "by_kind": {str(kind): kinds[kind] for kind in Kind},
        "cues": dict(sorted(words.items(), key=lambda item: (-item[1], item[0]))),
    }


def sections(run: "CuesRun") -> list[Section]:
    """Shares of sentences with a cue, and the most frequent cues."""
    return [
        Section(
            "How many sentences have a negation cue?",
            ["The list of words and the trained detector read the same sentences."],
            figures=[_shares(share_table(run.summary, run.model_name))],
            notes=[paper_shares()],
        ),
        Section("Which cues are frequent?", tables=[cue_table(run.counts(), run.model_name)]),
    ]


def _shares(table: Table) -> Figure:
    data = table.frame.select("text", "detector", value=pl.col("share") * 100)
    return Figure(
        "shares",
        Points(data, x="value", y="text", series="detector", title="sentences with a negation cue (%)"),
        table,
        "Points for the share of sentences with a negation cue, for each text and each detector.",
        "Sentences with a negation cue, of all sentences of a text.",
    )
