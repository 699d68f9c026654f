"""A user's sentences with the model's answers, and what `verify` counts and asks again.

An item fails if its target is not the first choice.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from ...basics.choices import TargetMethod
from ...inference.free_text import MASK
from ...library.again import Draw, Question, Sample
from ...library.recount import LOGARITHM, Recount, holds, same_figures
from ...library.sentences import CORRECT
from ...text.word_marks import Mark, WordClass, WordMarks
from ..finished_run import descending, item_once
from ..vocabulary import Ranked, Vocabulary
from .probe_sentences import EXPECTED, IS_TOP1, LOGPROB, RANK, REPEATS, ROW, TARGET_COLUMN, TARGET_TOKENS, Columns

_NAMES = {"item", "condition", "sentence", "expected", "answer", CORRECT, "failed", "rank", "logprob", "answer_logprob"}


def sentence_rows(items: pl.LazyFrame, columns: Columns, mask: str) -> pl.LazyFrame:
    """One row for each row of the table and target.

    The columns are item (number of the row), condition (the column of the target), sentence, expected, answer, correct,
    failed, rank, logprob, answer_logprob (natural logarithms), then the other columns of items.parquet. A column of the
    table that has one of these names is called `table_NAME`.
    """
    results = {EXPECTED, LOGPROB, RANK, ROW, TARGET_COLUMN, IS_TOP1, "top1", "top1_logprob", columns.sentence}
    others = [name for name in items.collect_schema().names() if name not in results]
    return items.select(
        item=ROW,
        condition=TARGET_COLUMN,
        sentence=pl.col(columns.sentence).str.strip_chars().str.replace_all(MASK, mask, literal=True),
        expected=EXPECTED,
        answer="top1",
        **{CORRECT: pl.col(IS_TOP1)},
        failed=~pl.col(IS_TOP1),
        rank=RANK,
        logprob=LOGPROB,
        answer_logprob="top1_logprob",
        **{f"table_{name}" if name in _NAMES else name: pl.col(name) for name in others},
    )


_ITEM = (ROW, TARGET_COLUMN)
_METRICS = (IS_TOP1, LOGPROB, REPEATS)
_CELL = ("condition", "split", "metric")


def recounts(items: pl.DataFrame, summary: pl.DataFrame, columns: Columns) -> Iterator[Recount]:
    """What must hold of a finished run."""
    yield item_once(items, _ITEM)
    yield holds(
        "a target that is the first choice has rank 1",
        items,
        (pl.col(RANK) >= 1) & (~pl.col(IS_TOP1) | (pl.col(RANK) == 1)),
        _ITEM,
    )
    behind = pl.col(LOGPROB) - pl.col("top1_logprob")
    yield holds(
        "log-probabilities are at most 0, and the target's is that of the first choice where its rank is 1",
        items,
        (pl.col("top1_logprob") <= LOGARITHM)
        & pl.when(pl.col(RANK) == 1).then(behind.abs() <= LOGARITHM).otherwise(behind <= LOGARITHM),
        _ITEM,
    )
    tops = [name for name in items.columns if name.startswith("top") and name.endswith("_logprob")]
    yield from descending(items, tops, _ITEM)
    yield _means(items, summary, columns)


def _means(items: pl.DataFrame, summary: pl.DataFrame, columns: Columns) -> Recount:
    groups = [pl.format(f"{column}={{}}", pl.col(column).cast(pl.String)) for column in columns.groups]
    split = pl.concat_list(pl.lit("all"), *groups) if groups else pl.concat_list(pl.lit("all"))
    counted = (
        items.select(pl.col(TARGET_COLUMN).alias("condition"), pl.col(*_METRICS).cast(pl.Float64), split.alias("split"))
        .explode("split")
        .drop_nulls("split")
        .unpivot(_METRICS, index=_CELL[:2], variable_name="metric")
    )
    wanted = counted.group_by(_CELL).agg(value=pl.col("value").mean(), n=pl.len().cast(pl.Int64))
    found = summary.filter(pl.col("metric").is_in(_METRICS))
    return same_figures("the figures of summary.parquet are the means of the items", found, wanted, _CELL)


SEVERAL = "targets of several tokens"


def samples(draw: Draw, rows: pl.LazyFrame, method: TargetMethod, ranked: Ranked) -> Iterator[Sample]:
    """Rows of `sentence_rows`. With the method `whole-word` each row is more than one decision.

    Raises:
        InputError: The method is `whole-word`, and the vocabulary does not mark words.
    """
    if method is TargetMethod.WHOLE_WORD:
        marks = WordMarks.of(draw.tokenizer, draw.exported.vocab_size)
        yield Sample(SEVERAL, [_whole_word(draw, row, marks) for row in draw.rows(rows)])
        return
    fills = method is not TargetMethod.ALL_MASKS
    several = [
        replace(draw.word_question(row, row[TARGET_TOKENS]), fills=fills)
        for row in draw.rows(rows.filter(pl.col(TARGET_TOKENS) > 1))
    ]
    single = [draw.question(row) for row in draw.rows(rows.filter(pl.col(TARGET_TOKENS) == 1))]
    if ranked.name != Vocabulary.ALL:
        own = ranked.ids(draw.tokenizer, draw.exported.vocab_size)
        others = np.setdiff1d(np.arange(draw.exported.vocab_size), own)
        single = [replace(question, unranked=(others,), among_ranked=True) for question in single]
    if several:
        yield Sample(SEVERAL, several)
    if single or not several:
        yield Sample("items", single)


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
