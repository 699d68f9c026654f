"""The reference model as simple as can be: one text a call, the export's own tokenizer, the plain fp32 graph, NumPy."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ...basics.errors import InputError, needs_extra
from ...basics.limits import cpu_threads
from ...inference.classifier import SEGMENTS, encode_pairs
from ...inference.devices.cpu import CPU
from ...inference.exported import ExportedModel
from ...library.again import Logits, Reference

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
        self._tokenizer = exported.tokenizer if exported.mask_token else None

    def masked(self, text: str) -> Logits:
        """A text without a mask, or with several, is an `InputError`."""
        if self._tokenizer is None:
            raise InputError(f"{self._exported.name} has no mask token")
        [ids] = self._tokenizer.encode_masked([text])
        return self.at(ids, int(np.flatnonzero(ids == self._tokenizer.mask_id)[0]))

    def at(self, ids: NDArray[np.int32], position: int) -> Logits:
        if self._exported.is_causal:
            ids, position = ids[:position], position - 1
        where = np.array([position], np.int32)
        return self._run({"input_ids": ids[None], "mask_position": where, "expected_id": np.zeros(1, np.int32)})

    def pair(self, first: str, second: str, max_length: int) -> Logits:
        [bucket] = encode_pairs(self._exported, [(first, second)], max_length=max_length).buckets
        return self._run({"input_ids": bucket.ids, SEGMENTS: bucket.segments})

    def _run(self, feeds: dict[str, NDArray[np.int32]]) -> Logits:
        used = {name: values for name, values in feeds.items() if name in self._inputs}
        logits: Logits = self._session.run(["logits"], used)[0][0]
        return logits


def each(items: Sequence[Item], ask: Callable[[Item], Answer], at_once: int) -> list[Answer]:
    """Ask about items one by one, in so many threads."""
    with ThreadPoolExecutor(at_once, "item") as threads:
        return list(threads.map(ask, items))


def torch_reference(checkpoint: str, exported: ExportedModel) -> Reference:
    """The checkpoint (folder, hub id, `mini`) of an exported model in PyTorch; InputError for another one."""
    with needs_extra("export", "--torch"):
        from ....export.reference import torch_reference as load
    return load(checkpoint, exported)
