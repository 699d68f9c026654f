"""The columns of items.parquet, tokens.parquet and words.parquet.

items.parquet has one row for each sentence: the columns of the user's table, then

    file                       which table of a folder; only for folders
    row                        number of the row in its table, from 1
    side                       good or bad; only for pairs
    log_likelihood             sum over the scored tokens, natural logarithm: of a masked model a pseudo-log-likelihood
    tokens, words, characters  scored tokens; words between spaces, the same for every model; characters with spaces
    per_token, per_word, per_character    log_likelihood divided by these
    correct                    pairs, in the row of the good sentence: whether its log_likelihood is larger by more than
                               the rounding of fp32; a tie is not correct
    correct_per_token          the same with per_token
    tie                        whether the two are as large but for rounding

A word of words.parquet is what stands between two spaces, with its punctuation. A token belongs to the word of the
first character that it covers.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...errors import InputError
from ...text.table_rows import Rows
from ...text.tokenizer import MaskTokenizer
from ..probe.columns import ROW, SKIPPED
from .columns import SIDES, Columns
from .encoding import Sentence

FILE, SIDE = "file", "side"
LIKELIHOOD, PER_TOKEN = "log_likelihood", "per_token"
CORRECT, CORRECT_PER_TOKEN, TIE = "correct", "correct_per_token", "tie"
VERDICTS = (CORRECT, CORRECT_PER_TOKEN, TIE)
TOKENS_FILE, WORDS_FILE = "tokens.parquet", "words.parquet"
REASON = SKIPPED[1]
SCORES = {
    LIKELIHOOD: pl.Float64(),
    "tokens": pl.Int32(),
    "words": pl.Int32(),
    "characters": pl.Int32(),
    PER_TOKEN: pl.Float64(),
    "per_word": pl.Float64(),
    "per_character": pl.Float64(),
}
# The lists that a part has for each sentence: one row for each of their values in the file.
LISTS: Mapping[str, Mapping[str, pl.DataType]] = {
    TOKENS_FILE: {
        "tokens: number": pl.List(pl.Int32),
        "tokens: token": pl.List(pl.String),
        "tokens: word": pl.List(pl.Int32),
        "tokens: logprob": pl.List(pl.Float32),
    },
    WORDS_FILE: {
        "words: number": pl.List(pl.Int32),
        "words: word": pl.List(pl.String),
        "words: tokens": pl.List(pl.Int32),
        "words: logprob": pl.List(pl.Float64),
    },
}
_WORD = re.compile(r"\S+")


def refuse_result_names(name: str, columns: Sequence[str]) -> None:
    """Refuse a table with a column that has the name of a result.

    Args:
        name: Of the table.
        columns: Its columns.

    Raises:
        InputError: There is one.
    """
    lists = [column for own in LISTS.values() for column in own]
    taken = {ROW, FILE, SIDE, *SCORES, *VERDICTS, *SKIPPED, *lists}
    if both := [column for column in columns if column in taken]:
        raise InputError(f"{name}: the column {both[0]!r} has the name of a result column; give it another name")


def item_schema(table: Mapping[str, pl.DataType], columns: Columns, *, several: bool) -> dict[str, pl.DataType]:
    """The columns of a part.

    Args:
        table: Those of the user's table.
        columns: What they are for.
        several: Whether there are several tables.
    """
    file: dict[str, pl.DataType] = {FILE: pl.String()} if several else {}
    side: dict[str, pl.DataType] = {SIDE: pl.String()} if columns.has_pairs else {}
    verdicts: dict[str, pl.DataType] = dict.fromkeys(VERDICTS, pl.Boolean()) if columns.good is not None else {}
    return {**table, **file, ROW: pl.Int64(), **side, **SCORES, **verdicts}


def item_rows(
    rows: Rows,
    file: str | None,
    columns: Columns,
    texts: Sequence[str],
    sentences: Sequence[Sentence],
    logprobs: NDArray[np.float32],
) -> pl.DataFrame:
    """A row for each sentence of a part.

    Args:
        rows: The rows of the table.
        file: What results call it; None for a single one.
        columns: What its columns are for.
        texts: The sentences; of pairs in one row the good one, then the bad one.
        sentences: The same as tokens.
        logprobs: float32, of all scored tokens.
    """
    sides = len(columns.texts)
    counts = np.array([len(sentence.scored) for sentence in sentences], np.int64)
    sums = np.add.reduceat(logprobs.astype(np.float64), np.cumsum(counts) - counts) if len(texts) else np.empty(0)
    words, characters = np.array([len(text.split()) for text in texts]), np.array([len(text) for text in texts])
    place = pl.Series(np.repeat(np.arange(len(rows.frame)), sides), dtype=pl.UInt32)
    values = (sums, counts, words, characters, sums / counts, sums / np.maximum(words, 1), sums / characters)
    frame = rows.frame.select(pl.all().gather(place)).with_columns(
        **({} if file is None else {FILE: pl.lit(file)}),
        **{ROW: pl.Series(np.repeat(rows.numbers, sides), dtype=pl.Int64)},
    )
    if sides == len(SIDES):
        frame = frame.with_columns(pl.Series(SIDE, SIDES * len(rows.frame), pl.String))
    elif columns.pair is not None:
        frame = frame.with_columns(columns.side().alias(SIDE))
    return frame.with_columns(
        pl.Series(name, own, dtype=dtype) for (name, dtype), own in zip(SCORES.items(), values, strict=True)
    )


def opened_lists(
    tokenizer: MaskTokenizer, texts: Sequence[str], sentences: Sequence[Sentence], logprobs: NDArray[np.float32]
) -> dict[str, pl.Series]:
    """The columns of `LISTS`: for each sentence its tokens and its words with their log-probabilities.

    Arguments as for `item_rows`.
    """
    lists: dict[str, list[list[object]]] = {name: [] for own in LISTS.values() for name in own}
    known: dict[int, str] = {}
    first = 0
    for text, sentence in zip(texts, sentences, strict=True):
        own = logprobs[first : first + len(sentence.scored)]
        first += len(own)
        spans = [match.span() for match in _WORD.finditer(text)]
        ends = np.array([end for _, end in spans], np.int64)
        word = np.minimum(np.searchsorted(ends, sentence.start[sentence.scored], side="right"), len(spans) - 1)
        tokens = sentence.tokens.tolist()
        for token in set(tokens) - set(known):
            known[token] = tokenizer.token_text(token)
        sums = np.bincount(word, own.astype(np.float64), minlength=len(spans))
        counts = np.bincount(word, minlength=len(spans))
        scored = np.flatnonzero(counts)
        values: tuple[Iterable[object], ...] = (
            range(1, len(tokens) + 1),
            [known[token] for token in tokens],
            word + 1,
            own,
            scored + 1,
            [text[slice(*spans[i])] for i in scored.tolist()],
            counts[scored],
            sums[scored],
        )
        for name, value in zip(lists, values, strict=True):
            lists[name].append(list(value))
    schema = {name: dtype for own in LISTS.values() for name, dtype in own.items()}
    return {name: pl.Series(name, lists[name], dtype) for name, dtype in schema.items()}
