"""The results of `cues`: items, shares, tables, sections of a report, and what is counted again.

items.parquet has a row for each sentence with a cue and each detector that finds one:

    dataset     the text
    condition   the detector: `words` (the list) or `model`
    item        line and place of the sentence: `12.2` is the second sentence of line 12
    line        the line alone
    sentence    the sentence
    cues        its cues, joined by `|`: `not|un-`
    kinds       their kinds, joined by `|`: `particle|affix`

summary.parquet has the shares of sentences with a cue, and with a cue of each kind (split), of all sentences (n), as in
Table 1 of the NLI paper. A share describes a text, of which every sentence was read, so it has no interval.
"""

import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
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
from ..summary import SCHEMA
from .cue_texts import split_sentences
from .cue_words import Kind, find_cues

if TYPE_CHECKING:
    from .cues import CuesRun

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


_SHOWN = 20  # cues of a detector in the table


@cache
def published() -> dict[str, Any]:
    """What the papers print."""
    return tomllib.loads((Path(__file__).parent / "published.toml").read_text("utf-8"))


def paper_shares() -> str:
    """The shares of the paper's Table 1, in one line."""
    shares = ", ".join(f"{name} {value:.2f} %" for name, value in published()["shares"].items())
    return f"sentences with a cue in the paper's Table 1: {shares}"


def share_table(summary: pl.DataFrame, model: str) -> Table:
    """Texts: sentences, the share with a cue, and the shares of the kinds of cue, by either detector.

    The frame has the columns text, detector, sentences, share, and the share of each kind; shares are fractions.
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


_ITEM = ("dataset", "condition", "item")
_CELL = ("dataset", "condition", "split", "metric")


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
    cells = summary.select(*_CELL, "n").join(counted, on=["dataset", "condition", "split"], how="left")
    wanted = cells.select(*_CELL, value=pl.col("count").fill_null(0) / pl.col("n"))
    yield same_figures("shares of summary.parquet are those of the items", summary, wanted, _CELL)


@dataclass(frozen=True)
class CueShare:
    """How common negation is in a text file."""

    path: Path
    sentences: int
    negated: int  # sentences with at least one cue
    by_kind: dict[Kind, int]  # kind → sentences with at least one cue of that kind
    cues: dict[str, int]  # cue → how often it occurs, the most frequent first

    @property
    def share(self) -> float:
        """A fraction: Table 1."""
        return self.negated / self.sentences


@dataclass(frozen=True, eq=False)
class CueShares(Shown):
    """How common negation is in several text files."""

    shares: tuple[CueShare, ...]

    @classmethod
    def of(cls, files: Sequence[Path]) -> "CueShares":
        """Count the sentences of text files; errors as in `cue_share`."""
        return cls(tuple(cue_share(path) for path in files))

    def tables(self) -> list[Table]:
        """Texts in the layout of Table 1.

        The frame has the columns text, sentences, negated, share, and the share of each kind; shares are fractions.
        """
        rows = [
            {
                "text": str(share.path),
                "sentences": share.sentences,
                "negated": share.negated,
                "share": share.share,
                **{str(kind): share.by_kind[kind] / share.sentences for kind in Kind},
            }
            for share in self.shares
        ]
        counts = {"text": pl.String, "sentences": pl.Int64, "negated": pl.Int64}
        table = Table(
            title="Sentences with a negation cue",
            frame=pl.DataFrame(rows, schema=counts | dict.fromkeys(("share", *map(str, Kind)), pl.Float64)),
            columns=[
                Column("text", "text"),
                Column("sentences", "sentences"),
                Column("with a cue", "negated"),
                *(Column(f"{name}, %", name, decimals=2, scale=100, unit="%") for name in ("share", *map(str, Kind))),
            ],
        )
        return [table]

    def document(self) -> list[dict[str, Any]]:
        return [
            {
                "file": str(share.path),
                "share": share.share,
                "sentences": share.sentences,
                "negated": share.negated,
                "by_kind": {str(kind): count for kind, count in share.by_kind.items()},
                "cues": share.cues,
            }
            for share in self.shares
        ]


def cue_share(path: Path) -> CueShare:
    """Count the sentences of a UTF-8 text file (also `.gz`) that hold a negation cue.

    A line break ends a sentence; within a line, sentences are split by `split_sentences`.

    Raises:
        InputError: The file cannot be read, is not UTF-8 text, or holds no sentence.
    """
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
    by_kind = {kind: kinds[kind] for kind in Kind}
    return CueShare(
        path, sentences, negated, by_kind, dict(sorted(words.items(), key=lambda item: (-item[1], item[0])))
    )


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
