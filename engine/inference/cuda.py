"""Batches on a CUDA device: as parallel streams if batches are large, as CUDA graphs if they are small.

A forward pass launches about 130 kernels, and each launch takes about 5 µs. A batch of 10,000 tokens or more computes
for longer than its launches take. Then `Streams` runs several batches at the same time on one session: ONNX Runtime
gives each run its own stream and releases Python's lock, so that one batch is copied while another is computed. With
fewer than 4,000 tokens the GPU would wait for the launches. Then `Graphs` records the launches once for each sentence
length (this is called capturing a CUDA graph) and later starts all of them at once (replaying it).

A replay always uses the memory addresses that were recorded. If other buffers are bound at that time, it ignores them,
reads and writes the old ones, and reports no error. Only the thread that captured a graph may replay it. During a
capture no other thread may allocate memory or wait for the device. Therefore each captured length has buffers of its
own, one thread does all work of a session, and a capture runs while nothing else uses the device.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import onnxruntime as ort

from ..basics.errors import InputError
from .batches import INPUTS, OUTPUTS, WIDTHS, Advance, Array, Batch, Feeds, Runner, sentences_in
from .device import Device
from .session import on_cpu, open_session, run_options

REPLAYED_TOKENS = 4096  # batches of at most this many tokens are captured as graphs
STREAMS = 3  # batches that run at the same time: one batch is copied, one is computed, one is prepared
_MOST_GRAPHS = 64  # lengths with a graph: each keeps its memory until the session is closed
_FEWEST_SENTENCES = 8


def open_batches(graph: Path, device: Device, batch_tokens: int, *, half: bool) -> Runner:
    """Open a graph of a finished export on a CUDA device; `half`: it computes in fp16.

    Raises:
        InputError: It does not load, or not wholly on CUDA.
    """
    options = attention_options(half=half)
    if batch_tokens <= REPLAYED_TOKENS:
        # ONNX Runtime refuses to capture operators on the CPU, or a replay would skip them.
        with suppress(InputError):
            session = open_session(graph, device, cuda_options=options | {"enable_cuda_graph": "1"})
            if not on_cpu(session):
                return Graphs(session, device, batch_tokens)
    return Streams(open_session(graph, device, cuda_options=options), device, batch_tokens)


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


class _Work:
    """A lock: any number of threads work on the GPU, or one captures and nothing else runs."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running = 0
        self._capturing = False

    @contextmanager
    def beside_others(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._capturing)
            self._running += 1
        try:
            yield
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._capturing)
            self._capturing = True
            self._changed.wait_for(lambda: self._running == 0)
        try:
            yield
        finally:
            with self._changed:
                self._capturing = False
                self._changed.notify_all()


_WORK = _Work()  # one for the process: what any session does makes a capture fail


class Streams(Runner):
    """Large batches: several runs at the same time on one session."""

    def __init__(
        self, session: ort.InferenceSession, device: Device, batch_tokens: int, streams: int = STREAMS
    ) -> None:
        super().__init__(streams, f"{device} streams")
        self._session, self._device, self._batch_tokens = session, device, batch_tokens
        self._options = run_options()

    def _run_one(self, outputs: Sequence[str], feeds: Feeds) -> list[Array]:
        with _WORK.beside_others(), _memory_explained(self._device, self._batch_tokens):
            found: list[Array] = self._session.run([*outputs], feeds, self._options)
        return found

    def _run(self, batch: Batch, advance: Advance) -> None:
        size = rounded_up(len(batch), sentences_in(self._batch_tokens, batch.length))
        feeds = dict(zip(INPUTS, batch.filled_up(size), strict=True))
        with _WORK.beside_others(), _memory_explained(self._device, self._batch_tokens):
            batch.take(self._session.run([*OUTPUTS], feeds, self._options))
        advance(len(batch))


class Graphs(Runner):
    """Small batches: a CUDA graph is captured at the first batch of each length, then replayed."""

    def __init__(self, session: ort.InferenceSession, device: Device, batch_tokens: int) -> None:
        super().__init__(1, f"{device} graphs")
        self._session, self._device, self._batch_tokens = session, device, batch_tokens
        self._buffers: dict[int, Buffers] = {}

    def _run(self, batch: Batch, advance: Advance) -> None:
        if batch.length not in self._buffers:
            size = sentences_in(self._batch_tokens, batch.length)
            number = len(self._buffers) + 1
            graph = number if number <= _MOST_GRAPHS else None
            self._buffers[batch.length] = Buffers(self._session, self._device, size, batch.length, graph)
        with _memory_explained(self._device, self._batch_tokens):
            self._buffers[batch.length].run(batch)
        advance(len(batch))

    def _run_one(self, outputs: Sequence[str], feeds: Feeds) -> list[Array]:
        with _WORK.beside_others(), _memory_explained(self._device, self._batch_tokens):
            found: list[Array] = self._session.run([*outputs], feeds, _run_options(None))
        return found


class Buffers:
    """Inputs and outputs of one batch shape, allocated on the device once and bound once.

    `graph` is the number, from 1 on, of the CUDA graph that is captured with them; None captures none.
    """

    def __init__(
        self, session: ort.InferenceSession, device: Device, size: int, length: int, graph: int | None = None
    ) -> None:
        self.size, self.length, self.graph = size, length, graph
        self._session = session
        self._captured = graph is None
        self._options = _run_options(graph)
        self._binding = session.io_binding()
        with _WORK.beside_others():
            self._inputs = [
                self._allocate((size, length) if name == "input_ids" else (size,), np.int32, device) for name in INPUTS
            ]
            self._outputs = [
                self._allocate((size, WIDTHS[name]), np.int32 if name == "decision_ids" else np.float32, device)
                for name in OUTPUTS
            ]
        for name, value in zip(INPUTS, self._inputs, strict=True):
            self._binding.bind_ortvalue_input(name, value)
        for name, value in zip(OUTPUTS, self._outputs, strict=True):
            self._binding.bind_ortvalue_output(name, value)

    @staticmethod
    def _allocate(shape: tuple[int, ...], kind: type[np.generic], device: Device) -> ort.OrtValue:
        return ort.OrtValue.ortvalue_from_shape_and_type(shape, kind, device.kind, device.index)

    def run(self, batch: Batch) -> None:
        """Copy the inputs to the device, run, copy the decisions back.

        Raises:
            ValueError: the batch is of another length, or too large.
        """
        if batch.length != self.length:
            raise ValueError(f"sentences of {batch.length} tokens do not fit buffers for {self.length}")
        filled = batch.filled_up(self.size)
        with _WORK.beside_others() if self._captured else _WORK.alone():
            for value, array in zip(self._inputs, filled, strict=True):
                value.update_inplace(array)
            self._session.run_with_iobinding(self._binding, self._options)
            batch.take([value.numpy() for value in self._outputs])
        self._captured = True


def _run_options(graph: int | None) -> ort.RunOptions:
    """Options to capture or replay a CUDA graph by its number, or to run without one."""
    options = run_options()
    options.add_run_config_entry("gpu_graph_id", str(-1 if graph is None else graph))
    return options


_OUT_OF_MEMORY = ("Failed to allocate memory", "out of memory")  # messages of ONNX Runtime, of CUDA


@contextmanager
def _memory_explained(device: Device, batch_tokens: int) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if any(sign in str(error) for sign in _OUT_OF_MEMORY):
            raise InputError(
                f"--device {device}: batches of {batch_tokens} tokens do not fit its memory: give --batch-tokens "
                f"{max(16, batch_tokens // 2)}"
            ) from error
        raise
