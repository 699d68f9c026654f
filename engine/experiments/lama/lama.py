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

import numpy as np
import polars as pl

from ...inference.free_text import MASK
from ...library.again import Draw, Sample
from ...library.recount import Recount, holds
from ...library.sentences import CORRECT
from ...requests.items import ALL, ITEM_SCHEMA, ITEMS_FILE, ORIGINAL, SUMMARY_FILE, joined, top_schema
from ...requests.summary import Contrast, cluster_means, contrasts, frame, means, with_holm
from ...requests.vocabulary import Ranked, Vocabulary
from ...runs.stage import Files, FinishedParts
from ...views import Column, Section, Table
from ..ask import Answers, Asked, Question
from ..data_sets.misprimed import MISPRIMES
from ..data_sets.sources import find
from ..experiment import Option
from ..finished_run import AskedRun, Correlated, chances
from ..finished_run import means as recounted_means
from ..published import published
from ..view import Chart, Values, View
from .facts import Corpus, Fact, Facts, read_facts

CUTS = (1, 5, 10)
METRICS = ("spearman", "overlap@1", *(f"precision@{k}" for k in CUTS))
CONDITIONS = (ORIGINAL, *(f"misprimed-{kind}" for kind in MISPRIMES))
NEGATION = "negated"  # what the negations of the original queries are called among the sentences
QUERY, NEGATED = "", "negated_"  # what the columns of a query and of its negation begin with
TOP = 3  # first tokens of each query, as in the paper's Table 2
SAME_AS_AFFIRMATIVE = ("TREx", "P159")
SAME = "the negation of P159 is the affirmative sentence itself"
BY_RELATION = "-by-relation"
SCHEMA: Mapping[str, Any] = {
    **ITEM_SCHEMA,
    "spearman": pl.Float64,
    "overlap@1": pl.Boolean,
    **{f"precision@{k}": pl.Boolean for k in CUTS},
    "gold": pl.String,
    "rank": pl.Int32,
    "gold_logprob": pl.Float32,
    **{
        name: kind
        for side in (QUERY, NEGATED)
        for name, kind in ({f"{side}query": pl.String} | top_schema(TOP, side)).items()
    },
}
_CORPUS, _SPLIT = Column("corpus", "dataset"), Column("split", "split")
# The single relations of a corpus with more than eight splits are in summary.parquet alone.
_RELATION = (pl.col("split").n_unique().over("dataset") > 8) & pl.col("split").str.contains(r"^P\d+$")
_FACTS = (pl.col("condition") == ORIGINAL) & ~_RELATION
NEGATIONS = View(  # Table 1
    "Queries and their negations: {model} (%)",
    ("dataset", "split"),
    [
        _CORPUS,
        _SPLIT,
        Column("facts", "n"),
        Values("rank correlation", "spearman", beside=f"spearman{BY_RELATION}", paper="paper: correlation"),
        Values("overlap@1", "overlap@1", beside=f"overlap@1{BY_RELATION}", paper="paper: overlap"),
    ],
    where=_FACTS,
    notes=["means over facts, in brackets over relations"],
)
PRECISION = View(
    "Precision: {model} (%)",
    ("dataset", "condition"),
    [
        _CORPUS,
        Column("queries", "condition"),
        Column("n", "n"),
        *(Values(f"@{k}", f"precision@{k}", interval=k == CUTS[0]) for k in CUTS),
    ],
    where=pl.col("split") == ALL,
)
_ALIKE: Any = {"where": _FACTS, "label": pl.format("{}, {}", "dataset", "split"), "panel": None,
               "keys": ("dataset", "split"), "notes": ["means over facts"]}  # fmt: skip
_SAME = "of the predictions for a query and for its negation."
CORRELATION = Chart("correlation", "spearman", "rank correlation (× 100)", f"Correlation {_SAME}", **_ALIKE)
OVERLAP = Chart("overlap", "overlap@1", "same first token (%)", f"Overlap {_SAME}", **_ALIKE)
PRIMED = Chart(
    "precision",
    "precision@1",
    "precision@1 (%)",
    "Share of the queries whose gold answer is the first token.",
    where=pl.col("split") == ALL,
    label=pl.col("condition"),
)


