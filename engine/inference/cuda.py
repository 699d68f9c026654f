"""Batches on a CUDA device: several runs at the same time on one session.

A forward pass launches about 130 kernels, and each launch takes about 5 µs. A batch of 10,000 tokens or more computes
for longer than its launches take. ONNX Runtime gives each run its own stream and releases Python's lock, so that one
batch is copied while another is computed. ONNX Runtime keeps memory for each shape that it has seen, so batches are
filled up to a few sizes.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnxruntime as ort

from ..basics.errors import InputError
from .batches import INPUTS, OUTPUTS, Advance, Array, Batch, Feeds, Runner, sentences_in
from .device import Device
from .session import open_session

STREAMS = 3  # batches that run at the same time: one batch is copied, one is computed, one is prepared
_FEWEST_SENTENCES = 8
_OUT_OF_MEMORY = ("Failed to allocate memory", "out of memory")  # messages of ONNX Runtime, of CUDA


def open_batches(graph: Path, device: Device, batch_tokens: int, *, half: bool) -> Runner:
    """Open a graph of a finished export on a CUDA device; `half`: it computes in fp16.

    Raises:
        InputError: It does not load, or not wholly on CUDA.
    """
    return Streams(open_session(graph, device, cuda_options=attention_options(half=half)), device, batch_tokens)


def attention_options(*, half: bool) -> dict[str, str]:
    """The option of ONNX Runtime's CUDA provider for the kernel that computes attention; `half`: the graph is in fp16.

    3 is flash attention, and the memory-efficient kernel for attention with a bias, which flash does not have. The
    kernel of cuDNN, the default on new devices, takes hundreds of milliseconds to plan each new shape. 16 is unfused
    attention, as on the CPU: fp32 is the reference.
    """
    return {"sdpa_kernel": "3" if half else "16"}


def rounded_up(n: int, full: int) -> int:
    """The number of sentences that a batch of n is filled up to, at most a full batch.

    It is 1 or 1½ times a power of two, and 8 or more: 15 sizes up to 1,024 sentences. So above 8 sentences at most a
    third of the work is wasted.
    """
    n = max(n, _FEWEST_SENTENCES)
    power = 1 << (n - 1).bit_length()
    return min(full, power * 3 // 4 if n <= power * 3 // 4 else power)


class Streams(Runner):
    """Several runs at the same time on one session; batches are filled up with their first sentence."""

    def __init__(
        self, session: ort.InferenceSession, device: Device, batch_tokens: int, streams: int = STREAMS
    ) -> None:
        super().__init__(session, streams, f"{device} streams")
        self._device, self._batch_tokens = device, batch_tokens

    def _run_one(self, outputs: Sequence[str], feeds: Feeds) -> list[Array]:
        with self._memory_explained():
            return super()._run_one(outputs, feeds)

    def _run(self, batch: Batch, advance: Advance) -> None:
        missing = rounded_up(len(batch), sentences_in(self._batch_tokens, batch.length)) - len(batch)
        filled = [np.concatenate([array, array[:1].repeat(missing, axis=0)]) for array in batch.inputs]
        for own, found in zip(
            batch.outputs, self._run_one(OUTPUTS, dict(zip(INPUTS, filled, strict=True))), strict=True
        ):
            own[:] = found[: len(batch)]
        advance(len(batch))

    @contextmanager
    def _memory_explained(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if any(sign in str(error) for sign in _OUT_OF_MEMORY):
                raise InputError(
                    f"--device {self._device}: batches of {self._batch_tokens} tokens do not fit its memory: give "
                    f"--batch-tokens {max(16, self._batch_tokens // 2)}"
                ) from error
            raise
