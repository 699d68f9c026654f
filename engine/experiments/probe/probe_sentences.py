"""A user's table of sentences: what its columns are for, its token ids, and what is refused."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...basics.errors import InputError, did_you_mean
from ...inference.exported import ExportedModel
from ...inference.free_text import MASK, one_mask
from ...library.sentences import CORRECT
from ...text.table import Rows
from ...text.token_ids import Bucket, TokenSequences, in_buckets
from ...text.tokenizer import MaskTokenizer
from ..labels import WANTED, Labels
from ..own_table import ROW, OwnColumns, yes_or_no

_WANTED = (("wanted",), ("unwanted",))
_MOST_LISTED = 12
TARGET_COLUMN = "target_column"
LOGPROB, IS_TOP1, REPEATS = "logprob", "is_top1", "repeats_word"
Ids = NDArray[np.int32]
Rows64 = NDArray[np.int64]
_HERE = "here"
_NOTHING_BEFORE = "nothing stands before the mask, where a causal model begins to read: give words before it, or --bos"
_BEHIND = "words follow the mask, and a causal model reads only what stands before it"


@dataclass(frozen=True)
class Columns(OwnColumns):
    """Columns of a table by their purpose."""

    sentence: str  # the sentences, with one mask each
    targets: tuple[str, ...]  # the words that could stand at the mask; each makes an item of its own
    # Whether a target is wanted: a column says it by yes or no, or COLUMN=VALUE names the rows where it is not.
    wanted: str | None = field(default=None, kw_only=True)
    unwanted: str | None = field(default=None, kw_only=True)

    @property
    def needed(self) -> tuple[str, ...]:
        return self.sentence, *self.targets

    @property
    def shared(self) -> dict[str, str]:
        column = unwanted_rows(self.unwanted)[0] if self.unwanted else self.wanted
        known = {column: WANTED} if column and column != TARGET_COLUMN else {}
        return {**known, **super().shared}

    @property
    def is_wanted(self) -> pl.Expr | None:
        """Whether the target of an item is wanted; null where its row does not say it. None if no row does."""
        if self.unwanted is not None:
            column, value = unwanted_rows(self.unwanted)
            return pl.col(column).cast(pl.String) != value
        return yes_or_no(self.wanted, *_WANTED) if self.wanted else None

    @property
    def metrics(self) -> list[str]:
        return [*([] if self.is_wanted is None else [CORRECT]), IS_TOP1, LOGPROB, REPEATS]

    @property
    def used(self) -> list[str]:
        optional = [name for name in (self.cluster, self.item) if name]
        return list(dict.fromkeys([ROW, TARGET_COLUMN, *self.metrics, *self.groups, *optional]))

    def refuse_unknown(self, table: str, labels: Labels) -> None:
        if self.unwanted is None:
            return
        column, value = unwanted_rows(self.unwanted)
        known = self.targets if column == TARGET_COLUMN else labels.rows[column].drop_nulls().unique().to_list()
        if value not in known:
            listed = ", ".join(map(repr, sorted(known)[:_MOST_LISTED]))
            raise InputError(
                f"--unwanted {self.unwanted}: {did_you_mean(value, known)}no row of {table} has {value!r} in "
                f"{column}; it has {listed}"
            )


@dataclass(frozen=True, eq=False)
class Encoded:
    """The n rows of a part that a model can be asked about, with t targets each: n · t items."""

    rows: Rows
    texts: Sequence[str]  # m different sentences, with [MASK]
    sentence: Rows64  # [n · t], the sentence of each item, from 0; the items of a row stand together
    buckets: Sequence[Bucket]  # the sentences by length; their rows are positions in `texts`
    words: TokenSequences  # the tokens of each item's target

    def with_sentences(self, wanted: Rows64) -> list[Bucket]:
        own = [np.flatnonzero(np.isin(bucket.rows, wanted)) for bucket in self.buckets]
        return [
            Bucket(bucket.rows[chosen], bucket.ids[chosen], bucket.mask_position[chosen])
            for bucket, chosen in zip(self.buckets, own, strict=True)
            if len(chosen)
        ]

    def by_item(self, items: Rows64) -> list[Bucket]:
        """Buckets with a sentence for each of some items; their rows are positions in `items`."""
        found = []
        for bucket in self.buckets:
            place = np.full(len(self.texts), -1, np.int64)
            place[bucket.rows] = np.arange(len(bucket.rows))
            at = place[self.sentence[items]]
            (own,) = np.nonzero(at >= 0)
            if len(own):
                found.append(Bucket(own, bucket.ids[at[own]], bucket.mask_position[at[own]]))
        return found


@dataclass(frozen=True, eq=False)
class Encoder:
    """How the rows of a table become token ids."""

    columns: Columns
    exported: ExportedModel
    tokenizer: MaskTokenizer
    ranked: Ids | None  # the tokens that are ranked; None for all

    def encode(self, rows: Rows) -> Encoded:
        known: dict[str, int] = {}
        read = [text.strip().replace(self.tokenizer.mask_token, MASK) for text in rows.frame[self.columns.sentence]]
        sentence = np.array([known.setdefault(text, len(known)) for text in read], np.int64)
        texts = list(known)
        ids, faults = self._ids(texts)
        rows, sentence = _without(rows, sentence, [faults[own] for own in sentence.tolist()])
        words, target_faults = self._words(
            rows.frame, [texts[own] for own in sentence.tolist()], [ids[own] for own in sentence.tolist()]
        )
        rows, sentence = _without(rows, sentence, target_faults)
        used, sentence = np.unique(sentence, return_inverse=True)
        return Encoded(
            rows,
            texts=[texts[own] for own in used.tolist()],
            sentence=np.repeat(sentence.astype(np.int64), len(self.columns.targets)),
            buckets=list(in_buckets([ids[own] for own in used.tolist()], self.tokenizer.mask_id)),
            words=TokenSequences.of(words),
        )

    def _ids(self, texts: Sequence[str]) -> tuple[list[Ids], list[str | None]]:
        masked = [text.replace(MASK, self.tokenizer.mask_token) for text in texts]
        faults = [None if self.tokenizer.reads(text) else _BEHIND for text in masked]
        ids: list[Ids] = [np.empty(0, np.int32)] * len(texts)
        read = [row for row, fault in enumerate(faults) if fault is None]
        for row, own in zip(read, self.tokenizer.encode_any([masked[row] for row in read]), strict=True):
            ids[row] = own
            try:
                position = one_mask(self.exported, self.tokenizer, own, _HERE)
            except InputError as error:
                faults[row] = str(error).removeprefix(f"{_HERE}: ")
                continue
            if self.exported.is_causal and position == 0:
                faults[row] = _NOTHING_BEFORE
        return ids, faults

    def _words(
        self, frame: pl.DataFrame, texts: Sequence[str], ids: Sequence[Ids]
    ) -> tuple[list[tuple[int, ...]], list[str | None]]:
        contexts = [(before, after) for before, _, after in (text.partition(MASK) for text in texts)]
        ranked = None if self.ranked is None else frozenset(self.ranked.tolist())
        tokens: list[list[tuple[int, ...]]] = [[] for _ in texts]
        faults: list[str | None] = [None] * len(texts)
        for column in self.columns.targets:
            words = frame[column].str.strip_chars().to_list()
            for row, own in enumerate(self.tokenizer.word_sequences(contexts, words, ids)):
                if fault := self._fault(own, len(ids[row]), ranked):
                    faults[row] = faults[row] or f"{column} {words[row]!r}: {fault}"
                elif isinstance(own, tuple):
                    tokens[row].append(own)
        good = (own for own, fault in zip(tokens, faults, strict=True) if fault is None)
        return [word for own in good for word in own], faults

    def _fault(self, tokens: tuple[int, ...] | str, length: int, ranked: frozenset[int] | None) -> str:
        if isinstance(tokens, str):
            return tokens
        if ranked is not None and len(tokens) > 1:
            return f"{len(tokens)} tokens; words that are ranked must be one token of the model"
        if ranked is not None and tokens[0] not in ranked:
            return "not one of the words that are ranked"
        if (needed := length - 1 + len(tokens)) > self.exported.max_length:
            return (
                f"{needed} tokens with the sentence, but {self.exported.name} takes at most {self.exported.max_length}"
            )
        return ""


def unwanted_rows(option: str) -> tuple[str, str]:
    """The column and the value of `--unwanted COLUMN=VALUE`; an `InputError` if it is not of this form."""
    column, _, value = option.partition("=")
    if not value:
        raise InputError(f"--unwanted {option}: give COLUMN=VALUE, such as group=negated")
    return column, value


def _without(rows: Rows, sentence: Rows64, faults: Sequence[str | None]) -> tuple[Rows, Rows64]:
    reasons = pl.Series("reason", faults, pl.String)
    return rows.without(reasons), sentence[reasons.is_null().to_numpy()]


def mask_faults(columns: Columns, mask_token: str) -> pl.Expr:
    """Why sentences cannot be asked, as far as their text shows it; null where nothing does."""
    column = pl.col(columns.sentence)
    masks = column.str.count_matches(MASK, literal=True)
    if mask_token != MASK:
        masks += column.str.count_matches(mask_token, literal=True)
    judged, odd = pl.lit(None, pl.String), pl.lit(value=False)
    if columns.wanted:
        judged = pl.col(columns.wanted).cast(pl.String)
        odd = judged.is_not_null() & yes_or_no(columns.wanted, *_WANTED).is_null()
    return (
        pl.when(masks == 0)
        .then(pl.lit(f"{columns.sentence} has no {MASK}; write {MASK} where the target belongs"))
        .when(masks > 1)
        .then(pl.lit(f"{columns.sentence} has ") + masks.cast(pl.String) + f" {MASK}; one is needed")
        .when(odd)
        .then(pl.lit(f"{columns.wanted} is ") + judged + "; yes or no is needed, or nothing")
        .alias("reason")
    )
