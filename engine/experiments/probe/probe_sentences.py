"""A user's table of sentences: what its columns are for, its token ids, and what is refused."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...basics.errors import InputError
from ...inference.batches import rows_by_length
from ...inference.exported import ExportedModel
from ...inference.free_text import MASK, one_mask
from ...text.table_rows import Rows
from ...text.token_ids import Bucket, TokenSequences
from ...text.tokenizer import MaskTokenizer
from ...text.user_table import Table, find_column, needed_column

ROW, TARGET_COLUMN, EXPECTED, TARGET_TOKENS = "row", "target_column", "expected", "target_tokens"
LOGPROB, RANK, IS_TOP1, TOP1, REPEATS = "logprob", "rank", "is_top1", "top1", "repeats_word"
SKIPPED = ("skipped: line", "skipped: reason", "skipped: content")
_OBVIOUS = {
    "sentence": ("sentence",),
    "target": ("target",),
    "group": ("group",),
    "cluster": ("cluster",),
    "item": ("item", "pair"),
}


@dataclass(frozen=True)
class Columns:
    """Columns of a table by their purpose."""

    sentence: str  # the sentences, with one mask each
    targets: tuple[str, ...]  # the words that could stand at the mask; each makes an item of its own
    groups: tuple[str, ...] = ()  # what rates are computed for
    cluster: str | None = None  # what rows share that depend on each other; None where they are independent
    item: str | None = None  # what the rows of one minimal pair share; None where there are no pairs

    @classmethod
    def of(
        cls,
        table: Table,
        *,
        sentence: str | None = None,
        target: str | Sequence[str] = (),
        group: str | Sequence[str] = (),
        cluster: str | None = None,
        item: str | None = None,
    ) -> "Columns":
        """Find the columns: those that are named, else those with the obvious names.

        By default `sentence` and `target`; if the table has them, `group`, `cluster`, and as item `item` or `pair`.

        Raises:
            InputError: The table lacks a column, or a column is named twice.
        """
        targets = _several(table, "--target", target)
        groups = _several(table, "--group", group)
        return cls(
            needed_column(table, "--sentence", sentence, _OBVIOUS["sentence"]),
            targets or (needed_column(table, "--target", None, _OBVIOUS["target"]),),
            groups or tuple(filter(None, [find_column(table, "--group", None, _OBVIOUS["group"])])),
            find_column(table, "--cluster", cluster, _OBVIOUS["cluster"]),
            find_column(table, "--item", item, _OBVIOUS["item"]),
        )

    @property
    def texts(self) -> tuple[str, ...]:
        """The columns that must hold a text in every row."""
        return self.sentence, *self.targets

    @property
    def clustered(self) -> str | None:
        """The column with the clusters of an interval: the rows of a minimal pair depend on each other, too."""
        return self.cluster or self.item

    def to_json(self) -> dict[str, Any]:
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Columns":
        fields: dict[str, Any] = {name: tuple(own) if isinstance(own, list) else own for name, own in value.items()}
        return cls(**fields)


def result_names(top: int) -> list[str]:
    """The columns that a run adds to those of the table."""
    further = [name for i in range(1, top + 1) for name in (f"top{i}", f"top{i}_logprob")]
    return [ROW, TARGET_COLUMN, EXPECTED, TARGET_TOKENS, LOGPROB, RANK, IS_TOP1, *further, REPEATS]


def refuse_result_names(name: str, columns: Sequence[str], top: int) -> None:
    """Refuse a table with a column that has the name of a result.

    Raises:
        InputError: There is one.
    """
    taken = {*result_names(top), *SKIPPED}
    if both := [column for column in columns if column in taken]:
        raise InputError(f"{name}: the column {both[0]!r} has the name of a result column; give it another name")


def _several(table: Table, option: str, given: str | Sequence[str]) -> tuple[str, ...]:
    names = [given] if isinstance(given, str) else list(given)
    found = tuple(needed_column(table, option, name, [name]) for name in names)
    if twice := [name for name in found if found.count(name) > 1]:
        raise InputError(f"{option} {twice[0]}: given twice; name each column once")
    return found


Ids = NDArray[np.int32]
Rows64 = NDArray[np.int64]
_HERE = "here"
_NOTHING_BEFORE = (
    "nothing stands before the mask, where a causal model begins to read: give words before it, or export the model "
    "with --bos"
)
_BEHIND = "words follow the mask, and a causal model reads only what stands before it"


@dataclass(frozen=True, eq=False)
class Encoded:
    """The n rows of a part that a model can be asked about, with t targets each: n · t items."""

    rows: Rows
    texts: Sequence[str]  # m different sentences, with [MASK]
    sentence: Rows64  # [n · t], the sentence of each item, from 0; the items of a row stand together
    buckets: Sequence[Bucket]  # the sentences by length; their rows are positions in `texts`
    words: TokenSequences  # the tokens of each item's target

    @property
    def tokens(self) -> int:
        """Of all different sentences."""
        return sum(bucket.ids.size for bucket in self.buckets)

    def with_sentences(self, wanted: Rows64) -> list[Bucket]:
        """The buckets with some of the sentences only, by their positions in `texts`."""
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
        """Encode the rows of a part; rows that the model cannot be asked about are skipped."""
        known: dict[str, int] = {}
        sentence = np.array([known.setdefault(text, len(known)) for text in self._texts(rows.frame)], np.int64)
        texts = list(known)
        ids, faults = self._ids(texts)
        rows, sentence = _without(rows, sentence, [faults[own] for own in sentence.tolist()])
        of_row = [texts[own] for own in sentence.tolist()]
        own_ids = [ids[own] for own in sentence.tolist()]
        sequences = self._sequences(rows.frame, of_row, own_ids)
        lengths = np.array([len(own) for own in own_ids], np.int64)
        target_faults = self._target_faults(rows.frame, sequences, lengths)
        kept = [row for row, fault in enumerate(target_faults) if fault is None]
        rows, sentence = _without(rows, sentence, target_faults)
        used, sentence = np.unique(sentence, return_inverse=True)
        buckets = self._buckets([ids[own] for own in used.tolist()])
        tokens = [own[row] for row in kept for own in sequences]
        words = TokenSequences.of([own for own in tokens if not isinstance(own, str)])
        each = np.repeat(sentence.astype(np.int64), len(self.columns.targets))
        return Encoded(rows, [texts[own] for own in used.tolist()], each, buckets, words)

    def _texts(self, frame: pl.DataFrame) -> list[str]:
        return [text.strip().replace(self.tokenizer.mask_token, MASK) for text in frame[self.columns.sentence]]

    def _ids(self, texts: Sequence[str]) -> tuple[list[Ids], list[str | None]]:
        """The ids of sentences, and why they cannot be asked: their masks, their length, the padding token."""
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

    def _buckets(self, ids: Sequence[Ids]) -> list[Bucket]:
        positions = np.array([np.argmax(own == self.tokenizer.mask_id) for own in ids], np.int32)
        return [
            Bucket(group, np.stack([ids[row] for row in group]), positions[group])
            for group in (rows_by_length(ids) if ids else ())
        ]

    def _sequences(
        self, frame: pl.DataFrame, texts: Sequence[str], ids: Sequence[Ids]
    ) -> list[list[tuple[int, ...] | str]]:
        """For each column of targets, each row's tokens, or why the target cannot be predicted there."""
        contexts = [(before, after) for before, _, after in (text.partition(MASK) for text in texts)]
        return [
            self.tokenizer.word_sequences(contexts, frame[column].str.strip_chars().to_list(), ids)
            for column in self.columns.targets
        ]

    def _target_faults(
        self, frame: pl.DataFrame, sequences: Sequence[Sequence[tuple[int, ...] | str]], lengths: Rows64
    ) -> list[str | None]:
        """Why rows cannot be asked because of their targets; None where they can."""
        faults: list[str | None] = [None] * len(frame)
        ranked = None if self.ranked is None else frozenset(self.ranked.tolist())
        for column, own in zip(self.columns.targets, sequences, strict=True):
            words = frame[column].str.strip_chars().to_list()
            for row, (tokens, length) in enumerate(zip(own, lengths.tolist(), strict=True)):
                if faults[row] is None and (fault := self._fault(tokens, length, ranked)):
                    faults[row] = f"{column} {words[row]!r}: {fault}"
        return faults

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


