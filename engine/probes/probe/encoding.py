"""A part of a table as token ids: its different sentences, and the token of each target."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...errors import InputError
from ...inference.batches import rows_by_length
from ...inference.exported import ExportedModel
from ...inference.free_text import MASK, one_mask
from ...sentences.spans import Bucket
from ...sentences.tokenizer import NOT_ONE_TOKEN, MaskTokenizer
from ...stimuli import Rows
from ..targets import target_ids
from .columns import Columns

Ids = NDArray[np.int32]
_HERE = "here"


@dataclass(frozen=True, eq=False)
class Encoded:
    """The rows of a part that a model can be asked about.

    Attributes:
        rows: The rows, and those that were skipped.
        texts: m different sentences, with [MASK].
        sentence: int64 [n], the sentence of each row, from 0.
        buckets: The sentences by length; their rows are positions in `texts`.
        expected: int32 [n, targets], the token of each target.
    """

    rows: Rows
    texts: Sequence[str]
    sentence: NDArray[np.int64]
    buckets: Sequence[Bucket]
    expected: Ids

    @property
    def tokens(self) -> int:
        """Tokens of all different sentences."""
        return sum(bucket.ids.size for bucket in self.buckets)


def mask_faults(columns: Columns, mask_token: str) -> pl.Expr:
    """Why sentences cannot be asked, as far as their text shows it; null where nothing does.

    Args:
        columns: The columns.
        mask_token: The model's own.
    """
    column = pl.col(columns.sentence)
    masks = column.str.count_matches(MASK, literal=True)
    if mask_token != MASK:
        masks += column.str.count_matches(mask_token, literal=True)
    return (
        pl.when(masks == 0)
        .then(pl.lit(f"{columns.sentence} has no {MASK}; write {MASK} where the target belongs"))
        .when(masks > 1)
        .then(pl.format(f"{columns.sentence} has {{}} {MASK}; one is needed", masks))
    )


def encoded(
    rows: Rows, columns: Columns, exported: ExportedModel, tokenizer: MaskTokenizer, ranked: Ids | None
) -> Encoded:
    """Encode the rows of a part; rows that the model cannot be asked about are skipped.

    Args:
        rows: From the table.
        columns: Its columns.
        exported: The model.
        tokenizer: Its tokenizer.
        ranked: int32, the tokens that are ranked; None for all.
    """
    reasons = _sentence_faults(rows.frame, columns, exported, tokenizer)
    rows = rows.without(reasons)
    expected, reasons = _targets(rows.frame, columns, tokenizer, ranked)
    expected, rows = expected[reasons.is_null().to_numpy()], rows.without(reasons)
    texts, sentence = _different(rows.frame, columns, tokenizer)
    ids = _ids(texts, tokenizer)
    positions = np.array([np.flatnonzero(own == tokenizer.mask_id)[0] for own in ids], np.int32)
    buckets = [Bucket(group, np.stack([ids[row] for row in group]), positions[group]) for group in rows_by_length(ids)]
    return Encoded(rows, texts, sentence, buckets, expected)


def sentence_text(text: str, mask_token: str) -> str:
    """A cell of the table as a sentence with [MASK]."""
    return text.strip().replace(mask_token, MASK)


def _different(frame: pl.DataFrame, columns: Columns, tokenizer: MaskTokenizer) -> tuple[list[str], NDArray[np.int64]]:
    """The different sentences of a part, and which one each row has."""
    known: dict[str, int] = {}
    texts = (sentence_text(text, tokenizer.mask_token) for text in frame[columns.sentence])
    sentence = np.array([known.setdefault(text, len(known)) for text in texts], np.int64)
    return list(known), sentence


def _ids(texts: Sequence[str], tokenizer: MaskTokenizer) -> list[Ids]:
    return tokenizer.encode([text.replace(MASK, tokenizer.mask_token) for text in texts])


def _sentence_faults(
    frame: pl.DataFrame, columns: Columns, exported: ExportedModel, tokenizer: MaskTokenizer
) -> pl.Series:
    """Why sentences cannot be asked: their masks, their length, the padding token."""
    texts, sentence = _different(frame, columns, tokenizer)
    faults = []
    for ids in _ids(texts, tokenizer):
        try:
            one_mask(exported, tokenizer, ids, _HERE)
            faults.append(None)
        except InputError as error:
            faults.append(str(error).removeprefix(f"{_HERE}: "))
    return pl.Series("reason", [faults[own] for own in sentence.tolist()], pl.String)


def _targets(
    frame: pl.DataFrame, columns: Columns, tokenizer: MaskTokenizer, ranked: Ids | None
) -> tuple[Ids, pl.Series]:
    """The token of each target, int32 [n, targets], and why rows cannot be asked."""
    texts = [sentence_text(text, tokenizer.mask_token) for text in frame[columns.sentence]]
    expected = np.empty((len(texts), len(columns.targets)), np.int32)
    reasons: list[str | None] = [None] * len(texts)
    for number, column in enumerate(columns.targets):
        words = frame[column].str.strip_chars().to_list()
        own = target_ids(tokenizer, texts, words)
        several = own == NOT_ONE_TOKEN
        foreign = ~several & ~np.isin(own, ranked) if ranked is not None else np.zeros(len(own), np.bool_)
        for which, why in ((several, "is not one token of the model"), (foreign, "is not one of the ranked words")):
            for row in np.flatnonzero(which).tolist():
                reasons[row] = reasons[row] or f"{column} {words[row]!r} {why}"
        expected[:, number] = own
    return expected, pl.Series("reason", reasons, pl.String)
