"""The reference model as simple as can be: one text a call, the export's own tokenizer, the plain fp32 graph, NumPy."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...basics.errors import InputError, needs_extra
from ...basics.limits import cpu_threads
from ...basics.named import plugged
from ...inference.again import Logits, Reading, Reference
from ...inference.classifier import SEGMENTS, encode_pairs
from ...inference.devices.cpu import CPU
from ...inference.exported import ExportedModel
from ...inference.judge import log_softmax
from ...inference.spans import Encoder, Ids, Sentence, beginnings, behind
from ...text.spelling import trimmed
from ...text.tokenizer import MaskTokenizer

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class ExportedReference:
    """The fp32 graph of an export, or another one by its name; one that does not load is an `InputError`."""

    name = "the reference model"
    at_once = cpu_threads()

    def __init__(self, exported: ExportedModel, graph: str = "") -> None:
        self._exported = exported
        self._session = CPU.session(exported.folder / graph if graph else exported.graph)
        self._inputs = {value.name for value in self._session.get_inputs()}

    def masked(
        self, text: str, filled: Sequence[int] = (), masks: int = 1, query: int = 0, *, bos: bool = False
    ) -> Logits:
        """A text without a mask, or with several, is an `InputError`."""
        tokenizer = self._tokenizer(bos=bos)
        [ids] = tokenizer.encode_masked([text])
        mask = int(np.flatnonzero(ids == tokenizer.mask_id)[0])
        every = [*ids[:mask], *filled, *[tokenizer.mask_id] * masks, *ids[mask + 1 :]]
        return self.at(np.array(every, np.int32), mask + query)

    def words(self, text: str, words: Sequence[str], *, bos: bool = False) -> list[tuple[int, ...]]:
        tokenizer = self._tokenizer(bos=bos)
        before, _, after = text.partition(tokenizer.mask_token)
        found = tokenizer.word_sequences([(before, after)] * len(words), words)
        return [() if isinstance(own, str) else own for own in found]

    @cached_property
    def openings(self) -> tuple[list[int], list[int]]:
        spaced, others = beginnings(self._exported)
        return spaced.tolist(), others.tolist()

    def span(
        self, before: str | None, text: str, joiner: str | None, how: Reading
    ) -> Iterator[tuple[NDArray[np.float64], int, int]]:
        whole, given = text, _ = trimmed(text), 0
        if before is not None:
            whole, given = behind(trimmed(before), text, joiner)
        encoder = Encoder(self._tokenizer(bos=how.bos), self._exported.is_causal)
        [sentence] = encoder.encode([whole], [given])
        sentence = encoder.alone(sentence) if how.alone else sentence
        mask_id, longest, first = encoder.tokenizer.mask_id, self._exported.max_length, sentence.content.start
        before_text = len(whole) - len(text)

        def logprobs(position: int) -> NDArray[np.float64]:
            ids, place = sentence.ids.copy(), position
            if not encoder.is_causal:
                later = (np.arange(len(ids)) > position) & (sentence.word == sentence.word[position]) & how.by_word
                ids[later & (sentence.word >= 0)] = mask_id
                ids[position] = mask_id
            if len(ids) > longest:
                ids, place = _window(sentence, ids, position, longest, is_causal=encoder.is_causal)
            return log_softmax(self.at(ids, place))

        # Where nothing stands before the first token of a causal model's text, it has no score.
        if first not in sentence.scored and (how.alone or not given):
            nothing = np.full(self._exported.vocab_size, np.nan)
            yield nothing, int(sentence.ids[first]), int(sentence.start[first]) - before_text
        for position in sentence.scored.tolist():
            yield logprobs(position), int(sentence.ids[position]), int(sentence.start[position]) - before_text
        if how.ends:
            yield logprobs(sentence.content.stop), 0, len(text)

    def at(self, ids: NDArray[np.int32], position: int) -> Logits:
        """At a position of int32 [L], float32 [V]; a causal model reads only what stands before."""
        if self._exported.is_causal:
            ids, position = ids[:position], position - 1
        where = np.array([position], np.int32)
        return self._run({"input_ids": ids[None], "mask_position": where, "expected_id": np.zeros(1, np.int32)})

    def pair(self, first: str, second: str, max_length: int) -> Logits:
        [bucket] = encode_pairs(self._exported, [(first, second)], max_length=max_length).buckets
        return self._run({"input_ids": bucket.ids, SEGMENTS: bucket.segments})

    def _tokenizer(self, *, bos: bool) -> MaskTokenizer:
        if not self._exported.mask_token:
            raise InputError(f"{self._exported.name} has no mask token")
        return self._exported.tokenizer_with(bos=bos)

    def _run(self, feeds: dict[str, NDArray[np.int32]]) -> Logits:
        used = {name: values for name, values in feeds.items() if name in self._inputs}
        logits: Logits = self._session.run(["logits"], used)[0][0]
        return logits


def _window(sentence: Sentence, ids: Ids, position: int, longest: int, *, is_causal: bool) -> tuple[Ids, int]:
    """The window of a token of a long sentence, and the token's place in it."""
    first, stop = sentence.content.start, sentence.content.stop
    room = longest - first - (len(ids) - stop)
    if is_causal:
        start, step = first, max(1, room // 2)
        while start + room <= position:
            start += step
    else:
        start = min(max(position - room // 2, first), stop - room)
    kept = [*range(first), *range(start, min(start + room, stop)), *range(stop, len(ids))]
    return ids[kept], kept.index(position)


def each(items: Sequence[Item], ask: Callable[[Item], Answer], at_once: int) -> list[Answer]:
    """Ask about items one by one, in so many threads."""
    with ThreadPoolExecutor(at_once, "item") as threads:
        return list(threads.map(ask, items))


def other_reader() -> tuple[Callable[..., Any], Callable[..., str | None], Callable[..., str]]:
    """What reads a user's table as an outsider: its rows, what a cell says, and how a person sees a text."""
    with needs_extra("export", "--torch"):
        return plugged("rows of a table"), plugged("what a cell says"), plugged("what a person sees")


def torch_reference(checkpoint: str, exported: ExportedModel) -> Reference:
    """The checkpoint (folder, hub id, `mini`) of an exported model in PyTorch; InputError for another one."""
    with needs_extra("export", "--torch"):
        found: Reference = plugged("PyTorch")(checkpoint, exported)
    return found
