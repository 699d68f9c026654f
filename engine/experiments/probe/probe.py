"""What does a model say at the masks of a user's own sentences? `negengine probe`: options and results.

The model is right if a wanted target is its first choice, or an unwanted one is not; else nothing is right or wrong.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import polars as pl

from ...basics.choices import TargetMethod
from ...basics.errors import InputError, check_number, choice
from ...basics.printable import counted
from ...inference.audit import audit_sentences, audit_summary
from ...inference.exported import ExportedModel
from ...inference.free_text import MASK
from ...inference.words import refuse_undefined
from ...library.again import Draw, Question, Sample
from ...library.recount import LOGARITHM, Recount, holds
from ...library.sentences import CORRECT
from ...requests.items import ALL
from ...requests.summary import DIFFERENCE, HOLM, compared
from ...requests.vocabulary import Ranked, Vocabulary
from ...runs.record import mask_token
from ...text.table import Table as UserTable
from ...text.table import TableLike, find_column, needed_column
from ...text.word_marks import Mark, WordClass, WordMarks
from ...views import Table
from ..experiment import BOS, Option
from ..finished_run import OUTCOMES, descending, item_once
from ..own_table import COLUMNS, ROW, SKIPPED_FILE, TableExperiment, TableRun, find_columns
from .probe_items import DATASET, EXPECTED, RANK, TARGET_TOKENS, result_schema
from .probe_sentences import IS_TOP1, LOGPROB, TARGET_COLUMN, Columns, mask_faults, unwanted_rows
from .probe_stage import OwnStimuli
from .probe_views import sections as report_sections
from .probe_views import tables

_column = partial(Option, metavar="COLUMN")
_columns = partial(_column, kind=list[str])
MOST_TOP = 100
_ITEM = (ROW, TARGET_COLUMN)
# Metric → what a sentence says of its difference: name, scale, unit, digits.
_COMPARED: Mapping[str, tuple[str, float, str, int]] = {
    IS_TOP1: ("share of first choices", 100, " points", 1),
    LOGPROB: ("mean log-probability", 1, "", 2),
}


@dataclass(frozen=True, eq=False)
class ProbeRun(TableRun):
    """A finished run; `items` has each row of the table, once for each of its targets."""

    stage: ClassVar[str] = OwnStimuli.name
    clusters: ClassVar[str] = "clusters"
    how_to_judge: ClassVar[str] = "run probe with a column `wanted` (yes or no), or with --unwanted COLUMN=VALUE"
    condition_keys: ClassVar[Sequence[str]] = (
        *("data sha256", "sentence", "targets", "groups"),
        *("vocabulary", "vocabulary sha256", "method"),
    )

    @cached_property
    def columns(self) -> Columns:
        return Columns.from_json(self.record.metadata[COLUMNS])

    @cached_property
    def skipped(self) -> pl.DataFrame:
        """Columns row, line, reason, content; empty without `skip_bad`."""
        if SKIPPED_FILE not in self.record.files:
            return pl.DataFrame(schema={"row": pl.Int64, "line": pl.Int64, "reason": pl.String, "content": pl.String})
        return self.frame(SKIPPED_FILE)

    @property
    def conditions(self) -> dict[str, Any]:
        return {**super().conditions, "wanted": self.columns.wanted, "unwanted": self.columns.unwanted}

    @property
    def metrics(self) -> Sequence[str]:  # type: ignore[override]
        known = set(self.summary["metric"])  # nothing is right or wrong where the column `wanted` is empty
        return [metric for metric in self.columns.metrics if metric in known]

    @cached_property
    def groups_compared(self) -> dict[str, tuple[str, str]]:
        """Split of a difference → the two splits that it compares."""
        return compared(self.summary["split"], self.summary.filter(pl.col("metric") == LOGPROB)["split"])

    @cached_property
    def targets_compared(self) -> dict[str, tuple[str, str]]:
        """Condition of a difference → the two columns of targets that it compares."""
        return compared(self.summary["condition"], self.columns.targets)

    def tables(self) -> list[Table]:
        return tables(self)

    def remarks(self) -> list[str]:
        said, rows = audit_sentences(audit_summary(self.record.counts)), self.record.metadata["rows"]
        said = [*super().remarks(), *said]
        if self.skipped.is_empty():
            return said
        why = f"{self.folder / SKIPPED_FILE} has the reasons"
        return [f"{len(self.skipped):,} of {rows:,} rows were skipped; {why}", *said]

    @property
    def used(self) -> str:
        return f"targets of several tokens by {self.record.identity['method']}" if self._several else ""

    def methods(self, test: str) -> str:
        identity, rows = self.record.identity, self.items[ROW].n_unique()
        words = {"all": "all tokens", "words": "the tokens that are words"}
        listed = f"the {len(self.record.metadata['ranked words']):,} words of a list"
        told = "; ".join(
            f"{column}: {self.estimate(column, IS_TOP1, 100, ' %', 1)}, mean log-probability "
            f"{self.estimate(column, LOGPROB, 1, '', 2)}"
            for column in self.columns.targets
        )
        judged = "; ".join(
            f"{column}: {self.estimate(column, CORRECT, 100, ' %', 1)}"
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
            f"the mask among {words.get(str(identity['vocabulary']), listed)}"
            f"{', with the BOS token before each sentence' * self._bos}.{several} Share of sentences in which "
            f"the target is the first choice, with 95 % intervals: {told}.{right}{self.columns.told}"
        )

    def outcomes(self) -> pl.DataFrame:
        own = [name for name in self.columns.groups if name not in {*OUTCOMES, *self.metrics}]
        keys = {
            "dataset": pl.lit(DATASET),
            "condition": pl.col(TARGET_COLUMN),
            "item": pl.col(ROW).cast(pl.String),
        }
        return self.in_splits(self.items, self.columns, {name: name for name in self.metrics}, keys, own)

    def sentence_rows(self) -> pl.LazyFrame:
        """One row for each row of the table and target. A column named like one of the first ones is `table_NAME`."""
        items, sentence = self.items.lazy(), pl.col(self.columns.sentence)
        mask = mask_token(self.record.metadata, self.folder)
        results = {EXPECTED, LOGPROB, RANK, ROW, TARGET_COLUMN, "top1", "top1_logprob", self.columns.sentence}
        correct = pl.lit(None, pl.Boolean)
        if self.columns.is_wanted is not None:
            results, correct = {*results, CORRECT}, pl.col(CORRECT)
        others = [name for name in self.items.columns if name not in results]
        told = {
            "item": pl.col(ROW),
            "condition": pl.col(TARGET_COLUMN),
            "sentence": sentence.str.strip_chars().str.replace_all(MASK, mask, literal=True),
            "expected": pl.col(EXPECTED),
            "answer": pl.col("top1"),
            CORRECT: correct,
            "failed": ~correct,
            "rank": pl.col(RANK),
            "logprob": pl.col(LOGPROB),
            "answer_logprob": pl.col("top1_logprob"),
        }
        return items.select(**told, **{f"table_{name}" if name in told else name: pl.col(name) for name in others})

    @property
    def minimal_pairs(self) -> tuple[str, Sequence[str]]:
        names = self.sentence_rows().collect_schema().names()

        def named(column: str) -> str:
            return f"table_{column}" if f"table_{column}" in names else column

        item = named(self.columns.item) if self.columns.item else "item"
        return item, ("condition", *map(named, self.columns.groups))

    def recounts(self) -> Iterator[Recount]:
        items, behind = self.items, pl.col(LOGPROB) - pl.col("top1_logprob")
        yield item_once(items, _ITEM)
        first = (pl.col(RANK) >= 1) & (~pl.col(IS_TOP1) | (pl.col(RANK) == 1))
        yield holds("a target that is the first choice has rank 1", items, first, _ITEM)
        yield holds(
            "log-probabilities are at most 0, and the target's is that of the first choice where its rank is 1",
            items,
            (pl.col("top1_logprob") <= LOGARITHM)
            & pl.when(pl.col(RANK) == 1).then(behind.abs() <= LOGARITHM).otherwise(behind <= LOGARITHM),
            _ITEM,
        )
        tops = [name for name in items.columns if name.startswith("top") and name.endswith("_logprob")]
        yield from descending(items, tops, _ITEM)
        keys = {"dataset": pl.lit(DATASET), "condition": pl.col(TARGET_COLUMN)}
        yield self.means_again(items, self.columns, {name: name for name in self.metrics}, keys)

    def again(self, draw: Draw) -> Iterator[Sample]:
        """With the method `whole-word` each row is more than one decision."""
        rows, several = self.sentence_rows(), "targets of several tokens"
        draw = replace(draw, bos=self._bos)
        method = TargetMethod(self.record.identity["method"])
        if method is TargetMethod.WHOLE_WORD:
            marks = WordMarks.of(draw.tokenizer, draw.exported.vocab_size)
            yield Sample(several, [_whole_word(draw, row, marks) for row in draw.rows(rows)])
            return
        fills = method is not TargetMethod.ALL_MASKS
        words = [
            replace(draw.word_question(row, row[TARGET_TOKENS]), fills=fills)
            for row in draw.rows(rows.filter(pl.col(TARGET_TOKENS) > 1))
        ]
        single = [draw.question(row) for row in draw.rows(rows.filter(pl.col(TARGET_TOKENS) == 1))]
        ranked = Ranked(self.record.identity["vocabulary"], tuple(self.record.metadata["ranked words"]))
        if ranked.name != Vocabulary.ALL:
            own = ranked.ids(draw.tokenizer, draw.exported.vocab_size)
            others = np.setdiff1d(np.arange(draw.exported.vocab_size), own)
            single = [replace(question, unranked=(others,), among_ranked=True) for question in single]
        if words:
            yield Sample(several, words)
        if single or not words:
            yield Sample("items", single)

    @property
    def _bos(self) -> bool:
        return "bos" in self.record.identity

    @cached_property
    def _several(self) -> int:
        return int((self.items[TARGET_TOKENS] > 1).sum())

    @property
    def _compared(self) -> str:
        rows = self.summary.filter(pl.col("split").is_in(list(self.groups_compared)))
        values = {(row["condition"], row["split"], row["metric"]): row for row in rows.to_dicts()}
        found, note = [], ""
        for target, split in dict.fromkeys(key[:2] for key in values):
            of_target = f" of {target}" if len(self.columns.targets) > 1 else ""
            for metric, (what, scale, unit, digits) in _COMPARED.items():
                name = f"{DIFFERENCE}:{metric}"
                difference = self.estimate(target, name, scale, unit, digits, split)
                said = f"{' − '.join(self.groups_compared[split])}{of_target}, {what}: {difference}"
                if tested := values.get((target, split, f"{HOLM}:{metric}")):
                    p = tested["value"]
                    said += f", p {'< 0.001' if p < 0.001 else f'= {p:.2g}'}"
                    note = f", and p of a test by sign flips, corrected by Holm's method for {tested['tests']:,} tests"
                found.append(f"{said} (n = {values[target, split, name]['n']:,})")
        return f". Differences between groups, with 95 % intervals{note}: {'; '.join(found)}" if found else ""

    def estimate(self, target: str, metric: str, scale: float, unit: str, digits: int, split: str = ALL) -> str:
        row: Mapping[str, Any] = self.summary.row(
            by_predicate=(pl.col("condition") == target) & (pl.col("split") == split) & (pl.col("metric") == metric),
            named=True,
        )
        ends = [row["low"], row["high"]]
        interval = f" [{', '.join(f'{scale * end:.{digits}f}' for end in ends)}]" if None not in ends else ""
        return f"{scale * row['value']:.{digits}f}{unit}{interval}"


def _whole_word(draw: Draw, row: Mapping[str, Any], marks: WordMarks) -> Question:
    """A token competes only with those that can stand there, and the end of the word counts where it is a choice."""
    question = draw.word_question(row, row[TARGET_TOKENS])
    unranked = []
    for query, [token] in enumerate(question.tokens):
        own = marks.classes[token]
        if not draw.exported.is_causal:
            competes = marks.classes == own
        elif query or marks.mark is Mark.END:
            competes = np.ones(len(marks.classes), np.bool_)
        else:
            competes = marks.unmarked if own == WordClass.CONTINUES else marks.breaks
        unranked.append(np.flatnonzero(~competes))
    has_end = draw.exported.is_causal and marks.mark is not Mark.END
    return replace(question, unranked=tuple(unranked), among_ranked=True, ends=marks.breaks if has_end else None)


@dataclass(frozen=True, eq=False)
class OwnSentences(TableExperiment):
    """Ask about your own sentences: probability and rank of target words, by group."""

    name = "probe"
    title = "Own stimuli"
    asks = "How probable are the target words at the mask, and does this differ between the groups?"
    references = "negengine.engine.experiments.probe:references.toml"
    example = "negengine probe mini sentences.csv --group condition"
    results = ProbeRun
    stages = (OwnStimuli,)

    data: Annotated[
        TableLike,
        Option(
            "A table with your sentences: CSV, TSV, JSON, Parquet or a spreadsheet.",
            metavar="FILE",
            kind=Path,
            is_file=True,
        ),
    ]
    sentence: Annotated[str | None, _column("The column with the sentences, one [MASK] each (default: sentence).")] = (
        None
    )
    target: Annotated[
        str | Sequence[str], _columns("A column with words for the mask (default: target); may be repeated.")
    ] = ()
    group: Annotated[
        str | Sequence[str],
        _columns("A column with conditions to compare (default: group; '' for none); may be repeated."),
    ] = ()
    cluster: Annotated[
        str | None, _column("A column with the same value in rows that depend on each other (default: cluster).")
    ] = None
    item: Annotated[
        str | None, _column("A column with the same value in the rows of a minimal pair (default: item or pair).")
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
        int, Option("How many of the model's first choices to keep for each sentence.", metavar="N", minimum=1)
    ] = 1
    targets: Annotated[
        str,
        Option(
            "The tokens that are ranked: all tokens, all words, or those in a file with one word per line.",
            metavar="all|words|FILE",
            is_file=True,
            words=tuple(Vocabulary),
        ),
    ] = Vocabulary.ALL.value
    method: Annotated[str, Option("How targets of several tokens get their log-probability.", kind=TargetMethod)] = (
        TargetMethod.LEFT_TO_RIGHT
    )
    bos: Annotated[bool, BOS] = False
    skip_bad: Annotated[bool, Option("Skip rows that cannot be used, and list them with the reason.")] = False

    def stage(self, exported: ExportedModel) -> OwnStimuli:
        check_number("--top", self.top, 1, MOST_TOP)
        kind = choice(TargetMethod, "--method", self.method)
        ranked = Ranked.of(str(self.targets), "--targets")
        if kind is TargetMethod.WHOLE_WORD and (ranked.name != Vocabulary.ALL or self.top > 1):
            raise InputError(
                f"--method {kind} ranks the tokens that can stand in a word: give it without --targets and --top"
            )
        refuse_undefined(kind, causal=exported.is_causal)
        exported.tokenizer_with(bos=self.bos)  # refuses a model that cannot
        table = self.open(self.data, [ROW, *result_schema(self.top)])
        columns = self.columns(table)
        if len(table.files) > 1:
            raise InputError(f"{self.data}: a folder of {len(table.files)} tables; give one of them")

        def check(frame: pl.DataFrame) -> pl.Series:
            return frame.select(mask_faults(columns, exported.mask_token)).to_series()

        stimuli, labels = self.scan(table, columns, check)
        columns.refuse_unknown(table.name, labels)
        labels.read.extend(ranked.left_out(exported.tokenizer))
        asked = (exported, stimuli, columns, ranked, self.top, kind)
        stage = OwnStimuli(*asked, bos=self.bos, skip_bad=self.skip_bad, told=labels.told())
        if kind is TargetMethod.WHOLE_WORD:
            stage.marks  # noqa: B018 - refuses a vocabulary without marks
        return stage

    def columns(self, table: UserTable) -> Columns:
        """The columns that are named, else those with the obvious names; an `InputError` if one is missing."""
        targets = find_columns(table, "--target", self.target) or (needed_column(table, "--target", None, ["target"]),)
        wanted = find_column(table, "--unwanted", "" if self.unwanted == "" else None, ["wanted"])
        if self.unwanted:
            column, _ = unwanted_rows(self.unwanted)
            if column != TARGET_COLUMN:
                find_column(table, "--unwanted", column)
            if wanted not in {None, column}:
                raise InputError(
                    f"--unwanted {self.unwanted}: the column {wanted!r} of {table.name} also says which targets are "
                    "wanted; leave out --unwanted, or rename the column"
                )
            wanted = None
        return Columns(
            needed_column(table, "--sentence", self.sentence, ["sentence"]),
            targets,
            wanted=wanted,
            unwanted=self.unwanted or None,
            groups=find_columns(table, "--group", self.group, ["group"]),
            cluster=find_column(table, "--cluster", self.cluster, ["cluster"]),
            item=find_column(table, "--item", self.item, ["item", "pair"]),
        )

    sections = staticmethod(report_sections)


probe = OwnSentences.function()
