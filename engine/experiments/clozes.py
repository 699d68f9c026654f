"""The plain form of an experiment: sentences with one mask, an expected word for each, and metrics of the answer.

items.parquet has the columns of `items`, those of `Clozes.schema`, and one a metric, evaluated from the others.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import polars as pl

from ..basics.atomic import sha256
from ..library.recount import Recount, holds
from ..requests.items import ALL, ITEM_SCHEMA, joined, top_schema
from ..views import Column, Section, Table
from .ask import Answers, Asked, Question
from .finished_run import AskedRun, chances
from .finished_run import means as recounted_means
from .view import Chart

_PLACE = pl.when(pl.col("split") == ALL).then("condition").otherwise(pl.format("{}, {}", "condition", "split"))


@dataclass(frozen=True)
class Cloze:
    """A sentence with one [MASK]."""

    dataset: str
    condition: str  # such as `affirmative` or `negated`
    item: str  # unique in its data set and condition; the same in conditions that are compared
    text: str
    expected: str | None = None  # the word whose rank is asked for; None if there is none
    splits: tuple[str, ...] = (ALL,)  # those that it counts in
    cluster: str | None = None  # what it shares with other items


class Clozes(Asked[Cloze]):
    """An experiment of clozes; a subclass is a frozen dataclass."""

    metrics: ClassVar[Mapping[str, pl.Expr]]  # expressions of the columns of items.parquet
    needs_words = True

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "results" not in vars(cls) and "name" in vars(cls):
            own: dict[str, Any] = {"stage": cls.name, "clusters": cls.clusters, "unit": cls.unit}
            own |= {"metrics": tuple(cls.metrics), "declared": cls, "__doc__": ClozesRun.__doc__}
            cls.results = type(f"{cls.__name__}Run", (ClozesRun,), own)

    @abstractmethod
    def clozes(self) -> Sequence[Cloze]: ...

    @cached_property
    def items(self) -> Sequence[Cloze]:
        return self.clozes()

    @property
    def identity(self) -> dict[str, Any]:
        return {"data sha256": sha256(repr(self.items).encode())}

    def questions(self, item: Cloze) -> list[Question]:
        return [Question((item.text,), () if item.expected is None else (item.expected,))]

    @classmethod
    def schema(cls) -> dict[str, Any]:
        return {
            **ITEM_SCHEMA, "query": pl.String, "expected": pl.String, **top_schema(cls.top), "rank": pl.Int32,
            "logprob": pl.Float32,
        }  # fmt: skip

    def rows(self, items: Sequence[Cloze], answers: Answers) -> pl.DataFrame:
        rows = []
        for item in items:
            number = answers.rows[item.text,]
            own = {name: getattr(item, name) for name in ("dataset", "condition", "item", "cluster", "expected")}
            own |= {"splits": joined(item.splits), "query": item.text, **answers.tops(number)}
            if item.expected is not None:
                own["rank"], own["logprob"] = answers.of_word(number, item.expected)
            rows.append(own)
        return pl.DataFrame(rows, self.schema()).with_columns(**self.metrics)

    @staticmethod
    def sections(run: "ClozesRun") -> list[Section]:
        charts = [
            Chart(metric, metric, metric, label=_PLACE, scale=1).figure(run, *run.tables()) for metric in run.metrics
        ]
        return [Section("Results", figures=charts, notes=run.remarks())]


@dataclass(frozen=True, eq=False)
class ClozesRun(AskedRun):
    """A finished run: `items` and `summary` are the content of its two files."""

    declared: ClassVar[type[Clozes]]

    def tables(self) -> list[Table]:
        keys = ["dataset", "condition", "split"]
        metric = ["metric"] * (len(self.metrics) > 1)
        shown = [Column(name, name) for name in (*keys, *metric)]
        value = Column("value", "value", low="low", high="high", decimals=3)
        title = f"{self.declared.title or self.stage}: {self.model_name}"
        notes = ["in brackets: 95 % intervals"]
        return [Table(title, self.summary.select(*keys, "metric", "value", "low", "high", "n"),
                      [*shown, value, Column("n", "n")], section="dataset", notes=notes)]  # fmt: skip

    def sentence_rows(self) -> pl.LazyFrame:
        """An item fails if the expected word is not the first choice."""
        own = ("dataset", "splits", "cluster", *self.metrics, *list(top_schema(self.declared.top))[2:])
        return self.texts(self.items.lazy(), **{name: name for name in own})

    def recounts(self) -> Iterator[Recount]:
        yield from chances(self.items, "logprob", ["top{}_logprob"], self.declared.top)
        for name, metric in self.declared.metrics.items():
            again = self.items.select(metric.alias(name))[name]
            yield holds(f"{name} follows from the answers", self.items, pl.col(name).eq_missing(again))
        yield recounted_means(self.summary, self.items, self.metrics)
