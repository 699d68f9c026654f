"""`negengine probe`: how probable is a target at the mask of a user's own sentence?

A part is a range of the table's rows. Each row is read where it lies, so that a table of any size can be asked. A model
reads each different sentence of a part once, however many rows and targets it has.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import polars as pl

from ...errors import InputError
from ...inference.exported import ExportedModel
from ...inference.model import MaskedLM
from ...runs.masked_stages import ReferenceStage
from ...runs.model_metadata import model_metadata
from ...runs.stage import Advance, Files, FinishedParts, PartResult
from ...sentences.spans import small_buckets
from ...sentences.tokenizer import MaskTokenizer
from ...stimuli import Stimuli
from ..items import ITEMS_FILE, SUMMARY_FILE, model_identity
from ..vocabulary import Ranked, Vocabulary
from .columns import ROW, SKIPPED, Columns
from .encoding import Encoded, encoded, mask_faults
from .items import SKIPPED_FILE, Answers, Ids, item_rows, item_schema
from .summary import summarise, used

ROWS_PER_PART = 2048
LOGITS_AT_ONCE = 2**22  # 16 MB, and twice that for their exponentials
COLUMNS = "columns"  # the key of the table's columns in the metadata


@dataclass(frozen=True, eq=False)
class OwnStimuli(ReferenceStage[Encoded]):
    """A run of the probe.

    Attributes:
        exported: The model.
        stimuli: The table.
        columns: Its columns.
        ranked: Which tokens are ranked.
        top: How many first choices are kept.
        skip_bad: Whether rows that cannot be asked are skipped.
        logits_at_once: How many logits are in memory.
    """

    name: ClassVar[str] = "probe"

    exported: ExportedModel
    stimuli: Stimuli
    columns: Columns
    ranked: Ranked
    top: int = 1
    skip_bad: bool = False
    logits_at_once: int = LOGITS_AT_ONCE

    @property
    def sizes(self) -> Sequence[int]:
        """Rows of each part."""
        return [part.size for part in self.stimuli.parts]

    @property
    def unit(self) -> str:
        """See `Stage`."""
        return "rows"

    @property
    def identity(self) -> dict[str, Any]:
        """What the items depend on."""
        return {
            **model_identity(self.exported),
            "data sha256": self.stimuli.sha256,
            **self.columns.to_json(),
            "vocabulary": self.ranked.name,
            "vocabulary sha256": self.ranked.sha256,
            "top": self.top,
            "skip bad rows": self.skip_bad,
            "rows per part": self.stimuli.parts[0].size,
        }

    @property
    def metadata(self) -> dict[str, Any]:
        """The model, the columns, and the words that are ranked."""
        return {
            **model_metadata(self.exported),
            COLUMNS: self.columns.to_json(),
            "ranked words": list(self.ranked.words),
            "rows": self.stimuli.n,
        }

    @cached_property
    def tokenizer(self) -> MaskTokenizer:
        """The model's tokenizer."""
        return self.exported.tokenizer

    @cached_property
    def ranked_ids(self) -> Ids | None:
        """The ranked tokens, int32 [m], ascending; None for all."""
        if self.ranked.name == Vocabulary.ALL:
            return None
        return self.ranked.ids(self.tokenizer, self.exported.vocab_size)

    def check(self, say: Callable[[str], None]) -> None:
        """Refuse a row that the model cannot be asked about; with `skip_bad`, a table without a row that it can."""
        skipped, first = 0, ""
        for number in range(len(self.stimuli.parts)):
            bad = self.prepare(number).rows.skipped
            for row in bad.head(1).iter_rows(named=True):
                first = first or f"{self.stimuli.location(row['row'], row['line'])}: {row['reason']}"
                if not self.skip_bad:
                    raise InputError(first)
            skipped += len(bad)
        if skipped == self.stimuli.n:
            raise InputError(first)
        say(f"{self.stimuli.n - skipped:,} rows can be asked, {skipped:,} are skipped")

    def prepare(self, number: int) -> Encoded:
        """The rows of a part as token ids."""
        rows = self.stimuli.read(number, self.faults)
        return encoded(rows, self.columns, self.exported, self.tokenizer, self.ranked_ids)

    def faults(self, frame: pl.DataFrame) -> pl.Series:
        """What is wrong with rows as their texts show it; see `stimuli.Check`."""
        return frame.select(mask_faults(self.columns, self.exported.mask_token).alias("reason")).to_series()

    def decide(self, model: MaskedLM, number: int, prepared: Encoded | None, advance: Advance) -> PartResult:
        """See `Stage`.

        Returns:
            One row for each row of the table and target; then, with `skip_bad`, the rows that are skipped.
        """
        asked = prepared or self.prepare(number)
        n, targets = asked.expected.shape
        ranked = len(self.ranked_ids) if self.ranked_ids is not None else self.exported.vocab_size
        answers = Answers.empty(n, targets, len(asked.texts), min(self.top, ranked))
        skipped = asked.rows.skipped.rename(dict(zip(("line", "reason", "content"), SKIPPED, strict=True)))
        advance(len(skipped), 0)
        if targets == 1 and len(asked.texts) == n and self.top == 1 and self.ranked_ids is None:
            self._decide(model, asked, answers, advance)
        else:
            self._judge(model, asked, answers, advance)
        items = item_rows(
            asked.rows, self.columns, answers, asked.sentence, asked.texts, asked.expected, self.tokenizer
        )
        schema = item_schema(self.stimuli.schema, self.top, skip_bad=self.skip_bad)
        parts = [pl.DataFrame(schema=schema), items, *([skipped] if self.skip_bad else [])]
        return PartResult(pl.concat(parts, how="diagonal"), {"skipped": len(skipped)})

    @staticmethod
    def publish(parts: FinishedParts) -> Files:
        """items.parquet, summary.parquet and, where bad rows are skipped, skipped.parquet."""
        rows, columns = parts.rows, Columns.from_json(parts.metadata[COLUMNS])
        if SKIPPED[1] not in rows.columns:
            return {ITEMS_FILE: rows, SUMMARY_FILE: summarise(rows.select(used(columns)), columns)}
        good = pl.col(SKIPPED[1]).is_null()
        items = rows.filter(good).drop(SKIPPED)
        names = dict(zip(SKIPPED, ("line", "reason", "content"), strict=True))
        return {
            ITEMS_FILE: items,
            SUMMARY_FILE: summarise(items.select(used(columns)), columns),
            SKIPPED_FILE: rows.filter(~good).select(ROW, *SKIPPED).rename(names),
        }

    def _decide(self, model: MaskedLM, asked: Encoded, answers: Answers, advance: Advance) -> None:
        """One target for each sentence: the model's own decisions say everything, and no logits are copied."""
        row_of = np.argsort(asked.sentence)
        for bucket in small_buckets(asked.buckets):
            rows = row_of[bucket.rows]
            found = model.decide(bucket.ids, bucket.mask_position, asked.expected[rows, 0], lambda n: advance(n, n))
            answers.logprob[rows, 0], answers.rank[rows, 0] = found.expected_logprob, found.expected_rank
            answers.top[bucket.rows, 0], answers.top_logprob[bucket.rows, 0] = found.top1, found.top1_logprob

    def _judge(self, model: MaskedLM, asked: Encoded, answers: Answers, advance: Advance) -> None:
        """Several targets, ranked words or first choices: from all logits of a batch at a time."""
        order = np.argsort(asked.sentence, kind="stable")
        starts = np.searchsorted(asked.sentence[order], np.arange(len(asked.texts) + 1))
        for bucket in asked.buckets:
            size = max(1, min(model.batch_size(bucket.ids.shape[1]), self.logits_at_once // self.exported.vocab_size))
            for start in range(0, len(bucket.rows), size):
                part = slice(start, start + size)
                sentences = bucket.rows[part]
                counts = starts[sentences + 1] - starts[sentences]
                rows = np.concatenate([order[starts[own] : starts[own + 1]] for own in sentences.tolist()])
                place = np.repeat(np.arange(len(sentences)), counts)
                logits = model.logits(bucket.ids[part], bucket.mask_position[part])
                answers.put(sentences, logits, rows, place, asked.expected[rows], self.ranked_ids)
                advance(len(rows), len(sentences))
