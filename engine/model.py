"""An exported masked language model on a device: token ids in, decisions out.

All sentences of a call have the same number of tokens, so nothing is padded and no attention mask exists. What comes
back per sentence is six numbers, computed inside the graph (`negengine.export.passes.head`); the logits over the
vocabulary stay where they are. IO binding writes them straight into the result on the CPU; on CUDA, ids go into device
buffers that are allocated once for each length, and decisions come out of such buffers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from .device import CPU, Device, open_session
from .exported import ExportedModel

Ids = NDArray[np.int32]

# Tokens in a batch: enough rows for a core's matrix products to be at their best, and on a GPU enough work to hide the
# launching of kernels (about 130 of them a batch in a model of 12 layers).
BATCH_TOKENS = {"cpu": 4096, "cuda": 16384}


@dataclass(frozen=True)
class Decisions:
    """What a model decided about n sentences.

    Attributes:
        ids: int32 [n, 2], columns top-1 token and rank of the expected token.
        logits: float32 [n, 4], columns top-1, runner-up, expected token, log-sum-exp over the vocabulary.
    """

    ids: NDArray[np.int32]
    logits: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def top1(self) -> NDArray[np.int32]:
        """The token with the highest logit; the smaller id where two are equal."""
        return self.ids[:, 0]

    @property
    def expected_rank(self) -> NDArray[np.int32]:
        """1 + the number of tokens with a larger logit than the expected one."""
        return self.ids[:, 1]

    @property
    def top1_logprob(self) -> NDArray[np.float32]:
        """Natural logarithm of the top-1 token's probability."""
        return self.logits[:, 0] - self.logits[:, 3]

    @property
    def expected_logprob(self) -> NDArray[np.float32]:
        """Natural logarithm of the expected token's probability."""
        return self.logits[:, 2] - self.logits[:, 3]

    def repeated(self, expected: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Whether the top-1 is the expected token: the decision of the Self-Contained Negation Test."""
        same: NDArray[np.bool_] = self.top1 == expected
        return same

    def margin(self, expected: NDArray[np.int32]) -> NDArray[np.float32]:
        """Expected token's logit minus the best other's: its sign is the decision, its size how far from flipping."""
        best_other = np.where(self.repeated(expected), self.logits[:, 1], self.logits[:, 0])
        margin: NDArray[np.float32] = self.logits[:, 2] - best_other
        return margin

    def put(self, rows: NDArray[np.int64], other: "Decisions") -> None:
        """Overwrite some rows."""
        self.ids[rows], self.logits[rows] = other.ids, other.logits

    @classmethod
    def empty(cls, n: int) -> "Decisions":
        """Room for n decisions, their values undefined."""
        return cls(np.empty((n, 2), np.int32), np.empty((n, 4), np.float32))


class Decider(Protocol):
    """Anything that decides about sentences of one length."""

    def decide(self, ids: Ids, mask_position: Ids, expected: Ids) -> Decisions:
        """Decide about n sentences of L tokens.

        Args:
            ids: int32 [n, L], C-contiguous, special tokens included.
            mask_position: int32 [n], where the mask is.
            expected: int32 [n], the token whose logit and rank are asked for.
        """


class MaskedLM:
    """One session of an exported model on one device; batches of a fixed number of tokens."""

    def __init__(
        self,
        exported: ExportedModel,
        device: Device = CPU,
        *,
        graph: Path | None = None,
        batch_tokens: int | None = None,
        threads: int | None = None,
    ) -> None:
        self.exported = exported
        self.device = device
        self.batch_tokens = batch_tokens or BATCH_TOKENS[device.kind]
        self._session = open_session(graph or exported.graph, device, threads)
        self._run_options = ort.RunOptions()
        # `logits` is an output too: without this its computation would not cost, but its copy would.
        self._run_options.only_execute_path_to_fetches = True
        self._on_device: dict[int, _DeviceBuffers] = {}

    def decide(self, ids: Ids, mask_position: Ids, expected: Ids) -> Decisions:
        """Decide about n sentences of one length, in batches; see `Decider`."""
        ids, mask_position, expected = (np.ascontiguousarray(a, np.int32) for a in (ids, mask_position, expected))
        decisions = Decisions.empty(len(ids))
        size = self.batch_size(ids.shape[1])
        run = self._run_on_cpu if self.device.kind == "cpu" else self._run_on_cuda
        for start in range(0, len(ids), size):
            batch = slice(start, start + size)
            run(ids[batch], mask_position[batch], expected[batch], decisions.ids[batch], decisions.logits[batch])
        return decisions

    def batch_size(self, length: int) -> int:
        """Sentences of this length in a batch."""
        return max(1, self.batch_tokens // length)

    def logits(self, ids: Ids, mask_position: Ids) -> NDArray[np.float32]:
        """All logits at the mask, float32 [n, V]; for few sentences, as they all come back from the device."""
        feeds = {"input_ids": ids, "mask_position": mask_position, "expected_id": np.zeros_like(mask_position)}
        size = self.batch_size(ids.shape[1])
        batches: Sequence[NDArray[np.float32]] = [
            self._session.run(["logits"], {k: v[i : i + size] for k, v in feeds.items()}, self._run_options)[0]
            for i in range(0, len(ids), size)
        ]
        return np.concatenate(batches)

    def _run_on_cpu(self, *arrays: NDArray[np.generic]) -> None:
        binding = self._session.io_binding()
        for name, array in zip(_TENSORS, arrays, strict=True):
            bind = binding.bind_input if name in _INPUTS else binding.bind_output
            bind(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
        self._session.run_with_iobinding(binding, self._run_options)

    def _run_on_cuda(self, ids: Ids, *others: NDArray[np.generic]) -> None:
        length = ids.shape[1]
        if length not in self._on_device:
            self._on_device[length] = _DeviceBuffers(self._session, self.device, self.batch_size(length), length)
        self._on_device[length].run(self._run_options, ids, *others)


_INPUTS = ("input_ids", "mask_position", "expected_id")
_TENSORS = (*_INPUTS, "decision_ids", "decision_logits")


class _DeviceBuffers:
    """Inputs and outputs of one batch shape, allocated on the device once and bound once.

    A smaller last batch is filled up by repeating its first sentence: shapes stay few, and so does memory.
    """

    def __init__(self, session: ort.InferenceSession, device: Device, batch: int, length: int) -> None:
        self._session, self._batch = session, batch
        shapes = {"input_ids": (batch, length), "decision_ids": (batch, 2), "decision_logits": (batch, 4)}
        self._values = {
            name: ort.OrtValue.ortvalue_from_shape_and_type(
                shapes.get(name, (batch,)),
                np.float32 if name == "decision_logits" else np.int32,
                device.kind,
                device.index,
            )
            for name in _TENSORS
        }
        self._binding = session.io_binding()
        for name, value in self._values.items():
            (self._binding.bind_ortvalue_input if name in _INPUTS else self._binding.bind_ortvalue_output)(name, value)

    def run(self, options: ort.RunOptions, *arrays: NDArray[np.generic]) -> None:
        """Copy up, run, copy down: three inputs, then two outputs that are written into."""
        n = len(arrays[0])
        for name, array in zip(_INPUTS, arrays[:3], strict=True):
            filled = array if n == self._batch else np.concatenate([array, array[:1].repeat(self._batch - n, axis=0)])
            self._values[name].update_inplace(np.ascontiguousarray(filled))
        self._session.run_with_iobinding(self._binding, options)
        for name, array in zip(_TENSORS[3:], arrays[3:], strict=True):
            array[:] = self._values[name].numpy()[:n]
