"""The reference model as simple as can be: one sentence a call, in fp32, through the export's own tokenizer.

Runs compose token ids, group sentences by length, run batches, read decisions that the graph has made, and may use a
graph rewritten for CPUs. Here a text is tokenized, the plain fp32 graph gives all its logits, and NumPy does the rest.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from ...files.reading import file_sha256
from ...inference.classifier import SEGMENTS, encode_pairs
from ...inference.device import CPU, cpu_threads
from ...inference.exported import CONVOLVED, LOW_PRECISION, ExportedModel
from ...inference.session import open_session

Logits = NDArray[np.float32]
Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Reference(Protocol):
    """A model that is asked one text, or one pair of texts, at a time."""

    @property
    def name(self) -> str:
        """What decides, for the table."""

    @property
    def at_once(self) -> int:
        """How many texts may be asked at the same time, in threads."""

    def masked(self, text: str) -> Logits:
        """The logits at the mask of a text with the model's own mask token, float32 [V]."""

    def at(self, ids: NDArray[np.int32], position: int) -> Logits:
        """The logits of the token at a position, float32 [V].

        Args:
            ids: int32 [L]. A masked model finds its mask at the position; a causal model reads only what stands before.
            position: Where the token is.
        """

    def pair(self, first: str, second: str, max_length: int) -> Logits:
        """The logits of a pair of texts, float32 [labels]."""


class ExportedReference:
    """The fp32 graph of an export.

    Args:
        exported: The model.

    Raises:
        InputError: A file that is used is missing or damaged, or the graph does not load.
    """

    name = "the reference model"
    at_once = cpu_threads()

    def __init__(self, exported: ExportedModel) -> None:
        _refuse_damaged(exported)
        self._exported = exported
        self._session = open_session(exported.graph, CPU, threads=1)
        self._inputs = {value.name for value in self._session.get_inputs()}
        self._tokenizer = exported.tokenizer if exported.mask_token else None

    def masked(self, text: str) -> Logits:
        """See `Reference`.

        Raises:
            InputError: The text has no mask, or several.
        """
        if self._tokenizer is None:
            raise InputError(f"{self._exported.name} has no mask token")
        [ids] = self._tokenizer.encode_masked([text])
        return self.at(ids, int(np.flatnonzero(ids == self._tokenizer.mask_id)[0]))

    def at(self, ids: NDArray[np.int32], position: int) -> Logits:
        """See `Reference`."""
        if self._exported.is_causal:
            ids, position = ids[:position], position - 1
        where = np.array([position], np.int32)
        return self._run({"input_ids": ids[None], "mask_position": where, "expected_id": np.zeros(1, np.int32)})

    def pair(self, first: str, second: str, max_length: int) -> Logits:
        """See `Reference`."""
        [bucket] = encode_pairs(self._exported, [(first, second)], max_length=max_length).buckets
        return self._run({"input_ids": bucket.ids, SEGMENTS: bucket.segments})

    def _run(self, feeds: dict[str, NDArray[np.int32]]) -> Logits:
        used = {name: values for name, values in feeds.items() if name in self._inputs}
        logits: Logits = self._session.run(["logits"], used)[0][0]
        return logits


def each(items: Sequence[Item], ask: Callable[[Item], Answer], at_once: int) -> list[Answer]:
    """Ask about items one by one.

    Args:
        items: What to ask about.
        ask: Takes one item; several threads call it.
        at_once: How many threads.
    """
    with ThreadPoolExecutor(at_once, "item") as threads:
        return list(threads.map(ask, items))


def _refuse_damaged(exported: ExportedModel) -> None:
    """Compare the files that are used with their digests; unlike `verify_files`, this writes nothing anywhere."""
    others = (*LOW_PRECISION.values(), CONVOLVED)
    for name, digest in exported.info["files"].items():
        if not name.startswith(others):
            _refuse_unlike(exported.folder / name, digest)


def _refuse_unlike(path: Path, digest: str) -> None:
    if file_sha256(path) != digest:
        raise InputError(f"{path} is damaged (its sha256 is not that in export.json): export it again with --force")
