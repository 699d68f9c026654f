"""What was computed, as it can be computed again: one token at a time, without batches, and without our own vectors."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

import polars as pl

from ...inference.free_text import log_softmax
from ...library.again import ROUNDING, Compared, Draw, Reference, Sample, Verdict
from .choices import Method
from .encoding import Encoder, Ids, Sentence

FEWER = 10
"""Of so many items that are asked for, one sentence is drawn: each of its tokens is a run of the model."""


@dataclass(frozen=True, eq=False)
class Scored:
    """A sentence and its recorded log-likelihood.

    Attributes:
        method: Which tokens a masked model masks together; None for a causal model.
        longest: The largest number of tokens that the model takes.
    """

    row: Mapping[str, Any]
    encoder: Encoder
    method: Method | None
    longest: int

    def again(self, reference: Reference) -> Compared:
        """See `Item`."""
        [sentence] = self.encoder.encode([self.row["sentence"]])
        now = sum(self._logprob(reference, sentence, position) for position in sentence.scored.tolist())
        name, recorded = f"{self.row['item']} ({self.row['condition']})", self.row["logprob"]
        if abs(now - recorded) <= ROUNDING * max(1.0, sqrt(len(sentence.scored))):
            return Compared(name, Verdict.AGREES)
        return Compared(name, Verdict.WRONG, f"log-likelihood {recorded:.4f}, but now {now:.4f}")

    def _logprob(self, reference: Reference, sentence: Sentence, position: int) -> float:
        """The log-probability of one token."""
        token, ids, place = int(sentence.ids[position]), sentence.ids.copy(), position
        if self.method is not None:
            ids[position] = self.encoder.tokenizer.mask_id
            word = int(sentence.word[position])
            for later in range(position + 1, len(ids)):
                if self.method is Method.WITHIN_WORD and word >= 0 and int(sentence.word[later]) == word:
                    ids[later] = self.encoder.tokenizer.mask_id
        if len(ids) > self.longest:
            ids, place = self._window(sentence, ids, position)
        return float(log_softmax(reference.at(ids, place))[token])

    def _window(self, sentence: Sentence, ids: Ids, position: int) -> tuple[Ids, int]:
        """The window of a token of a long sentence, and the token's place in it; see `encoding`."""
        first, stop = sentence.content.start, sentence.content.stop
        room = self.longest - first - (len(ids) - stop)
        if self.method is None:
            start, step = first, max(1, room // 2)
            while start + room <= position:
                start += step
        else:
            start = min(max(position - room // 2, first), stop - room)
        kept = [*range(first), *range(start, min(start + room, stop)), *range(stop, len(ids))]
        return ids[kept], kept.index(position)


def sentences(draw: Draw, rows: pl.LazyFrame, method: Method | None) -> Sample:
    """Rows of `sentence_rows`."""
    some = replace(draw, size=max(1, draw.size // FEWER)).rows(rows)
    encoder = Encoder(draw.tokenizer, draw.exported.is_causal)
    return Sample("sentences", [Scored(row, encoder, method, draw.exported.max_length) for row in some])
