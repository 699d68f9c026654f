"""The sentences of a run with the model's answers (see `negengine.engine.library.sentences`).

An item fails if its target is not the first choice.
"""

import polars as pl

from ...inference.free_text import MASK
from ...library.sentences import CORRECT
from .columns import EXPECTED, IS_TOP1, LOGPROB, RANK, ROW, TARGET_COLUMN, Columns

_NAMES = {"item", "condition", "sentence", "expected", "answer", CORRECT, "failed", "rank", "logprob", "answer_logprob"}


def sentence_rows(items: pl.LazyFrame, columns: Columns, mask: str) -> pl.LazyFrame:
    """One row for each row of the table and target.

    Args:
        items: The content of items.parquet.
        columns: The table's columns.
        mask: The model's mask token.

    Returns:
        item (number of the row), condition (the column of the target), sentence, expected, answer, correct, failed,
        rank, logprob, answer_logprob (natural logarithms), then the other columns of items.parquet. A column of the
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
