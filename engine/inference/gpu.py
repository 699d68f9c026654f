"""Batches on a GPU, filled up to some sizes, as each new one costs memory or shaders; halved if they do not fit."""

import threading
from collections.abc import Sequence

import numpy as np
import onnxruntime as ort

from ..basics.errors import InputError, StoppedError, first_line
from . import tally
from .batches import Array, Feeds, Runner, sentences_in
from .session import Device

_FEWEST_SENTENCES = 8
_STEP = 16  # sentences between two sizes of batches, where many sizes may be
_FEWEST_TOKENS = 16  # of a batch that is halved, as of `--batch-tokens`
_OUT_OF_MEMORY = (
    "allocate",
    "out of memory",
    "ALLOC_FAILED",
    "exceeds the max buffer size",
)  # of ONNX Runtime, CUDA, WebGPU
_LOST = ("lost", "removed", "hung", "wait for the operation", "mapasync")  # of WebGPU and its drivers
_BROKEN = ("cuda failure", "cublas failure", "cudnn failure")  # of CUDA: after one, every later call fails, too


def rounded_up(n: int, full: int) -> int:
    """What a batch of n sentences is filled up to: 8 or more, 1 or 1½ times a power of two, at most a full batch."""
    n = max(n, _FEWEST_SENTENCES)
    power = 1 << (n - 1).bit_length()
    return min(full, power * 3 // 4 if n <= power * 3 // 4 else power)


class Filled(Runner):
    """Batches are filled up with their first sentence, and halved when they do not fit the device's memory."""

    def __init__(self, session: ort.InferenceSession, device: Device, batch_tokens: int, at_a_time: int) -> None:
        super().__init__(session, at_a_time, str(device))
        self._device, self._lock = device, threading.Lock()
        self._tokens = self._wanted = batch_tokens

    def run_one(self, outputs: Sequence[str], feeds: Feeds) -> list[Array]:
        while True:
            tokens, first = self._tokens, next(iter(feeds.values()))
            if first.dtype == np.int32:
                full = sentences_in(tokens, first.shape[1])
            else:  # rows of hidden states, which have no length
                full = max(1, self._device.rows * tokens // self._wanted)
            try:
                parts = [
                    self.filled(outputs, {name: array[start : start + full] for name, array in feeds.items()}, full)
                    for start in range(0, len(first), full)
                ]
            except Exception as error:  # noqa: BLE001 - ONNX Runtime's exceptions share no base class
                self._with_less(tokens, full, error)
            else:
                return parts[0] if len(parts) == 1 else [np.concatenate(own) for own in zip(*parts, strict=True)]

    def _size(self, n: int, full: int) -> int:
        """What a batch of n sentences is filled up to."""
        return rounded_up(n, full) if self._device.few_sizes else min(full, -(-n // _STEP) * _STEP)

    def filled(self, outputs: Sequence[str], feeds: Feeds, full: int) -> list[Array]:
        """What a device gives for one batch, which it fills up if its sizes are few."""
        binding, n = self._session.io_binding(), len(next(iter(feeds.values())))
        missing = self._size(n, full) - n
        for name, array in feeds.items():
            binding.bind_cpu_input(name, np.concatenate([array, array[:1].repeat(missing, axis=0)]))
        for name in outputs:
            binding.bind_output(name)  # to the CPU; others stay where they are
        self._session.run_with_iobinding(binding, self._options)
        return [array[:n] for array in binding.copy_outputs_to_cpu()]

    def _with_less(self, tokens: int, full: int, error: Exception) -> None:
        """Halve the batches if they did not fit the memory; else raise the error, in one line if it can be told so."""
        said = first_line(error)
        if any(sign in str(error) for sign in _OUT_OF_MEMORY):
            if full == 1 or tokens <= _FEWEST_TOKENS:
                raise InputError(f"--device {self._device}: one sentence does not fit its memory: {said}")
            with self._lock:
                if tokens == self._tokens:  # else another thread was faster
                    self._tokens //= 2
                    tally.say(
                        f"{self._device}: batches of {tokens} tokens do not fit its memory, so it goes on with "
                        f"{self._tokens}; --batch-tokens {self._tokens} begins with them"
                    )
            return
        if any(sign in str(error).lower() for sign in (*_LOST, *_BROKEN)):
            raise StoppedError(f"--device {self._device}: the device was lost ({said})") from error
        raise error