def _without(rows: Rows, sentence: Rows64, faults: Sequence[str | None]) -> tuple[Rows, Rows64]:
    """The rows without a fault, and their sentences."""
    reasons = pl.Series("reason", faults, pl.String)
    return rows.without(reasons), sentence[reasons.is_null().to_numpy()]


def mask_faults(columns: Columns, mask_token: str) -> pl.Expr:
    """Why sentences cannot be asked, as far as their text shows it; null where nothing does."""
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


MOST_VALUES = 1_000


class FewValues:
    """A `stimuli.Check` that also refuses a column of groups with too many values: it holds no groups."""

    def __init__(self, columns: Columns, mask_token: str, name: str) -> None:
        self._faults = mask_faults(columns, mask_token).alias("reason")
        self._name = name
        self._values: dict[str, set[str]] = {column: set() for column in columns.groups}

    def __call__(self, frame: pl.DataFrame) -> pl.Series:
        for column, known in self._values.items():
            if column in frame.columns:  # a part can lack a column of JSON lines
                known.update(frame[column].drop_nulls().unique().cast(pl.String).to_list())
            if len(known) > MOST_VALUES:
                raise InputError(
                    f"{self._name}: the column {column!r} has more than {MOST_VALUES:,} different values; give another "
                    "--group, or name it with --cluster or --item if it says which rows belong together"
                )
        return frame.select(self._faults).to_series()
