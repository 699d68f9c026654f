"""Does a model tell a query from its negation? Tables 1 and 2 of Kassner and Schütze (2020), `negengine lama`.

Every fact is queried in affirmative form, negated, and after a misleading word. As in LAMA, a fact does not count if
its gold answer is not one token of the model, or not among the ranked tokens. P159 does not count either: its negation
is the affirmative sentence itself, so overlap and correlation are 1 for every model. For a causal model a fact counts
if all its queries end in the answer.

The metrics are over the ranked tokens, as in LAMA's `lama/evaluation_metrics.py`:

    spearman      rank correlation between the scores of the query and of its negation
    overlap@1     whether the same token is first in both
    precision@k   whether the gold answer is among the first k (affirmative and misprimed queries)

summary.parquet: `dataset` is the corpus, `split` all, a relation, or 1-1, N-1, N-M for T-REx; a metric is the mean over
facts, with `-by-relation` the mean over the relations' means.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar

import polars as pl

from ...library.again import Draw, Sample
from ...library.recount import Recount, holds
from ...library.sentences import CORRECT
from ...runs.stage import Files, FinishedParts
from ...views import Column, Figure, Section, Table
from ...views.charts import Points
from ..ask import Answers, Asked, Question
from ..data_sets.misprimed import MISPRIMES
from ..data_sets.sources import find
from ..experiment import Option
from ..finished_run import AskedRun, chances
from ..finished_run import means as recounted_means
from ..items import ALL, ITEM_SCHEMA, ITEMS_FILE, ORIGINAL, SUMMARY_FILE, joined
from ..published import NEGATED_LAMA, column, published, trex_group
from ..summary import Contrast, cluster_means, contrasts, frame, means, with_holm
from ..vocabulary import Ranked, Vocabulary
from .again import correlations, queries, ranked_ids
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


def _query_schema(prefix: str) -> dict[str, Any]:
    tops = ((f"{prefix}top{i}", f"{prefix}top{i}_logprob") for i in range(1, TOP + 1))
    return {f"{prefix}query": pl.String} | {name: kind for text, chance in tops for name, kind in
                                            ((text, pl.String), (chance, pl.Float32))}  # fmt: skip


SCHEMA: Mapping[str, Any] = {
    **ITEM_SCHEMA,
    "spearman": pl.Float64,
    "overlap@1": pl.Boolean,
    **{f"precision@{k}": pl.Boolean for k in CUTS},
    "gold": pl.String,
    "rank": pl.Int32,
    "gold_logprob": pl.Float32,
    **_query_schema(QUERY),
    **_query_schema(NEGATED),
}


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
        return [negation_table(self), precision_table(self), examples_table(self.items)]

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

        An affirmative or misprimed query fails if its first answer is not the gold one. No word is expected in a
        negation: it fails if its first answer is that of the affirmative query.
        """
        items, correct, nothing = self.items.lazy(), pl.col("precision@1"), pl.lit(None, pl.String)
        queries = {
            CORRECT: correct, "failed": ~correct, "rank": pl.col("rank"), "logprob": pl.col("gold_logprob"),
        }  # fmt: skip
        negations = {
            CORRECT: pl.lit(None, pl.Boolean), "failed": pl.col("overlap@1"), "rank": pl.lit(None, pl.Int32),
            "logprob": pl.lit(None, pl.Float32),
        }  # fmt: skip

        def rows(condition: str) -> pl.LazyFrame:
            negated = condition == NEGATION
            asked = pl.col(f"{NEGATED}query").is_not_null() if negated else pl.col("condition") == condition
            prefix = NEGATED if negated else QUERY
            return items.filter(asked).select(
                item="item",
                condition=pl.lit(condition),
                sentence=self.masked(f"{prefix}query"),
                expected=nothing if negated else "gold",
                answer=f"{prefix}top1",
                **(negations if negated else queries),
                answer_logprob=f"{prefix}top1_logprob",
                dataset="dataset",
                relation="cluster",
                splits="splits",
                gold="gold",
                **{f"top{i}{what}": f"{prefix}top{i}{what}" for i in range(2, TOP + 1) for what in ("", "_logprob")},
            )

        return pl.concat([rows(condition) for condition in (CONDITIONS[0], NEGATION, *CONDITIONS[1:])])

    def again(self, draw: Draw) -> Iterator[Sample]:
        ranked = ranked_ids(draw, self.record)
        yield Sample("items", list(queries(draw, self.sentence_rows(), ranked)))
        if ranked is not None:
            yield correlations(draw, self.items, ranked)

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
        given = [self.data] if isinstance(self.data, str | Path) else self.data
        paths = [find("negated-lama", Path(path)) for path in given] if given else [find("negated-lama")]
        return read_facts(paths, [self.corpus] if isinstance(self.corpus, str) else self.corpus)

    @cached_property
    def items(self) -> Sequence[Fact]:
        """The facts, without P159 unless it is asked for."""
        return [
            fact for fact in self.facts.facts if self.with_p159 or (fact.corpus, fact.relation) != SAME_AS_AFFIRMATIVE
        ]

    @property
    def excluded(self) -> Mapping[str, int]:
        """Why rows of the files are not asked about → how many; P159 is one of the reasons."""
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

    def location(self, item: Fact) -> str:
        return item.location

    def questions(self, item: Fact) -> list[Question]:
        return [Question(texts, (item.gold,)) for texts in asked(item).values()]

    def rows(self, items: Sequence[Fact], answers: Answers) -> pl.DataFrame:
        """One row for each fact in each condition, condition by condition."""
        cells = [(fact, condition, texts) for fact in items for condition, texts in asked(fact).items()]
        cells.sort(key=lambda cell: CONDITIONS.index(cell[1]))
        facts, questions = [fact for fact, _, _ in cells], [texts for _, _, texts in cells]
        words = answers.places(questions, [fact.gold for fact in facts])
        rank = answers.rank[words]
        columns: dict[str, Any] = {
            "dataset": [fact.corpus for fact in facts],
            "condition": [condition for _, condition, _ in cells],
            "item": [fact.item for fact in facts],
            "splits": [joined([ALL, fact.relation, *trex_group(fact.corpus, fact.relation)]) for fact in facts],
            "cluster": [fact.relation for fact in facts],
            **{f"precision@{k}": rank <= k for k in CUTS},
            "gold": [fact.gold for fact in facts],
            "rank": rank,
            "gold_logprob": answers.logprob[words],
            "query": [texts[0] for texts in questions],
            **answers.tops(questions, 0),
        }
        pairs = [row for row, texts in enumerate(questions) if len(texts) == 2]
        denied = [questions[row] for row in pairs]
        correlation = answers.correlation[[answers.rows[texts] for texts in denied]]
        negated = pl.DataFrame(
            {
                "row": pairs,
                "spearman": pl.Series(correlation, dtype=pl.Float64).fill_nan(None),
                f"{NEGATED}query": pl.Series([texts[1] for texts in denied], dtype=pl.String),
                **(answers.tops(denied, 1, NEGATED) if denied else {}),
            },
            schema_overrides={"row": pl.UInt32},
        )
        rows = pl.DataFrame(columns).with_row_index("row").join(negated, on="row", how="left", maintain_order="left")
        rows = pl.concat(
            [
                pl.DataFrame(schema={**SCHEMA, "row": pl.UInt32}),
                rows.cast({name: kind for name, kind in SCHEMA.items() if name in rows.columns}),
            ],
            how="diagonal",
        )
        # A fact without a correlation has no overlap either, as in LAMA.
        overlap = pl.when(pl.col("spearman").is_not_null()).then(pl.col("top1") == pl.col(f"{NEGATED}top1"))
        return rows.with_columns(overlap.alias("overlap@1")).select(*SCHEMA)

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
        """items.parquet, condition by condition, and summary.parquet."""
        items = pl.concat([parts.rows.filter(pl.col("condition") == condition) for condition in CONDITIONS])
        used = items.select("dataset", "condition", "item", "splits", "cluster", *METRICS)
        return {ITEMS_FILE: items, SUMMARY_FILE: cls.summarise(used.collect(engine="streaming"))}

    @staticmethod
    def sections(run: LamaRun) -> list[Section]:
        """Negations, then misleading words, then a few queries."""
        negation, precision, answers = run.tables()
        overlap = run.values(ORIGINAL, "overlap@1", split=ALL)
        primed = run.summary["condition"].str.starts_with("misprimed").any()
        return [
            Section(
                "Does a negation change the prediction?",
                [
                    (
                        "A high correlation and overlap mean that the model answers a sentence and its negation alike: "
                        "it ignores the negation."
                    ),
                    *(
                        f"{row['dataset']}: the first token is the same in {100 * row['value']:.1f} % of {row['n']:,} "
                        "facts."
                        for row in overlap.iter_rows(named=True)
                    ),
                ],
                figures=[
                    alike_figure(run, negation, "spearman", "correlation", "rank correlation × 100"),
                    alike_figure(run, negation, "overlap@1", "overlap", "same first token (%)"),
                ],
                tables=[negation],
            ),
            Section(
                "Do misleading words change the prediction?",
                [
                    "A misprimed query begins with a misleading word, such as “Talk? Birds can [MASK]”."
                    if primed
                    else "This run has no queries with misleading words."
                ],
                figures=[precision_figure(run, precision)],
            ),
            Section("What does the model answer?", tables=[answers], notes=run.remarks()),
        ]


