"""What does a model say at the masks of a user's own sentences? `negengine probe`: options and results.

The model is right if a wanted target is its first choice, or an unwanted one is not; else nothing is right or wrong.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, cast

import polars as pl

from ...basics.choices import TargetMethod
from ...basics.errors import InputError, choice
from ...basics.numerals import fixed, interval, significant
from ...basics.printable import counted
from ...inference.exported import ExportedModel
from ...inference.words import refuse_undefined
from ...library.sentences import CORRECT
from ...requests.contrast import Contrast, between_conditions, between_groups
from ...requests.items import WHY
from ...requests.summary import COMPARES
from ...requests.vocabulary import RANKED_SAID, RANKED_WORDS, Ranked, Vocabulary
from ...requests.word import Word
from ...text.table import Check, TableLike
from ...text.table import Table as UserTable
from ...text.tokenizer import MaskTokenizer
from ...text.word_marks import WordMarks
from ...views import Table
from ..experiment import BOS, RANKED, Option
from ..finished_run import GROUP, OTHER
from ..own_table import (
    MOST_GROUPS,
    ROW,
    Labels,
    RequestColumns,
    find_column,
    find_columns,
    needed_columns,
)
from ..table_requests import CLUSTERS, GROUPS, SKIP_BAD, TableRequested, TableRun, column
from .probe_columns import (
    IS_TOP1,
    IS_WANTED,
    LOGPROB,
    PREFERRED,
    REPEATS,
    TARGET_COLUMN,
    TESTED,
    Columns,
    unwanted_rows,
)
from .probe_views import sections as report_sections
from .probe_views import tables

MOST_TOP = 100
TOKENS = "tokens"  # of a target
SEVERAL = "targets of several tokens"  # what a reference is for
# Metric → what a sentence says of its difference: name, scale, unit, digits.
_COMPARED: Mapping[str, tuple[str, float, str, int]] = {
    IS_TOP1: ("share of first choices", 100, " points", 1),
    LOGPROB: ("mean log-probability", 1, "", 2),
}


@dataclass(frozen=True, eq=False)
class ProbeRun(TableRun):
    """A finished run; `items` has each row of the table, once for each of its targets."""

    renamed: ClassVar[Mapping[str, str]] = {"condition": TARGET_COLUMN}
    how_to_judge: ClassVar[str] = "run probe with a column `wanted` (yes or no), or with --unwanted COLUMN=VALUE"
    condition_keys: ClassVar[Sequence[str]] = (
        *("data sha256", "sentence", "targets", "groups"),
        *("vocabulary", "vocabulary sha256", "method"),
    )

    @cached_property
    def asked(self) -> pl.DataFrame:
        """The items without the rows that were skipped."""
        return self.items.filter(pl.col(WHY).is_null())

    @property
    def conditions(self) -> dict[str, Any]:
        own = {key: self.record.identity[key] for key in self.condition_keys}
        judged = ("wanted", "unwanted", "unwanted_target")
        return {**own, **{name: getattr(self.columns, name) for name in judged}}

    @property
    def metrics(self) -> Sequence[str]:  # type: ignore[override]
        known = set(self.summary["metric"])  # nothing is right or wrong where the column `wanted` is empty
        return [metric for metric in OwnSentences.metrics if metric in known]

    def tables(self) -> list[Table]:
        return tables(self)

    def remarks(self) -> list[str]:
        said = super().remarks()
        if self._several:
            method = self.record.identity["method"]
            asked = f"{self._several:,} of {counted(len(self.asked), 'target')}"
            said.append(f"{asked} are of several tokens: their log-probability is the sum over the tokens, by {method}")
        return said

    @property
    def used(self) -> Collection[str]:
        return (str(self.record.identity["method"]), SEVERAL) if self._several else ()

    def methods(self, test: str) -> str:
        identity, rows = self.record.identity, self.asked[ROW].n_unique()
        listed = f"the {len(self.record.metadata[RANKED_WORDS]):,} words of a list"
        named = {column: f"{column}: " * (len(self.columns.targets) > 1) for column in self.columns.targets}
        told = "; ".join(
            f"{named[column]}{self.estimate(column, IS_TOP1, 100, ' %', 1)}, mean log-probability "
            f"{self.estimate(column, LOGPROB, 1, '', 2)}"
            for column in self.columns.targets
        )
        judged = "; ".join(
            f"{named[column]}{self.estimate(column, CORRECT, 100, ' %', 1)}"
            for column in self.columns.targets
            if CORRECT in self.metrics
        )
        said = "Share of right answers, where unwanted targets must not be the first choice"
        right = f" {said}: {judged}." if judged else ""
        several = (
            f" {self._several:,} targets of several tokens were scored by the {identity['method']} method ({test})."
            if self._several
            else ""
        )
        told += self._compared
        return (
            f"In {counted(rows, 'sentence')} of our own we compared the probability and the rank of target words at "
            f"the mask among {RANKED_SAID.get(str(identity['vocabulary']), listed)}"
            f"{', with the BOS token before each sentence' * ('bos' in identity)}.{several} Share of sentences in "
            f"which the target is the first choice: {told}.{right}{self.columns.told}"
        )

    @property
    def minimal_pairs(self) -> tuple[str, Sequence[str]]:
        return "pair" if self.columns.item else "item", ("condition", *self.grouped.values())

    @cached_property
    def _several(self) -> int:
        return int((self.items[TOKENS] > 1).sum())

    @property
    def _compared(self) -> str:
        found, note = [], ""
        rows = self.labelled.filter(
            COMPARES & pl.col("column").is_not_null() & (pl.col("condition") == pl.col("other_condition"))
        )
        sides = ("condition", "column", "split", "other_split")
        for row in rows.sort(pl.int_range(pl.len()).min().over(sides), maintain_order=True).to_dicts():
            of_target = f" of {row['condition']}" if len(self.columns.targets) > 1 else ""
            what, scale, unit, digits = _COMPARED[row["metric"]]
            said = f"{row[GROUP]} − {row[OTHER]}{of_target}, {what}: {_told(row, scale, unit, digits)}"
            if (p := row["p_holm"]) is not None:
                said += f", p {'< 0.001' if p < 0.001 else f'= {significant(p, 2)}'}"
                corrected = f", corrected by Holm's method for {row['tests']:,} tests" if row["tests"] > 1 else ""
                note = f", with p of a test by sign flips{corrected}"
            found.append(said)
        return f". Differences between groups{note}: {'; '.join(found)}" if found else ""

    def estimate(self, target: str, metric: str, scale: float, unit: str, digits: int) -> str:
        """A figure of all rows, for a sentence."""
        whole = ~COMPARES & pl.col("column").is_null()
        own = whole & (pl.col("condition") == target) & (pl.col("metric") == metric)
        return _told(self.summary.row(by_predicate=own, named=True), scale, unit, digits)


def _told(row: Mapping[str, Any], scale: float, unit: str, digits: int) -> str:
    limits = (-100, 0, 100) if scale == 100 else () if row["other_split"] is None else (0,)
    value, *ends = (
        None if own is None else fixed(scale * own, digits, limits) for own in (row["value"], row["low"], row["high"])
    )
    return f"{value}{unit}{interval(*ends)} (n = {row['n']:,})"


@dataclass(frozen=True, eq=False)
class OwnSentences(TableRequested):
    """Ask about your own sentences: probability and rank of target words, by group."""

    name = "probe"
    title = "Own stimuli"
    asks = "How probable are the target words at the mask, and does this differ between the groups?"
    references = "negengine.engine.experiments.probe:references.toml"
    example = "negengine probe mini sentences.csv --group condition"
    results = ProbeRun
    of_columns = Columns
    of_kind = Word
    unit = "rows"
    together = ("dataset", "item")
    also_read = (IS_WANTED,)
    metrics: ClassVar[Mapping[str, pl.Expr]] = {
        CORRECT: pl.col("first") == pl.col(IS_WANTED),
        IS_TOP1: pl.col("first"),
        LOGPROB: pl.col(LOGPROB),
        "repeats_word": pl.when(pl.col(WHY).is_null()).then(REPEATS),
    }
    shown: ClassVar[Mapping[str, pl.Expr]] = {CORRECT: pl.col(CORRECT)}

    data: Annotated[
        TableLike,
        Option(
            "A table with your sentences: CSV, TSV, JSON, Parquet or a spreadsheet.",
            metavar="FILE",
            kind=Path,
            is_file=True,
        ),
    ]
    sentence: Annotated[str | None, column("The column with the sentences, one [MASK] each (default: sentence).")] = (
        None
    )
    target: Annotated[
        str | Sequence[str],
        column("A column with words for the mask (default: target); may be repeated.", kind=list[str]),
    ] = ()
    group: GROUPS = ()
    cluster: CLUSTERS = None
    item: Annotated[
        str | None, column("A column with the same value in the rows of a minimal pair (default: item or pair).")
    ] = None
    unwanted: Annotated[
        str | None,
        Option(
            "The rows whose target is wrong there, such as group=negated; all others are right (default: the column "
            "wanted says it by yes and no, if there is one; else nothing is right or wrong).",
            metavar="COLUMN=VALUE",
        ),
    ] = None
    top: Annotated[
        int,
        Option("How many of the model's first choices to keep for each sentence.", "N", minimum=1, maximum=MOST_TOP),
    ] = 1
    targets: Annotated[str, RANKED] = Vocabulary.ALL.value
    method: Annotated[str, Option("How targets of several tokens get their log-probability.", kind=TargetMethod)] = (
        TargetMethod.LEFT_TO_RIGHT
    )
    bos: Annotated[bool, BOS] = False
    skip_bad: SKIP_BAD = False

    def kind(self, exported: ExportedModel) -> Word:
        method = choice(TargetMethod, "--method", self.method)
        if method is TargetMethod.WHOLE_WORD:
            if self.ranked.name != Vocabulary.ALL or self.top > 1:
                raise InputError(
                    f"--method {method} ranks the tokens that can stand in a word: give it without --targets and --top"
                )
            WordMarks.of(exported.tokenizer, exported.vocab_size)  # refuses a vocabulary without marks
        refuse_undefined(method, causal=exported.is_causal)
        exported.tokenizer_with(bos=self.bos)  # refuses a model that cannot
        return Word(self.top, self.ranked, among_ranked=True, method=method, bos=self.bos)

    @cached_property
    def ranked(self) -> Ranked:
        return Ranked.of(str(self.targets), "--targets")

    def columns_for(self, exported: ExportedModel, table: UserTable) -> Columns:
        return replace(self.columns(table), mask_token=exported.mask_token)

    def scan(
        self, table: UserTable, columns: RequestColumns, check: Check, tokenizer: MaskTokenizer
    ) -> tuple[UserTable, Labels]:
        stimuli, labels = super().scan(table, columns, check, tokenizer)
        cast("Columns", columns).refuse_unknown(table.name, labels)
        labels.read.extend(self.ranked.left_out(tokenizer))
        return stimuli, labels

    def metadata(self, exported: ExportedModel) -> dict[str, Any]:
        return {**super().metadata(exported), RANKED_WORDS: self.ranked.known(exported.tokenizer)}

    @classmethod
    def contrasts(cls, rows: pl.DataFrame) -> Iterator[Contrast]:
        """Groups are compared in the rows of one minimal pair, and targets in the same rows."""
        yield from between_groups(rows, TESTED, MOST_GROUPS)
        yield from between_conditions(rows, TESTED, {LOGPROB: PREFERRED})

    def columns(self, table: UserTable) -> Columns:
        """The columns that are named, else those with the obvious names; an `InputError` if one is missing."""
        if len(table.files) > 1:
            raise InputError(f"{self.data}: a folder of {len(table.files)} tables; give one of them")
        first = [] if any(self.target) else [("--target", None, ["target"])]
        sentence, *found = needed_columns(table, ("--sentence", self.sentence, ["sentence"]), *first)
        targets = find_columns(table, "--target", self.target)
        wanted = find_column(table, "--unwanted", "" if self.unwanted == "" else None, ["wanted"])
        judged: dict[str, Any] = {}
        if self.unwanted:
            column, value = unwanted_rows(self.unwanted, {*table.columns, TARGET_COLUMN})
            if column == TARGET_COLUMN not in table.columns:  # a user's own column of this name comes first
                judged = {"unwanted_target": value}
            else:
                find_column(table, "--unwanted", column)
                judged = {"unwanted": (column, value)}
            if wanted not in {None, column}:
                raise InputError(
                    f"--unwanted {self.unwanted}: the column {wanted!r} of {table.name} also says which targets are "
                    "wanted; leave out --unwanted, or rename the column"
                )
            wanted = None
        return Columns(
            sentence,
            targets or tuple(found),
            wanted=wanted,
            **judged,
            **self.labels(table),
            item=find_column(table, "--item", self.item, ["item", "pair"]),
        )

    sections = staticmethod(report_sections)


probe = OwnSentences.function()
