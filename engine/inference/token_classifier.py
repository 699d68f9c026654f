"""An exported token classifier on a device: sentences as token ids in, one label for each token out.

As in `model.py`, the sentences of a batch have the same number of tokens: nothing is padded, and there is no attention
mask. The graph decides the labels itself (`negengine.export.passes.outputs`), so that one small number a token
comes back instead of the logits of all labels.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ..choices import Task
from . import tally
from .batches import Advance, Feeds, ignored, rows_by_length, sentences_in
from .opened import OpenedModel

Ids = NDArray[np.int32]

_ROUNDS = 4  # batches for each core between two reports of progress: enough that no core waits long


class TokenClassifier(OpenedModel):
    """A token classifier on one device; see `OpenedModel` for its arguments and attributes."""

    task = Task.TOKEN_CLASSIFICATION

    def labels(self, sentences: Sequence[Ids], advance: Advance = ignored) -> list[NDArray[np.int32]]:
        """The label of every token of sentences of any lengths.

        Args:
            sentences: each int32 [L], special tokens included, at most as long as the model takes.
            advance: called with the number of sentences that are done since the last call.

        Returns:
            For each sentence int32 [L]: positions in the export's labels.
        """
        found: list[NDArray[np.int32]] = [np.empty(0, np.int32)] * len(sentences)
        batches = list(self._batches(sentences))
        for start in range(0, len(batches), _ROUNDS * self.at_a_time):
            part = batches[start : start + _ROUNDS * self.at_a_time]
            feeds: list[Feeds] = [{"input_ids": np.stack([sentences[row] for row in rows])} for rows in part]
            for rows, (labels,) in zip(part, self._runner.fetch(["labels"], feeds), strict=True):
                for row, own in zip(rows, labels, strict=True):
                    found[row] = own.astype(np.int32, copy=False)
            for own in feeds:
                tally.count(*own["input_ids"].shape)
            advance(sum(len(rows) for rows in part))
        return found

    def _batches(self, sentences: Sequence[Ids]) -> Iterator[NDArray[np.int64]]:
        """The rows of each batch; the longest sentences first, so that no core waits at the end."""
        for rows in reversed(list(rows_by_length(sentences))):
            size = sentences_in(self.batch_tokens, len(sentences[rows[0]]))
            for start in range(0, len(rows), size):
                yield rows[start : start + size]