def asked(fact: Fact) -> dict[str, tuple[str, ...]]:
    """What a fact is asked in each condition: a query, or a query and its negation."""
    original: tuple[str, ...] = (fact.affirmative,) if fact.negated is None else (fact.affirmative, fact.negated)
    return {ORIGINAL: original} | {f"misprimed-{kind}": (text,) for kind, text in fact.misprimed.items()}


def negation_table(run: LamaRun) -> Table:
    """Table 1: rank correlation and overlap between queries and their negations, beside the paper's."""
    name = column(NEGATED_LAMA, run.model_name)
    paper = {(row["corpus"], row["split"]): row[name] for row in published(NEGATED_LAMA)["rows"]} if name else {}
    two_sided = ("spearman", "overlap@1")
    figures = [f"{metric}{suffix}" for metric in two_sided for suffix in ("", BY_RELATION)]
    rows = _without_relations(
        run.values(ORIGINAL, *figures).pivot("metric", index=["dataset", "split"], values="value")
    )
    counts = run.values(ORIGINAL, two_sided[0]).select("dataset", "split", facts="n")
    rows = counts.join(rows, on=["dataset", "split"], how="inner", maintain_order="left")
    rows = rows.rename({"dataset": "corpus"}).with_columns(
        pl.lit(None, pl.Float64).alias(name) for name in figures if name not in rows.columns
    )
    theirs = {"spearman": "paper: correlation", "overlap": "paper: overlap"} if paper else {}
    keys = rows.select("corpus", "split").rows()
    rows = rows.select("corpus", "split", "facts", *figures).with_columns(
        pl.Series(f"published {metric}", [paper.get(key, {}).get(metric) for key in keys], pl.Float64) / 100
        for metric in theirs
    )
    columns = [
        *(Column(key, key) for key in ("corpus", "split", "facts")),
        *(
            _percent(heading, metric, beside=f"{metric}{BY_RELATION}")
            for heading, metric in zip(("rank correlation", "overlap@1"), two_sided, strict=True)
        ),
        *(_percent(heading, f"published {metric}") for metric, heading in theirs.items()),
    ]
    notes = ["means over facts, in brackets over relations"]
    notes += [f"paper: {'; '.join(published(NEGATED_LAMA)['doubts'])}"] if paper else []
    return Table(f"Queries and their negations: {run.model_name} (%)", rows, columns, notes=notes)