@dataclass(frozen=True, eq=False)
class LamaRun(AskedRun):
    """A finished run: `items` has one row for each fact, and one for each of its misprimed queries."""

    stage: ClassVar[str] = "lama"
    clusters: ClassVar[str] = "relations"
    metrics: ClassVar[Sequence[str]] = METRICS
    condition_keys: ClassVar[Sequence[str]] = ("data sha256", "vocabulary", "vocabulary sha256", "with P159")
    grouped: ClassVar[Mapping[str, str]] = {"relation": "cluster"}
    unit: ClassVar[str] = "facts"

    def tables(self) -> list[Table]:
        return [NEGATIONS.table(self), PRECISION.table(self), examples_table(self.items)]

    def methods(self, test: str) -> str:
        ranked = str(self.record.identity["vocabulary"])
        vocabulary = {"all": "all tokens", "words": "the tokens that are words"}.get(ranked, "the words of a list")
        spearman, overlap, precision = (self.told(ORIGINAL, ALL, name) for name in METRICS[:3])
        return (
            f"We queried facts, their negations and misprimed facts ({test}) and ranked {vocabulary}. Mean rank "
            f"correlation between a query and its negation, with 95 % intervals: {spearman}. Share of queries with the "
            f"same first prediction as their negation: {overlap}. Precision at rank 1: {precision}."
        )

    def sentence_rows(self) -> pl.LazyFrame:
        """The affirmative queries, their negations, then the misprimed queries.

        One fails if its first answer is not the gold one; a negation, if its first answer is that of its query.
        """
        items, tops = self.items.lazy(), list(top_schema(TOP))[2:]
        own = {"dataset": "dataset", "relation": "cluster", "splits": "splits", "gold": "gold"}
        correct = {CORRECT: pl.col("precision@1"), "expected": "gold", "logprob": "gold_logprob"}
        nothing = {CORRECT: pl.lit(None, pl.Boolean), "expected": pl.lit(None, pl.String),
                   "rank": pl.lit(None, pl.Int32), "logprob": pl.lit(None, pl.Float32)}  # fmt: skip
        first, *primed = (
            self.texts(items.filter(condition=condition), **correct, **own, **{name: name for name in tops})
            for condition in CONDITIONS
        )
        denied = self.texts(
            items.filter(pl.col(f"{NEGATED}query").is_not_null()),
            NEGATED,
            condition=pl.lit(NEGATION),
            failed=pl.col("overlap@1"),
            **nothing,
            **own,
            **{name: f"{NEGATED}{name}" for name in tops},
        )
        return pl.concat([first, denied, *primed])

    def again(self, draw: Draw) -> Iterator[Sample]:
        yield from super().again(draw)
        if (ranked := self.ranked_again(draw)) is not None:
            mask, pairs = draw.exported.mask_token, draw.some(self.items.drop_nulls("spearman"))
            names = [f"{row['item']} in {row['dataset']}" for row in pairs]
            texts = [tuple(row[f"{side}query"].replace(MASK, mask) for side in (QUERY, NEGATED)) for row in pairs]
            found = (row["spearman"] for row in pairs)
            yield Sample("correlations", [Correlated(*one, ranked) for one in zip(names, texts, found, strict=True)])

    def recounts(self) -> Iterator[Recount]:
        items = self.items
        yield from chances(items, "gold_logprob", [f"{side}top{{}}_logprob" for side in (QUERY, NEGATED)], TOP)
        metrics = {f"precision@{k}": pl.col("rank") <= k for k in CUTS}
        metrics["overlap@1"] = pl.col("overlap@1") & (pl.col("top1") == pl.col(f"{NEGATED}top1"))
        for metric, again in metrics.items():
            yield holds(f"{metric} follows from the ranks and the first choices", items, pl.col(metric) == again)
        yield holds("correlations are between -1 and 1", items, pl.col("spearman").abs() <= 1 + 1e-5)
        yield recounted_means(self.summary, items, METRICS)


