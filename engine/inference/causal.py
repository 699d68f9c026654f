"""An exported causal language model: it predicts the next token from those before it.

It answers the same calls as a masked model. A sentence is its token ids up to and including a mask, which has an id
outside the vocabulary (`CausalTokenizer`). Only what stands before the mask is read, so the last row of the graph is
the one that is asked for. A mask in the middle of the ids is allowed, too: then what stands behind it is ignored.

`token_logprobs` gives the log-probability of every token after the first in one run. The graph computes the rows that
enter the vocabulary projection (its output `hidden`), and a second graph (`model.vocabulary.onnx`) projects some rows
at a time: so memory does not grow with the number of tokens times the size of the vocabulary.
"""

from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..choices import Task
from ..errors import InputError
from . import tally
from .batches import Feeds, Runner
from .device import CPU, Device
from .exported import HIDDEN, REFERENCE, ExportedModel
from .model import Ids, LanguageModel, MaskedLM

# Rows of the vocabulary projection at a time: 26 MB of logits on a core with a vocabulary of 50,000 tokens. Fewer rows
# would make the product less efficient, as its matrix is read anew for each of these pieces.
_ROWS = {"cpu": 128, "cuda": 2048}


class CausalLM(LanguageModel):
    """A causal language model; see `LanguageModel` for its arguments and attributes."""

    task = Task.TEXT_GENERATION

    def token_logprobs(self, ids: Ids) -> NDArray[np.float32]:
        """The natural logarithm of the probability of each token, given those before it.

        Args:
            ids: int32 [n, L], sentences of one length without masks.

        Returns:
            float32 [n, L - 1], for all tokens but the first, which nothing stands before.

        Raises:
            InputError: An id is outside the vocabulary.
            ValueError: This is a low-precision model.
        """
        if self.precision != REFERENCE:
            raise ValueError(f"log-probabilities of all tokens need the {REFERENCE} graph, not {self.graph.name}")
        ids = np.ascontiguousarray(ids, np.int32)
        self._refuse_unknown(ids)
        n, length = ids.shape
        found = np.empty((n, max(length - 1, 0)), np.float32)
        if found.size == 0:
            return found
        size = self.batch_size(length)
        for start in range(0, n, size):
            some = ids[start : start + size]
            batches: list[Feeds] = [
                {
                    "input_ids": some[part, :-1],
                    "mask_position": np.zeros(len(some[part]), np.int32),
                    "expected_id": np.zeros(len(some[part]), np.int32),
                }
                for part in self._divide(len(some), length - 1)
            ]
            hidden = np.concatenate(self._runner.fetch(HIDDEN, batches)).reshape(some.shape[0] * (length - 1), -1)
            found[start : start + size] = self._project(hidden, some[:, 1:].reshape(-1)).reshape(len(some), -1)
        tally.count(n, length)
        return found

    def _project(self, hidden: NDArray[np.float32], following: Ids) -> NDArray[np.float32]:
        """The log-probability of one token for each row, float32 [rows]."""
        size = _ROWS[self.device.kind]
        pieces = [slice(start, start + size) for start in range(0, len(hidden), size)]
        feeds: list[Feeds] = [{HIDDEN: hidden[piece], "following_id": following[piece]} for piece in pieces]
        return np.concatenate(self._vocabulary.fetch("token_logprobs", feeds))

    @cached_property
    def _vocabulary(self) -> Runner:
        """The vocabulary projection, opened when it is needed first."""
        return self._open(self.exported.vocabulary_graph)

    def _inputs(self, ids: Ids, mask_position: Ids) -> tuple[Ids, Ids]:
        """What stands before the masks, and the last of these rows of each sentence.

        Raises:
            InputError: Nothing stands before a mask, or another mask does.
        """
        if len(ids) == 0:
            return ids, mask_position
        if mask_position.min() < 1:
            raise InputError(
                f"{self.exported.name}: nothing stands before the mask, and its tokenizer does not begin a text with a "
                "token of its own: give words before the mask, or export the model with --bos"
            )
        length = int(mask_position.max())
        read = ids[:, :length]
        behind = np.arange(length) >= mask_position[:, None]
        if behind.any():
            read = np.where(behind, np.int32(0), read)  # rows do not depend on those behind them
        self._refuse_unknown(read)
        return read, mask_position - 1

    def _refuse_unknown(self, ids: Ids) -> None:
        if ids.size and int(ids.max()) >= self.exported.vocab_size:
            raise InputError(
                f"{self.exported.name}: a mask, or another id outside the vocabulary of {self.exported.vocab_size:,}, "
                "stands before the token that is asked for"
            )


def open_language_model(
    exported: ExportedModel,
    device: Device = CPU,
    *,
    graph: Path | None = None,
    batch_tokens: int | None = None,
    threads: int | None = None,
) -> LanguageModel:
    """Open a masked or a causal language model, whichever the export is.

    Args:
        exported: The model.
        device: Where it runs.
        graph: Another graph of it than the fp32 graph for the device.
        batch_tokens: The largest number of tokens in a batch.
        threads: Number of batches that run at the same time on the CPU.

    Raises:
        InputError: As for `LanguageModel`.
    """
    kind = CausalLM if exported.is_causal else MaskedLM
    return kind(exported, device, graph=graph, batch_tokens=batch_tokens, threads=threads)
