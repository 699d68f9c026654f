"""Does a model tell a query from its negation? Tables 1 and 2 of Kassner and Schütze (2020), `negengine lama`.

The metrics are over the ranked tokens, as in LAMA's `lama/evaluation_metrics.py`:

    spearman      rank correlation between the scores of the query and of its negation
    overlap@1     whether the same token is first in both
    precision@k   whether the gold answer is among the first k (affirmative and misprimed queries)

As in LAMA, a fact does not count if its gold answer is not one ranked token of the model.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar

import polars as pl

from ...basics.numerals import TIMES_100, percent
from ...inference.exported import ExportedModel
from ...requests.contrast import Contrast
from ...requests.items import ALL, ITEM, KEYS, ORIGINAL, OWN, WHY
from ...requests.summary import Cell, Row, cluster_means
from ...requests.vocabulary import RANKED_SAID, RANKED_WORDS, Ranked, Vocabulary
from ...requests.word import ComparedWord
from ...views import Column, Section, Table
from ..data_sets.sources import find
from ..experiment import RANKED, Option
from ..finished_run import GROUP, published
from ..requested import Requested, RequestedRun
from ..view import PERCENT, Chart, Values, View
from .facts import Corpus, Fact, Facts, read_facts

CUTS = (1, 5, 10)
NEGATION = "negated"  # what the negations of the original queries are called among the sentences
TOP = 3  # first tokens of each query, as in the paper's Table 2
SAME_AS_AFFIRMATIVE = ("TREx", "P159")
SAME = "the negation of P159 is the affirmative sentence itself"
BY_RELATION, RELATION = "-by-relation", "relation"
QUERY = pl.col("role").is_null()  # affirmative, or misprimed
DENIED = pl.col("role") == NEGATION
NEGATED_TOP = pl.col("top1").filter(DENIED).first().over(ITEM)
_CORPUS, _SPLIT = Column("corpus", "dataset"), Column("group", "split")
# The single relations of a corpus with more than eight splits are in summary.parquet alone.
_RELATION = (pl.struct("column", "split").n_unique().over("dataset") > 8) & pl.col("column").eq_missing(RELATION)
_FACTS = (pl.col("condition") == ORIGINAL) & ~_RELATION
NEGATIONS = View(  # Table 1
    "Queries and their negations: {model}",
    ("dataset", "split"),
    [
        _CORPUS,
        _SPLIT,
        Column("facts", "n"),
        Values(
            "rank correlation",
            "spearman",
            beside=f"spearman{BY_RELATION}",
            paper="paper: correlation",
            style={**PERCENT, "unit": TIMES_100},
        ),
        Values("overlap@1", "overlap@1", beside=f"overlap@1{BY_RELATION}", paper="paper: overlap"),
    ],
    where=_FACTS,
    notes=["means over facts, in brackets over relations"],
)
PRECISION = View(
    "Precision: {model}",
    ("dataset", "condition"),
    [
        _CORPUS,
        Column("queries", "condition"),
        Column("n", "n"),
        *(Values(f"@{k}", f"precision@{k}", interval=k == CUTS[0]) for k in CUTS),
    ],
    where=pl.col("column").is_null(),
)
_ALIKE: Any = {"where": _FACTS, "label": pl.format("{}, {}", "dataset", GROUP), "panel": None,
               "keys": ("dataset", "split"), "notes": ["means over facts"]}  # fmt: skip
_SAME = "of the predictions for a query and for its negation."
CORRELATION = Chart("correlation", "spearman", "rank correlation", f"Correlation {_SAME}", unit=TIMES_100, **_ALIKE)
OVERLAP = Chart("overlap", "overlap@1", "same first token", f"Overlap {_SAME}", **_ALIKE)
PRIMED = Chart(
    "precision",
    "precision@1",
    "precision@1",
    "Share of the queries whose gold answer is the first token.",
    where=pl.col("column").is_null(),
    label=pl.col("condition"),
)


@dataclass(frozen=True, eq=False)
class LamaRun(RequestedRun):
    """A finished run."""

    def tables(self) -> list[Table]:
        return [NEGATIONS.table(self), PRECISION.table(self)]

    def methods(self, test: str) -> str:
        vocabulary = RANKED_SAID.get(str(self.record.identity["vocabulary"]), "the words of a list")
        spearman, overlap, precision = (self.told(ORIGINAL, ALL, name) for name in list(self.declared.metrics)[:3])
        return (
            f"We queried facts, their negations and misprimed facts ({test}) and ranked {vocabulary}. Mean rank "
            f"correlation between a query and its negation: {spearman}. Share of queries with the "
            f"same first prediction as their negation: {overlap}. Precision at rank 1: {precision}."
        )


@dataclass(frozen=True, eq=False)
class Lama(Requested):
    """Query facts, their negations and misprimed copies (Kassner and Schütze 2020)."""

    name = "lama"
    results = LamaRun
    title = "Negated and misprimed LAMA"
    asks = (
        "Facts are asked for with a missing word, then with a negation, then after a misleading word. Does "
        "the answer change?"
    )
    references = "negengine.engine.experiments.lama:references.toml"
    example = "negengine lama mini --corpus GoogleRE"
    unit = "facts"
    clusters = "relations"
    of_kind = ComparedWord
    together = ("dataset", "item")
    reads = "facts"
    metrics: ClassVar[Mapping[str, pl.Expr]] = {
        "spearman": pl.col("spearman"),
        # A fact without a correlation has no overlap either, as in LAMA.
        "overlap@1": pl.when(pl.col("spearman").is_not_null()).then(pl.col("top1") == NEGATED_TOP),
        **{f"precision@{k}": pl.when(QUERY).then(pl.col("rank") <= k) for k in CUTS},
    }

    shown: ClassVar[Mapping[str, pl.Expr]] = {
        "condition": pl.when(DENIED).then(pl.lit(NEGATION)).otherwise("condition"),
        # A negation fails if its first answer is that of its query.
        "failed": pl.when(DENIED).then(pl.col("overlap@1").max().over(ITEM)).otherwise(~pl.col("first")),
        RELATION: pl.col("cluster"),
    }

    data: Annotated[
        str | Path | Sequence[str | Path] | None,
        Option(
            "Facts in the layout of LAMA or its negated copy; may be repeated.",
            metavar="PATH",
            kind=list[Path],
            is_file=True,
        ),
    ] = None
    corpus: Annotated[
        str | Sequence[str], Option("Corpus of facts (default: all); may be repeated.", kind=list[Corpus])
    ] = ()
    vocabulary: Annotated[str, RANKED] = Vocabulary.ALL.value
    with_p159: Annotated[bool, Option("Include relation P159, whose negation equals the affirmative sentence.")] = False

    @cached_property
    def facts(self) -> Facts:
        given = [self.data] if isinstance(self.data, str | Path) else self.data or ()
        paths = [find("negated-lama", Path(path)) for path in given] or [find("negated-lama")]
        return read_facts(paths, list(self.corpus))

    @cached_property
    def ranked(self) -> Ranked:
        return Ranked.of(self.vocabulary)

    @property
    def identity(self) -> dict[str, Any]:
        return {"data sha256": self.facts.sha256, "with P159": self.with_p159}

    def metadata(self, exported: ExportedModel) -> dict[str, Any]:
        return {"excluded": dict(self.facts.excluded), RANKED_WORDS: self.ranked.known(exported.tokenizer)}

    def kind(self, exported: ExportedModel) -> ComparedWord:  # noqa: ARG002 - part of the interface
        return ComparedWord(top=TOP, ranked=self.ranked)

    def notes(self, exported: ExportedModel) -> Sequence[str]:
        return self.ranked.left_out(exported.tokenizer)

    def requests(self, exported: ExportedModel) -> pl.DataFrame:  # noqa: ARG002 - part of the interface
        rows = [row for fact in self.facts.facts for row in self._rows(fact)]
        return pl.DataFrame(rows, {**KEYS, **ComparedWord.asks, "place": pl.String})

    def _rows(self, fact: Fact) -> Iterator[dict[str, Any]]:
        known = published("lama")["trex"].items() if fact.corpus == Corpus.T_REX else ()
        types = [name for name, own in known if fact.relation in own]  # 1-1, N-1 or N-M
        own = {
            "dataset": fact.corpus,
            "item": fact.item,
            "pair": fact.item,
            "cluster": fact.relation,
            "splits": [ALL, fact.relation, *types],
            "columns": [None, RELATION, *[OWN] * len(types)],
            WHY: None if self.with_p159 or (fact.corpus, fact.relation) != SAME_AS_AFFIRMATIVE else SAME,
            "place": fact.location,
        }
        query = {"condition": ORIGINAL, "text": fact.affirmative, "word": fact.gold, "against": fact.negated}
        yield own | query
        if fact.negated is not None:
            yield own | {"condition": ORIGINAL, "role": NEGATION, "text": fact.negated}
        for kind, text in fact.misprimed.items():
            yield own | {"condition": f"misprimed-{kind}", "text": text, "word": fact.gold}

    @classmethod
    def contrasts(cls, rows: pl.DataFrame) -> Iterator[Contrast]:
        for corpus in rows["dataset"].unique(maintain_order=True):
            for other in sorted(set(rows.filter(dataset=corpus)["condition"]) - {ORIGINAL}):
                yield from (Contrast(f"precision@{k}", Cell(corpus, ORIGINAL), Cell(corpus, other)) for k in CUTS)

    @classmethod
    def further(cls, rows: pl.DataFrame) -> list[Row]:
        return cluster_means(rows, tuple(cls.metrics), BY_RELATION, RELATION)

    @classmethod
    def clustered_by(cls, told: Mapping[str, Any]) -> str:  # noqa: ARG003 - part of the interface
        return RELATION

    @classmethod
    def sections(cls, run: RequestedRun) -> list[Section]:
        negations, precision = run.tables()
        said = (
            f"{row['dataset']}: the first token is the same in {percent(row['overlap@1'])} % of {row['n']:,} facts."
            for row in negations.frame.filter(pl.col("column").is_null()).iter_rows(named=True)
        )
        return [
            Section(
                "Does a negation change the prediction?",
                ["Where correlation and overlap are high, the model ignores the negation.", *said],
                figures=[CORRELATION.figure(run), OVERLAP.figure(run)],
                tables=[negations],
                folded=True,
            ),
            Section(
                "Do misleading words change the prediction?",
                ["A misprimed query begins with a misleading word, such as “Talk? Birds can [MASK]”."],
                figures=[PRIMED.figure(run, precision)],
                notes=run.remarks(),
            ),
        ]