@dataclass(frozen=True, eq=False)
class Lama(Asked[Fact]):
    """Query facts, their negations and misprimed copies (Kassner and Schütze 2020)."""

    name = "lama"
    title = "Negated and misprimed LAMA"
    asks = (
        "Facts are asked for with a missing word, then with a negation, then after a misleading word. Does "
        "the answer change?"
    )
    references = "negengine.engine.experiments.lama:references.toml"
    example = "negengine lama mini --corpus GoogleRE"
    results = LamaRun
    unit = "facts"
    metrics = METRICS
    top = TOP
    needs_words = True

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
    vocabulary: Annotated[
        str,
        Option(
            "Tokens to rank: all, words, or a file with a word list.",
            metavar="all|words|FILE",
            is_file=True,
            words=tuple(Vocabulary),
        ),
    ] = Vocabulary.ALL.value
    with_p159: Annotated[bool, Option("Include relation P159, whose negation equals the affirmative sentence.")] = False

    @cached_property
    def facts(self) -> Facts:
        given = [self.data] if isinstance(self.data, str | Path) else self.data or ()
        paths = [find("negated-lama", Path(path)) for path in given] or [find("negated-lama")]
        return read_facts(paths, list(self.corpus))

    @cached_property
    def items(self) -> Sequence[Fact]:
        facts = self.facts.facts
        return [fact for fact in facts if self.with_p159 or (fact.corpus, fact.relation) != SAME_AS_AFFIRMATIVE]

    @property
    def excluded(self) -> Mapping[str, int]:
        fewer = len(self.facts.facts) - len(self.items)
        return {**self.facts.excluded, **({SAME: fewer} if fewer else {})}

    @cached_property
    def ranked(self) -> Ranked:
        return Ranked.of(self.vocabulary)

    @property
    def identity(self) -> dict[str, Any]:
        return {
            "data sha256": self.facts.sha256,
            "vocabulary": self.ranked.name,
            "vocabulary sha256": self.ranked.sha256,
            "with P159": self.with_p159,
        }

    def questions(self, item: Fact) -> list[Question]:
        return [Question(texts, (item.gold,)) for texts in asked(item).values()]

    def rows(self, items: Sequence[Fact], answers: Answers) -> pl.DataFrame:
        cells = ((fact, condition, texts) for fact in items for condition, texts in asked(fact).items())
        return pl.DataFrame([_row(*cell, answers) for cell in cells], schema=SCHEMA)

    @classmethod
    def items_in(cls, rows: pl.DataFrame) -> int:
        return rows.n_unique(["dataset", "item"])

    @classmethod
    def summarise(cls, items: pl.DataFrame) -> pl.DataFrame:
        primed = [
            Contrast(corpus, f"precision@{k}", (ORIGINAL, ALL), (condition, ALL))
            for corpus in items["dataset"].unique(maintain_order=True)
            for condition in sorted(set(items["condition"]) - {ORIGINAL})
            for k in CUTS
        ]
        rows = [*means(items, METRICS), *cluster_means(items, METRICS, BY_RELATION), *contrasts(items, primed)]
        return with_holm(frame(rows))

    @classmethod
    def publish(cls, parts: FinishedParts) -> Files:
        items = pl.concat([parts.rows.filter(pl.col("condition") == condition) for condition in CONDITIONS])
        used = items.select("dataset", "condition", "item", "splits", "cluster", *METRICS)
        return {ITEMS_FILE: items, SUMMARY_FILE: cls.summarise(used.collect(engine="streaming"))}

    @staticmethod
    def sections(run: LamaRun) -> list[Section]:
        negations, precision, examples = run.tables()
        said = (
            f"{row['dataset']}: the first token is the same in {100 * row['overlap@1']:.1f} % of {row['n']:,} facts."
            for row in negations.frame.filter(split=ALL).iter_rows(named=True)
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
            ),
            Section("What does the model answer?", tables=[examples], notes=run.remarks()),
        ]


def asked(fact: Fact) -> dict[str, tuple[str, ...]]:
    """What a fact is asked in each condition: a query, or a query and its negation."""
    original: tuple[str, ...] = (fact.affirmative,) if fact.negated is None else (fact.affirmative, fact.negated)
    return {ORIGINAL: original} | {f"misprimed-{kind}": (text,) for kind, text in fact.misprimed.items()}


def _row(fact: Fact, condition: str, texts: tuple[str, ...], answers: Answers) -> dict[str, Any]:
    place = answers.rows[texts]
    rank, logprob = answers.of_word(place, fact.gold)
    groups = published("lama")["trex"].items() if fact.corpus == Corpus.T_REX else ()  # 1-1, N-1 or N-M
    row = {
        "dataset": fact.corpus,
        "condition": condition,
        "item": fact.item,
        "splits": joined([ALL, fact.relation, *(group for group, own in groups if fact.relation in own)]),
        "cluster": fact.relation,
        **{f"precision@{k}": rank <= k for k in CUTS},
        "gold": fact.gold,
        "rank": rank,
        "gold_logprob": logprob,
    }
    for side, (prefix, text) in enumerate(zip((QUERY, NEGATED), texts, strict=False)):
        row |= {f"{prefix}query": text} | answers.tops(place, side, prefix)
    # A fact without a correlation has no overlap either, as in LAMA.
    if len(texts) == 2 and not np.isnan(correlation := answers.correlation[place]):
        row |= {"spearman": float(correlation), "overlap@1": row["top1"] == row[f"{NEGATED}top1"]}
    return row


def examples_table(items: pl.DataFrame, most: int = 6) -> Table:
    """Table 2: the most probable tokens of a few queries and of their negations."""
    denied = items.filter(pl.col(f"{NEGATED}query").is_not_null())
    chosen = denied.gather_every(max(1, len(denied) // most)).head(most).with_row_index("example", 1)
    names = ["query", *top_schema(TOP)]
    sides = [chosen.select(pl.col("example").cast(pl.Int64), **{name: f"{side}{name}" for name in names})
             for side in (QUERY, NEGATED)]  # fmt: skip
    said = [pl.format("{} ({})", f"top{i}", pl.col(f"top{i}_logprob").map_elements("{:.1f}".format, pl.String))
            for i in range(1, TOP + 1)]  # fmt: skip
    rows = pl.concat(sides).sort("example", maintain_order=True)
    rows = rows.with_columns(predictions=pl.concat_str(said, separator=", ", ignore_nulls=True))
    columns = [Column("query", "query"), Column("predictions", "top1")]
    return Table("Most probable tokens (log-probability)", rows, columns, "example", texts={"top1": "predictions"})
