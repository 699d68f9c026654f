"""What a model answers about the rows of a table: the columns of items.parquet."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...inference.free_text import MASK
from ...inference.top import top_tokens
from ...sentences.tokenizer import MaskTokenizer
from ...stimuli import Rows
from .columns import EXPECTED, IS_TOP1, LOGPROB, RANK, REPEATS, ROW, SKIPPED, TARGET_COLUMN, Columns

Logits = NDArray[np.float32]
Ids = NDArray[np.int32]
SKIPPED_FILE = "skipped.parquet"
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, eq=False)
class Answers:
    """What a model answers about n rows with t targets each, in m sentences.

    Attributes:
        logprob: float32 [n, t], of each target: natural logarithms.
        rank: int32 [n, t], of each target, from 1.
        top: int32 [m, k], the first choices in each sentence.
        top_logprob: float32 [m, k].
    """

    logprob: Logits
    rank: Ids
    top: Ids
    top_logprob: Logits

    @classmethod
    def empty(cls, n: int, targets: int, sentences: int, top: int) -> "Answers":
        """Room for the answers; the values are undefined."""
        return cls(
            np.empty((n, targets), np.float32),
            np.empty((n, targets), np.int32),
            np.empty((sentences, top), np.int32),
            np.empty((sentences, top), np.float32),
        )

    def put(
        self,
        sentences: NDArray[np.int64],
        logits: Logits,
        rows: NDArray[np.int64],
        place: NDArray[np.int64],
        expected: Ids,
        ranked: Ids | None,
    ) -> None:
        """Judge a batch of sentences.

        Args:
            sentences: int64 [b], which sentences.
            logits: float32 [b, V], at their masks.
            rows: int64 [r], the rows with one of these sentences.
            place: int64 [r], the position of each row's sentence in the batch.
            expected: int32 [r, t], the tokens of their targets.
            ranked: int32, the tokens that are ranked; None for all.
        """
        kept = logits if ranked is None else logits[:, ranked]
        total = _log_sum_exp(kept)
        chosen = top_tokens(kept, self.top.shape[1])
        self.top[sentences] = chosen if ranked is None else ranked[chosen]
        self.top_logprob[sentences] = np.take_along_axis(kept, chosen, axis=1) - total[:, None]
        for target, tokens in enumerate(expected.T):
            own = logits[place, tokens]
            self.logprob[rows, target] = own - total[place]
            self.rank[rows, target] = 1 + (kept[place] > own[:, None]).sum(axis=1)


def item_rows(
    rows: Rows,
    columns: Columns,
    answers: Answers,
    sentence: NDArray[np.int64],
    texts: Sequence[str],
    expected: Ids,
    tokenizer: MaskTokenizer,
) -> pl.DataFrame:
    """The rows of items.parquet: each row of the table, once for each of its targets.

    Args:
        rows: The rows of the table.
        columns: Its columns.
        answers: What the model answers.
        sentence: int64 [n], the sentence of each row.
        texts: The sentences.
        expected: int32 [n, targets].
        tokenizer: The model's.
    """
    n, targets = expected.shape
    each = np.repeat(np.arange(n), targets)
    words = [rows.frame[column].str.strip_chars().to_list() for column in columns.targets]
    asked = [words[target][row] for row in range(n) for target in range(targets)]
    of_item = sentence[each]
    top = answers.top[of_item]
    further: dict[str, Any] = {}
    for i in range(top.shape[1]):
        further[f"top{i + 1}"] = _token_texts(top[:, i], tokenizer)
        further[f"top{i + 1}_logprob"] = answers.top_logprob[of_item, i]
    spelled = [_spelled(text) for text in texts]
    return pl.DataFrame({ROW: rows.numbers[each]}).with_columns(
        *rows.frame[each],
        pl.Series(TARGET_COLUMN, list(columns.targets) * n, pl.String),
        pl.Series(EXPECTED, asked, pl.String),
        pl.Series(LOGPROB, answers.logprob.reshape(-1)),
        pl.Series(RANK, answers.rank.reshape(-1)),
        pl.Series(IS_TOP1, top[:, 0] == expected.reshape(-1)),
        *(pl.Series(name, values) for name, values in further.items()),
        pl.Series(
            REPEATS,
            [_spelled(word) in spelled[own] for word, own in zip(asked, of_item.tolist(), strict=True)],
            pl.Boolean,
        ),
    )


def item_schema(schema: Mapping[str, pl.DataType], top: int, *, skip_bad: bool) -> dict[str, Any]:
    """The columns of a part's rows.

    Args:
        schema: Those of the table.
        top: How many first choices are kept.
        skip_bad: Whether skipped rows are among them.
    """
    tops = {f"top{i}{what}": kind for i in range(1, top + 1) for what, kind in _TOP.items()}
    skipped = dict(zip(SKIPPED, (pl.Int64, pl.String, pl.String), strict=True)) if skip_bad else {}
    return {
        ROW: pl.Int64,
        **schema,
        TARGET_COLUMN: pl.String,
        EXPECTED: pl.String,
        LOGPROB: pl.Float32,
        RANK: pl.Int32,
        IS_TOP1: pl.Boolean,
        **tops,
        REPEATS: pl.Boolean,
        **skipped,
    }


_TOP = {"": pl.String, "_logprob": pl.Float32}


def _token_texts(ids: Ids, tokenizer: MaskTokenizer) -> list[str]:
    tokens, which = np.unique(ids, return_inverse=True)
    texts = [tokenizer.token_text(token) for token in tokens.tolist()]
    return [texts[own] for own in which.reshape(-1).tolist()]


def _spelled(text: str) -> str:
    """The words of a text in small letters with a space around each; the mask stands for no word."""
    return " | ".join("".join(f" {word} " for word in _WORD.findall(part.casefold())) for part in text.split(MASK))


def _log_sum_exp(logits: Logits) -> NDArray[np.float64]:
    from scipy import special

    found: NDArray[np.float64] = special.logsumexp(logits.astype(np.float64), axis=1)
    return found
