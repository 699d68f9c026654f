"""An exported causal language model, which answers the calls of a masked one from what stands before the mask.

The keys and values of tokens that neighbouring sentences share are computed once (`common_prefixes`): with gpt2's
shape, 85 sentences of 15 tokens that share 9 take 0.39 of the time (one thread).
"""

import math
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..basics.choices import Task
from ..basics.errors import InputError
from . import tally
from .batches import Advance, Feeds, Runner, RunOne, Steps, ignored, sentences_in, slices
from .devices.cpu import CPU
from .exported import HIDDEN, REFERENCE, SHARING_PREFIXES, TREES, VOCABULARY, ExportedModel, graph_precision
from .model import Asked, Ids, LanguageModel, MaskedLM
from .session import Device
from .trees import LONGEST_TREE, Questions, Run, by_length, trees

LOGPROBS, LOGITS = "token_logprobs", "logits"  # outputs of the vocabulary's graph, beside those of a decision
_WORTH_IT = 0.8  # share of the tokens that may be left to compute
_FEWEST_TOKENS = 64  # of the rest of a group's sentences, on average: less would make products inefficient


def common_prefixes(ids: NDArray[np.int32]) -> tuple[int, list[int]] | None:
    """How many tokens of int32 [n, L] groups share at best, and the bounds of the groups; None if not worth it."""
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
    return int(shared[best]), [0, *starts.tolist(), n]


class CausalLM(LanguageModel):
    """A causal language model: it reads only what stands before the mask."""

    task = Task.TEXT_GENERATION
    opens_at_once = False  # each graph holds all weights; likelihoods, verbs and single sentences take one each

    @property
    def _shares(self) -> bool:  # graphs that share beginnings are for ONNX Runtime's own kernels
        return self.device.uses_cores and self.device.is_reference

    def following(
        self,
        texts: Sequence[Ids],
        asked: Questions,
        outputs: Sequence[str],
        put: Callable[..., None],
        advance: Advance = ignored,
    ) -> Steps[None]:
        """What the model says about tokens that follow some tokens of texts, in fp32; what texts share is read once.

        Several threads call `put` with numbers of questions, which of the answers is that of each, and the answers: an
        array for each of the `outputs` of the vocabulary's graph. So a few answers are in memory at a time. They call
        `advance` with numbers of different texts. InputError for an id outside the vocabulary, or nothing before a
        token; ValueError in low precision.
        """
        owner, place, expected = asked
        if not self.follows:
            raise ValueError(f"log-probabilities of all tokens need the {REFERENCE} graph, not {self.graph.name}")
        if not len(owner):
            return
        if place.min() < 0:
            raise self._nothing_before()
        self._refuse_unknown(np.concatenate([*texts, expected]))
        keys = [text.astype(">u4").tobytes() for text in texts]
        number = {key: number for number, key in enumerate(sorted(set(keys)))}
        owner = np.array([number[key] for key in keys])[owner]
        vocabulary, size = self._vocabulary, self.device.rows

        def answer(run: Run, read: RunOne) -> None:
            (hidden,) = read([HIDDEN], run.feeds())
            rows = hidden.reshape(-1, hidden.shape[-1])
            own = np.flatnonzero(np.isin(owner, run.texts))
            row = run.row[np.searchsorted(run.texts, owner[own]), place[own]]
            different, at = np.unique(row * self.exported.vocab_size + expected[own], return_inverse=True)
            for start in range(0, len(different), size):
                row, token = np.divmod(different[start : start + size], self.exported.vocab_size)
                here = np.flatnonzero(at // size == start // size)
                feeds: Feeds = {HIDDEN: rows[row], "following_id": token.astype(np.int32)}
                put(own[here], at[here] - start, *vocabulary.read(outputs, feeds))
            tally.count(len(run.texts), tokens=run.ids.size)
            advance(len(run.texts))

        different_texts = [np.frombuffer(key, ">u4").astype(np.int32) for key in number]
        lengths = [len(text) for text in different_texts]
        fewest = self.device.fewest_tokens
        if self._trees is not None and max(lengths) <= LONGEST_TREE:
            most = min(self.batch_tokens, fewest, self.exported.max_length)  # a line has a place in each table
            runner, runs = self._trees, trees(different_texts, most)
        else:
            share = max(fewest, sum(lengths) // self.device.together)
            runner, runs = self._runner, by_length(different_texts, min(self.batch_tokens, share))
        yield from runner.working([partial(answer, run) for run in sorted(runs, key=lambda run: -run.ids.size)])

    @property
    def follows(self) -> bool:  # whether `following` can be asked: its graph of the vocabulary is in fp32
        return graph_precision(self.graph) == REFERENCE

    @cached_property
    def _trees(self) -> Runner | None:
        graph = self.exported.held(TREES.get(self.graph.name, "")) if self._shares else None
        return None if graph is None else self._open(graph)

    @cached_property
    def _vocabulary(self) -> Runner:
        return self._open(self.exported.folder / VOCABULARY)

    def _parts(self, asked: Asked) -> tuple[Runner, Sequence[tuple[slice, Feeds]]]:
        ids, mask_position, expected = asked
        sharing = self._sharing
        groups = common_prefixes(ids) if sharing else None
        if sharing is None or groups is None or int(mask_position.min()) < groups[0]:
            return super()._parts(asked)
        shared, bounds = groups
        parts, most = [], sentences_in(self.batch_tokens, ids.shape[1] - shared)
        for start, stop in pairwise(bounds):  # a group in batches of about the same size
            size = math.ceil((stop - start) / math.ceil((stop - start) / most))
            parts += [slice(start + part.start, start + part.stop) for part in slices(stop - start, size)]
        feeds: list[Feeds] = [
            {
                "suffix_ids": ids[part, shared:],
                "prefix_ids": ids[part.start : part.start + 1, :shared],
                "mask_position": mask_position[part],
                "expected_id": expected[part],
            }
            for part in parts
        ]
        return sharing, [*zip(parts, feeds, strict=True)]

    @cached_property
    def _sharing(self) -> Runner | None:
        graph = self.exported.held(SHARING_PREFIXES.get(self.graph.name, "")) if self._shares else None
        return None if graph is None else self._open(graph)

    def _inputs(self, ids: Ids, mask_position: Ids) -> tuple[Ids, Ids]:
        """What stands before the masks, and the last row of each sentence; refused if empty, or with another mask."""
        if len(ids) == 0:
            return ids, mask_position
        if mask_position.min() < 1:
            raise self._nothing_before()
        length = int(mask_position.max())
        read = ids[:, :length]
        behind = np.arange(length) >= mask_position[:, None]
        if behind.any():
            read = np.where(behind, np.int32(0), read)  # rows do not depend on those behind them
        self._refuse_unknown(read)
        return read, mask_position - 1

    def _nothing_before(self) -> InputError:
        return InputError(
            f"{self.exported.name}: nothing stands before the mask, and its tokenizer does not begin a text with a "
            "token of its own: give words before the mask, or export the model with --bos"
        )

    def _refuse_unknown(self, ids: Ids) -> None:
        if ids.size and int(ids.max()) >= self.exported.vocab_size:
            raise InputError(
                f"{self.exported.name}: a mask, or another id outside the vocabulary of {self.exported.vocab_size:,}, "
                "stands before the token that is asked for"
            )


def open_language_model(exported: ExportedModel, device: Device = CPU, **options: Any) -> LanguageModel:
    """Open a masked or a causal language model, whichever the export is; arguments and errors as for `OpenedModel`."""
    return (CausalLM if exported.is_causal else MaskedLM)(exported, device, **options)