def _without_relations(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows without the single relations of a corpus with more than eight splits."""
    is_large, is_relation = pl.col("split").n_unique().over("dataset") > 8, pl.col("split").str.contains(r"^P\d+$")
    return rows.filter(~(is_large & is_relation))


def precision_table(run: LamaRun) -> Table:
    """Precision of the affirmative and of the misprimed queries."""
    metrics = [f"precision@{k}" for k in CUTS]
    keys = ["dataset", "condition", "n"]
    found = run.summary.filter(pl.col("metric").is_in(metrics) & (pl.col("split") == ALL))
    rows = found.pivot("metric", index=keys, values="value").rename({"dataset": "corpus", "condition": "queries"})
    columns = [*(Column(key, key) for key in ("corpus", "queries", "n")),
               *(_percent(f"@{k}", metric) for k, metric in zip(CUTS, metrics, strict=True))]  # fmt: skip
    return Table(f"Precision: {run.model_name} (%)", rows, columns)


def examples_table(items: pl.DataFrame, most: int = 6) -> Table:
    """Table 2: the most probable tokens of a few queries and of their negations."""
    denied = items.filter(pl.col(f"{NEGATED}query").is_not_null())
    chosen = denied.gather_every(max(1, len(denied) // most)).head(most).with_row_index("example", 1)
    names = ["query", *(f"top{i}{what}" for i in range(1, TOP + 1) for what in ("", "_logprob"))]
    sides = [
        chosen.select(pl.col("example").cast(pl.Int64), **{name: f"{prefix}{name}" for name in names})
        for prefix in (QUERY, NEGATED)
    ]
    said = [pl.format("{} ({})", f"top{i}", pl.col(f"top{i}_logprob").map_elements("{:.1f}".format, pl.String))
            for i in range(1, TOP + 1)]  # fmt: skip
    rows = pl.concat(sides).sort("example", maintain_order=True)
    rows = rows.with_columns(predictions=pl.concat_str(said, separator=", ", ignore_nulls=True))
    return Table(
        "Most probable tokens (log-probability)",
        rows,
        [Column("query", "query"), Column("predictions", "top1")],
        section="example",
        texts={"top1": "predictions"},
    )


def alike_figure(run: LamaRun, table: Table, metric: str, what: str, title: str) -> Figure:
    """A metric of queries and their negations, by corpus and kind of relation, beside the paper's."""
    name = f"published {'overlap' if metric == 'overlap@1' else metric}"
    has_paper = name in table.frame.columns and not table.frame[name].is_null().all()
    paper = pl.col(name) if has_paper else pl.lit(None, pl.Float64)
    keys = table.frame.select("corpus", "split", published=paper * 100)
    found = run.values(ORIGINAL, metric).select(
        pl.col("dataset").alias("corpus"), "split", pl.col("value", "low", "high") * 100
    )
    own = keys.join(found, on=["corpus", "split"], how="inner", maintain_order="left")
    own = own.select("corpus", "split", "value", "low", "high", *(["published"] if has_paper else []))
    points = own.with_columns(source=pl.lit(run.model_name), name=pl.format("{}, {}", "corpus", "split"))
    if has_paper:
        theirs = points.with_columns(pl.lit("paper").alias("source"), value="published", low=None, high=None)
        points = pl.concat([points, theirs.drop_nulls("value")], how="vertical_relaxed")
    values = Table(
        f"{what.capitalize()}: {run.model_name}",
        own,
        [
            Column("corpus", "corpus"),
            Column("split", "split"),
            Column(what, "value", low="low", high="high", decimals=1, unit="%"),
            *([Column("paper", "published", decimals=1, unit="%")] if has_paper else []),
        ],
        notes=["means over facts"],
    )
    return Figure(
        what,
        Points(
            points, x="value", y="name", low="low", high="high", series="source" if has_paper else None, title=title
        ),
        values,
        f"A point for the {what} of queries and their negations in each corpus.",
        f"{what.capitalize()} of the predictions for a query and for its negation, with 95 % intervals.",
        joint=True,
    )


def precision_figure(run: LamaRun, table: Table) -> Figure:
    """Precision at 1 of the queries as they are and after misleading words."""
    found = run.summary.filter((pl.col("metric") == f"precision@{CUTS[0]}") & (pl.col("split") == ALL))
    intervals = found.select(pl.col("dataset").alias("corpus"), pl.col("condition").alias("queries"), "low", "high")
    rows = table.frame.join(intervals, on=["corpus", "queries"], how="left", maintain_order="left")
    columns = [*table.columns, Column("@1, 95 % interval", low="low", high="high", decimals=1, scale=100, unit="%")]
    points = found.with_columns(pl.col("value", "low", "high") * 100)
    return Figure(
        "precision",
        Points(points, x="value", y="condition", low="low", high="high", panel="dataset", title="precision@1 (%)"),
        Table(table.title, rows, columns),
        "A small chart for each corpus with a point for the precision of each kind of query.",
        "Share of the queries whose gold answer is the first token, with 95 % intervals.",
        wide=True,
        joint=True,
    )


def _percent(heading: str, value: str, beside: str | None = None) -> Column:
    return Column(heading, value, beside=beside, decimals=1, scale=100, unit="%")
