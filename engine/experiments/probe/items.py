"""What a model answers about the rows of a table: the columns of items.parquet."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...inference.free_text import MASK, top_tokens
from ...inference.words import WordScores
from ...text.token_ids import NOTHING
from ...text.tokenizer import MaskTokenizer
from .columns import EXPECTED, IS_TOP1, LOGPROB, RANK, REPEATS, ROW, SKIPPED, TARGET_COLUMN, TARGET_TOKENS, Columns
from .encoding import Encoded, Ids, Rows64

Logits = NDArray[np.float32]
SKIPPED_FILE = "skipped.parquet"
_WORD = re.compile(r"\w+")
_TOP = {"": pl.String, "_logprob": pl.Float32}


@dataclass(frozen=True, eq=False)
class Answers:
    """What a model answers about n items.

    Attributes:
        logprob: float32 [n], of each target: natural logarithms.
        rank: int32 [n], of each target, from 1; of several tokens, the largest one.
        is_top1: bool [n], whether the target is the first choice.
        top: int32 [n, k], the first choices at the mask; `NOTHING` where they are not known.
        top_logprob: float32 [n, k], NaN where they are not known.
        choices: Item whose target has several tokens → the first choices at their positions.
    """

    logprob: Logits
    rank: Ids
    is_top1: NDArray[np.bool_]
    top: Ids
    top_logprob: Logits
    choices: dict[int, list[int]] = field(default_factory=dict)

    @classmethod
    def empty(cls, n: int, top: int) -> "Answers":
        """Room for the answers; nothing is known."""
        return cls(
            np.full(n, np.nan, np.float32),
            np.zeros(n, np.int32),
            np.zeros(n, np.bool_),
            np.full((n, top), NOTHING, np.int32),
            np.full((n, top), np.nan, np.float32),
        )

    def judge(self, items: Rows64, place: Rows64, expected: Ids, logits: Logits, ranked: Ids | None) -> None:
        """Judge items with targets of one token from the logits of their sentences.

        Args:
            items: int64 [n], which items.
            place: int64 [n], the position of each item's sentence among the logits.
            expected: int32 [n], the targets' tokens.
            logits: float32 [b, V], at the masks of the sentences.
            ranked: int32, the tokens that are ranked; None for all.
        """
        kept = logits if ranked is None else logits[:, ranked]
        total = _log_sum_exp(kept)
        chosen = top_tokens(kept, self.top.shape[1])
        logprobs = np.take_along_axis(kept, chosen, axis=1) - total[:, None]
        own = logits[place, expected]
        self.logprob[items] = own - total[place]
        self.rank[items] = 1 + (kept[place] > own[:, None]).sum(axis=1)
        self.top[items] = (chosen if ranked is None else ranked[chosen])[place]
        self.top_logprob[items] = logprobs[place]
        self.is_top1[items] = self.top[items, 0] == expected

    def put_words(self, items: Rows64, scores: WordScores) -> None:
        """Take over the scores of words.

        Args:
            items: int64 [n], which items.
            scores: Of the n words.
        """
        self.logprob[items] = scores.logprob
        self.rank[items] = scores.worst_rank
        self.is_top1[items] = scores.top1
        self.top_logprob[items, 0] = scores.choice_logprob
        for item, tokens, n in zip(items.tolist(), scores.choices.tolist(), scores.words.counts.tolist(), strict=True):
            self.choices[item] = tokens[:n]


def item_rows(asked: Encoded, columns: Columns, answers: Answers, tokenizer: MaskTokenizer) -> pl.DataFrame:
    """The rows of items.parquet: each row of the table, once for each of its targets.

    Args:
        asked: The rows.
        columns: Their columns.
        answers: What the model answers.
        tokenizer: The model's.
    """
    rows, targets = asked.rows, len(columns.targets)
    each = np.repeat(np.arange(len(rows.frame)), targets)
    words = [rows.frame[column].str.strip_chars().to_list() for column in columns.targets]
    expected = [words[target][row] for row in range(len(rows.frame)) for target in range(targets)]
    further: dict[str, pl.Series] = {}
    for i in range(answers.top.shape[1]):
        texts = _token_texts(answers.top[:, i], tokenizer)
        if i == 0:
            for item, tokens in answers.choices.items():
                texts[item] = tokenizer.word_text(tokens)
        further[f"top{i + 1}"] = pl.Series(f"top{i + 1}", texts, pl.String)
        name = f"top{i + 1}_logprob"
        further[name] = pl.Series(name, answers.top_logprob[:, i]).fill_nan(None)
    spelled = [_spelled(text) for text in asked.texts]
    repeats = [_spelled(word) in spelled[own] for word, own in zip(expected, asked.sentence.tolist(), strict=True)]
    return pl.DataFrame({ROW: rows.numbers[each]}).with_columns(
        *rows.frame[each],
        pl.Series(TARGET_COLUMN, list(columns.targets) * len(rows.frame), pl.String),
        pl.Series(EXPECTED, expected, pl.String),
        pl.Series(TARGET_TOKENS, asked.words.counts.astype(np.int32)),
        pl.Series(LOGPROB, answers.logprob),
        pl.Series(RANK, answers.rank),
        pl.Series(IS_TOP1, answers.is_top1),
        *further.values(),
        pl.Series(REPEATS, repeats, pl.Boolean),
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
        TARGET_TOKENS: pl.Int32,
        LOGPROB: pl.Float32,
        RANK: pl.Int32,
        IS_TOP1: pl.Boolean,
        **tops,
        REPEATS: pl.Boolean,
        **skipped,
    }


def _token_texts(ids: Ids, tokenizer: MaskTokenizer) -> list[str | None]:
    tokens, which = np.unique(ids, return_inverse=True)
    texts = [None if token == NOTHING else tokenizer.token_text(token) for token in tokens.tolist()]
    return [texts[own] for own in which.reshape(-1).tolist()]


def _spelled(text: str) -> str:
    """The words of a text in small letters with a space around each; the mask stands for no word."""
    return " | ".join("".join(f" {word} " for word in _WORD.findall(part.casefold())) for part in text.split(MASK))


def _log_sum_exp(logits: Logits) -> NDArray[np.float64]:
    from scipy import special

    found: NDArray[np.float64] = special.logsumexp(logits.astype(np.float64), axis=1)
    return found
