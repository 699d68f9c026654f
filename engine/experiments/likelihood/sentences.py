"""The sentences of a run with their likelihoods (see `negengine.engine.library.sentences`).

No word is expected, so there is no answer and no rank; `logprob` is the log-likelihood of the whole sentence. The good
sentence of a pair fails if it is not the more probable one.
"""

import polars as pl

from ...library.sentences import CORRECT
from ..probe.columns import ROW
from .columns import Columns
from .items import CORRECT as IS_CORRECT
from .items import FILE, LIKELIHOOD, SIDE
from .summary import SENTENCES


def item_name(names: list[str]) -> pl.Expr:
    """How an item is called: the number of its row, with its file where there are several.

    Args:
        names: The columns of the items.
    """
    row = pl.col(ROW).cast(pl.String)
    return pl.col(FILE) + pl.lit(":") + row if FILE in names else row


def sentence_of(columns: Columns) -> pl.Expr:
    """The text of an item."""
    texts = [pl.when(pl.col(SIDE) == side).then(name) for side, name in columns.by_side.items() if side is not None]
    return pl.coalesce(texts) if texts else pl.col(str(columns.sentence))


def sentence_rows(items: pl.LazyFrame, columns: Columns) -> pl.LazyFrame:
    """One row for each sentence.

    Args:
        items: The content of items.parquet.
        columns: What the columns of the user's table are for.

    Returns:
        item, condition (good, bad or sentences), sentence, expected, answer, correct, failed, rank, logprob, then
        tokens, per_token, per_word, per_character, and the columns of groups and clusters.
    """
    names = items.collect_schema().names()
    correct = pl.col(IS_CORRECT) if columns.has_pairs else pl.lit(None, pl.Boolean)
    kept = dict.fromkeys([*columns.groups, *filter(None, [columns.cluster])])
    return items.select(
        item=item_name(names),
        condition=pl.col(SIDE) if columns.has_pairs else pl.lit(SENTENCES),
        sentence=sentence_of(columns),
        expected=pl.lit(None, pl.String),
        answer=pl.lit(None, pl.String),
        **{CORRECT: correct},
        failed=~correct,
        rank=pl.lit(None, pl.Int32),
        logprob=LIKELIHOOD,
        **{name: name for name in ("tokens", "per_token", "per_word", "per_character")},
        **{name: pl.col(name) for name in kept if name not in _TAKEN},
    )


_TAKEN = ("item", "condition", "sentence", "expected", "answer", CORRECT, "failed", "rank", "logprob")
