"""An exported causal language model: it predicts the next token from those before it.

It answers the same calls as a masked model. A sentence is its token ids up to and including a mask, which has an id
outside the vocabulary (`CausalTokenizer`). Only what stands before the mask is read.

All verbs of one [NAME, PROF] pair follow each other in a run, and their sentences share the first half of their tokens.
The keys and values of these tokens are computed once for a group (`common_prefixes`): with gpt2's shape, 85 sentences
of 15 tokens that share 9 take 0.39 of the time (one thread).
"""

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..basics.choices import Task
from ..basics.errors import InputError
from . import tally
from .batches import INPUTS, OUTPUTS, Advance, Feeds, Runner, Steps, finished, sentences_in
from .cpu import CPU
from .exported import HIDDEN, REFERENCE, VOCABULARY, ExportedModel, graph_precision
from .model import Asked, Decisions, Ids, LanguageModel, MaskedLM
from .session import Device

_WORTH_IT = 0.8  # share of the tokens that may be left to compute
_FEWEST_TOKENS = 64  # of the rest of a group's sentences, on average: less would make products inefficient


@dataclass(frozen=True, eq=False)
class Groups:
    """Neighbouring sentences that begin alike."""

    length: int  # how many first tokens the sentences of a group share
    bounds: NDArray[np.int64]  # [groups + 1], the first sentence of each group, and the number of sentences


def common_prefixes(ids: NDArray[np.int32]) -> Groups | None:
    """The groups of int32 [n, L] with the fewest tokens to compute; None where that is not worth it."""
    n, length = ids.shape
    if n < 2 or length < 2:
        return None
    differs = ids[1:] != ids[:-1]
    first = np.where(differs.any(axis=1), differs.argmax(axis=1), length)  # column where a sentence begins to differ
    shared = np.arange(1, length)
    groups = 1 + np.cumsum(np.bincount(first, minlength=length))[: length - 1]
    tokens = groups * shared + n * (length - shared)
    best = int(tokens.argmin())
    if tokens[best] > _WORTH_IT * n * length or n * (length - shared[best]) < _FEWEST_TOKENS * groups[best]:
        return None
    starts = np.flatnonzero(first < shared[best]) + 1
    return Groups(int(shared[best]), np.concatenate([[0], starts, [n]]))


class CausalLM(LanguageModel):
    """A causal language model: it reads only what stands before the mask."""

    task = Task.TEXT_GENERATION

    def token_logprobs(self, ids: Ids) -> NDArray[np.float32]:
        return finished(self.scoring_tokens(ids))

    def scoring_tokens(self, ids: Ids) -> Steps[NDArray[np.float32]]:
        """The natural logarithm of the probability of all tokens but the first, each given those before it.

        From ids int32 [n, L] without masks to float32 [n, L - 1]. A second graph projects some rows at a time to the
        vocabulary, so memory does not grow with the number of tokens times the size of the vocabulary.

        Raises:
            InputError: An id is outside the vocabulary.
            ValueError: This is a low-precision model.
        """
        if graph_precision(self.graph) != REFERENCE:
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
            nothing = np.zeros(len(some), np.int32)
            batches: list[Feeds] = [
                dict(zip(INPUTS, (some[part, :-1], nothing[part], nothing[part]), strict=True))
                for part in self.divide(len(some), length - 1)
            ]
            rows = np.concatenate([hidden for (hidden,) in (yield from self._runner.fetching([HIDDEN], batches))])
            hidden = rows.reshape(len(some) * (length - 1), -1)
            logprobs = yield from self._projecting(hidden, some[:, 1:].reshape(-1))
            found[start : start + size] = logprobs.reshape(len(some), -1)
        tally.count(n, length)
        return found

    def _projecting(self, hidden: NDArray[np.float32], following: Ids) -> Steps[NDArray[np.float32]]:
        """The log-probability of one token for each row, float32 [rows]."""
        size = self.device.rows
        pieces = [slice(start, start + size) for start in range(0, len(hidden), size)]
        feeds: list[Feeds] = [{HIDDEN: hidden[piece], "following_id": following[piece]} for piece in pieces]
        found = yield from self._vocabulary.fetching(["token_logprobs"], feeds)
        return np.concatenate([logprobs for (logprobs,) in found])

    @cached_property
    def _vocabulary(self) -> Runner:
        return self._open(self.exported.folder / VOCABULARY)

    def _running(self, asked: Asked, decisions: Decisions, advance: Advance) -> Steps[None]:
        ids, mask_position, expected = asked
        sharing = self._sharing
        groups = common_prefixes(ids) if sharing else None
        if sharing is None or groups is None or int(mask_position.min()) < groups.length:
            yield from super()._running(asked, decisions, advance)
            return
        parts = [part for bounds in pairwise(groups.bounds.tolist()) for part in self._parts(*bounds, ids, groups)]
        feeds: list[Feeds] = [
            {
                "prefix_ids": ids[part.start : part.start + 1, : groups.length],
                "suffix_ids": ids[part, groups.length :],
                "mask_position": mask_position[part],
                "expected_id": expected[part],
            }
            for part in parts
        ]
        for part, (top, logits) in zip(parts, (yield from sharing.fetching(OUTPUTS, feeds)), strict=True):
            decisions.ids[part], decisions.logits[part] = top, logits
        advance(len(ids))

    def _parts(self, start: int, stop: int, ids: Ids, groups: Groups) -> list[slice]:
        """A group in batches of about the same size."""
        most = sentences_in(self.batch_tokens, ids.shape[1] - groups.length)
        size = math.ceil((stop - start) / math.ceil((stop - start) / most))
        return [slice(first, min(first + size, stop)) for first in range(start, stop, size)]

    @cached_property
    def _sharing(self) -> Runner | None:
        graph = self.exported.sharing_prefixes(self.graph) if self.device.uses_cores else None
        return None if graph is None else self._open(graph)

    def _inputs(self, ids: Ids, mask_position: Ids) -> tuple[Ids, Ids]:
        """What stands before the masks, and the last row of each sentence; refused if empty, or with another mask."""
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


def open_language_model(exported: ExportedModel, device: Device = CPU, **options: Any) -> LanguageModel:
    """Open a masked or a causal language model, whichever the export is; arguments and errors as for `OpenedModel`."""
    return (CausalLM if exported.is_causal else MaskedLM)(exported, device, **options)
