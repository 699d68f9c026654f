"""Which of some candidates is the most probable one? `negengine choice`: options and results."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import polars as pl

from ...basics.errors import InputError
from ...basics.numerals import percent
from ...basics.printable import counted
from ...inference.exported import ExportedModel
from ...inference.spans import Encoder
from ...requests.items import ALL, ITEM, by_split
from ...requests.metrics import CANDIDATE, METRICS, RIGHT, SCORES
from ...requests.span import Span
from ...requests.summary import Cell, Row
from ...text.table import Table as UserTable
from ...text.table import TableLike
from ...views import Section, Table
from ..experiment import BOS, Option
from ..own_table import find_column, find_columns, needed_columns
from ..span_runs import ACCURACIES, CHANCE, JOINER, METHOD, WINDOWS, SpanRun, method_of
from ..table_requests import CLUSTERS, GROUPS, SKIP_BAD, TableRequested, column
from .choice_columns import Columns

_RIGHT = replace(ACCURACIES, name="choice", others={CHANCE: CHANCE})


@dataclass(frozen=True, eq=False)
class ChoiceRun(SpanRun):
    """A finished run; `items` has one row for each candidate, and for each that was scored without its context."""

    sentence_keys: ClassVar[Sequence[str]] = (*ITEM, "candidate")

    @property
    def conditions(self) -> dict[str, Any]:
        """Accuracies on the same items can be compared, whatever the scores are."""
        return {"data sha256": self.record.identity["data sha256"], **self.columns.to_json(), "alone": None}

    def tables(self) -> list[Table]:
        return [view.table(self) for view in self.rates("Choices: {model}", "items", "right candidate")]

    def remarks(self) -> list[str]:
        items, said = self.items, super().remarks()
        of_context = items.filter(CANDIDATE & pl.col("context").is_not_null())
        if len(of_context) and of_context["pmi"].null_count() and self.columns.alone:
            own = of_context.filter(pl.col("pmi").is_null()).select(ITEM).n_unique()
            said.append(
                f"pmi is not known for {counted(own, 'item')}: a candidate has other tokens without its context"
            )
        if self.is_causal and not self.span.bos and len(of_context) and not self.columns.alone:
            said.append("pmi is not computed: without its context nothing stands before a candidate; give --bos")
        return said

    def methods(self, test: str) -> str:
        n = self.items.filter(CANDIDATE).select(ITEM).n_unique()
        scored = f"We compared the candidates of {counted(n, 'item')} by their {self.told_score}"
        scored += f" ({test})" * bool(test and not self.is_causal)
        accuracy, chance = (self.told("choice", ALL, name, digits=3) for name in ("accuracy", CHANCE))
        return (
            f"{scored}. An item counts as correct where its right candidate is the most probable one; a tie does not. "
            f"Accuracy, as a fraction: {accuracy}; chance: {chance}.{self.columns.told}"
        )


@dataclass(frozen=True, eq=False)
class Choice(TableRequested):
    """Let a model choose among candidates, each behind its own context: by sum, per token, per byte, and pmi.

    The most probable candidate is the model's choice. Tables of XCOPA's, BMLAMA's and ARC's form are read as they are.
    """

    name = "choice"
    title = "Choices among candidates"
    asks = "Is the right candidate the most probable one?"
    references = "negengine.engine.experiments.likelihood:references.toml"
    example = "negengine choice mini questions.jsonl --candidates choices --answer label"
    results = ChoiceRun
    of_columns = Columns
    of_kind = Span
    scores: ClassVar[Mapping[str, pl.Expr]] = {
        **SCORES,
        "chance_of_item": pl.when(RIGHT).then(1 / CANDIDATE.sum().over(ITEM)),
    }
    metrics: ClassVar[Mapping[str, pl.Expr]] = METRICS
    written = ("comparable", "sum", "token", "byte", "pmi")
    also_read = ("chance_of_item",)

    data: Annotated[
        TableLike,
        Option(
            "CSV, TSV, JSON, Parquet or a spreadsheet; a folder of such files.", metavar="FILE", kind=str, is_file=True
        ),
    ]
    candidates: Annotated[
        str | Sequence[str],
        column(
            "The column with all candidates of a row, or with one (then --item, or repeat it) (default: candidates, "
            "choices or candidate).",
            kind=list[str],
        ),
    ] = ()
    context: Annotated[
        str | None,
        column("A column with what stands before the candidates (default: context, prefix or question; '' for none)."),
    ] = None
    item: Annotated[
        str | None,
        column(
            "If each candidate is a row: the column whose value the rows of an item share (default: a row is an item)."
        ),
    ] = None
    right: Annotated[
        str | None,
        column("If each candidate is a row: the column with yes for the right one, else no (default: right, correct)."),
    ] = None
    answer: Annotated[
        str | None,
        column(
            "The column that names the right one: label, text, letter or number (default: answer, label, answerKey)."
        ),
    ] = None
    counts_from: Annotated[
        int | None,
        Option("The number of the first candidate, 0 or 1 (default: as the table shows).", metavar="N", minimum=0),
    ] = None
    group: GROUPS = ()
    cluster: CLUSTERS = None
    method: METHOD = None
    joiner: JOINER = None
    no_pmi: Annotated[bool, Option("Do not score candidates without their contexts, which pmi needs.")] = False
    bos: Annotated[bool, BOS] = False
    windows: WINDOWS = False
    skip_bad: SKIP_BAD = False

    def kind(self, exported: ExportedModel) -> Span:
        return Span(method_of(exported, self.method), self.windows, self.bos, self.joiner)

    def columns_for(self, exported: ExportedModel, table: UserTable) -> Columns:
        """A candidate without its context has a score of its own only where something stands before it."""
        (alone,) = Encoder.of(exported, bos=self.bos).encode(["a"])
        scored = not exported.is_causal or alone.content.start > 0
        return self.columns(table, alone=scored and not self.no_pmi)

    def columns(self, table: UserTable, *, alone: bool = False) -> Columns:
        """The columns that are named, else those with the obvious names; `InputError`: options contradict."""
        obvious = ["candidate"] if self.item else ["candidates", "choices", "options"]
        by_row = ["right", "correct"] if self.item and self.answer is None else []
        lacking: list[Any] = [] if any(self.candidates) else [("--candidates", None, obvious)]
        if not (self.right or find_column(table, "--right", self.right, by_row)):
            lacking.append(("--answer", self.answer, ["answer", "label", "answerkey"]))
        found = needed_columns(table, *lacking)
        named = find_columns(table, "--candidates", self.candidates) or tuple(found[:1])
        item = find_column(table, "--item", self.item or None)
        right = find_column(table, "--right", self.right, by_row)
        if item and len(named) > 1:
            raise InputError("--item: each row has one candidate; name one column with --candidates")
        if right and not item:
            raise InputError("--right says it row by row: give --item COLUMN, whose value the rows of an item share")
        if right and self.answer:
            raise InputError("--right and --answer both name the right candidate: give one of them")
        if self.counts_from not in {None, 0, 1}:
            raise InputError(f"--counts-from {self.counts_from}: give 0 or 1")
        return Columns(
            **self.labels(table),
            item=item,
            candidates=named,
            context=find_column(table, "--context", self.context, ["context", "prefix", "question"]),
            right=right,
            answer=None if right else found[-1],
            alone=alone,
            joiner=self.joiner,
        ).named_in(table, self.counts_from)

    @classmethod
    def further(cls, rows: pl.DataFrame) -> Iterator[Row]:
        known = rows.drop_nulls(["chance_of_item", "accuracy"])
        means = by_split(known).group_by(Cell._fields, maintain_order=True)
        found = means.agg(pl.col("chance_of_item").mean(), n=pl.len())
        for *cell, chance, n in found.iter_rows():
            yield Row.of(Cell(*cell), CHANCE, chance, None, None, n)

    @staticmethod
    def sections(run: ChoiceRun) -> list[Section]:
        rows = {row["metric"]: row for row in run.summary.filter(pl.col("column").is_null()).to_dicts()}
        said = ["No item can be judged."]
        if "accuracy" in rows:
            own, chance = rows["accuracy"], 100 * rows[CHANCE]["value"]
            said = [
                f"The right candidate is the most probable one in {percent(own['value'])} % of {own['n']:,} items.",
                f"A model that guesses is right in {chance:.1f} %.",
            ]
        return [run.section("Is the right candidate the most probable one?", said, _RIGHT)]


choice = Choice.function()
