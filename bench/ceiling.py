"""The ceiling of the hardware: the least work that a sentence needs, and the highest speed for that work.

The highest speed is that of the fastest kernel for a chain of two products of a feed-forward block, whichever library
it is from.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx.parser
import onnxruntime as ort
import torch
from onnx import numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

from ..engine.basics.limits import cpu_threads
from ..engine.inference.batches import Array
from ..engine.inference.devices.webgpu import WebGpu
from ..engine.inference.session import Device
from ..export.quiet import quiet

ROUNDS, _REPEATS = 5, 4
_TORCH = {"fp32": torch.float32, "bf16": torch.bfloat16}


def least_flops(
    length: float, layers: int, hidden: int, inner: int, vocabulary: int, embedding: int | None = None
) -> float:
    """Operations of the matrix products for one sentence, 2 m k n for m × k by k × n.

    In the last layer, an encoder computes keys and values for all positions, and all else for the mask's row. The
    embeddings are as wide as the layers but in ALBERT and ELECTRA.
    """
    width = hidden if embedding is None else embedding
    layer = 2 * (4 * length * hidden**2 + 2 * length * hidden * inner + 2 * length**2 * hidden)
    last = 2 * (2 * length * hidden**2 + 2 * hidden**2 + 2 * hidden * inner + 2 * length * hidden)
    widening = 0 if width == hidden else 2 * length * width * hidden
    return widening + (layers - 1) * layer + last + 2 * (hidden * width + width * vocabulary)


def product_rates(
    device: Device, rows: int, hidden: int, inner: int, kind: str, threads: int | None = None, *, rounds: int = ROUNDS
) -> dict[str, float]:
    """Operations per second of the chain of products on a device, by the kernel that computes it."""
    operators = {"fp32": ("MatMul", "Conv") if device.uses_cores else ("MatMul",), "bf16": ()}.get(kind, ("MatMul",))
    count = threads or cpu_threads() if device.uses_cores else 1
    sizes = (rows, 8 * rows) if device.kind != WebGpu.kind else (rows,)
    rates = {}
    with TemporaryDirectory() as folder, ThreadPoolExecutor(count) as cores:
        for operator in operators:
            session = device.session(_chain(Path(folder), hidden, inner, kind, operator))

            def run(n: int, session: ort.InferenceSession = session) -> float:
                values = np.random.default_rng(0).normal(size=(1, 1, n, hidden))
                values = values.astype(np.float16 if kind == "fp16" else np.float32)
                bound = [_bound(session, device, values) for _ in range(count)]
                seconds = _fastest(lambda times: list(cores.map(partial(_repeat, session, times), bound)), rounds)
                return 4.0 * n * hidden * inner * count / seconds

            rates[operator] = max(map(run, sizes))
    if device.uses_cores and kind in _TORCH:
        rates["PyTorch"] = max(_pytorch_rate(n, count, hidden, inner, rounds, _TORCH[kind]) for n in sizes)
    return rates


def _fastest(repeat: Callable[[int], object], rounds: int) -> float:
    """Seconds of one repetition in the best round, as this is a ceiling."""
    repeat(1)
    seconds = []
    for _ in range(rounds):
        started = time.perf_counter()
        repeat(_REPEATS)
        seconds.append(time.perf_counter() - started)
    return min(seconds) / _REPEATS


def _bound(session: ort.InferenceSession, device: Device, x: Array) -> ort.IOBinding:
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)  # it goes up here, once: that takes longer than the products of a GPU
    binding.bind_output("y", device.kind, device.index)
    return binding


def _repeat(session: ort.InferenceSession, times: int, binding: ort.IOBinding) -> None:
    for _ in range(times):
        session.run_with_iobinding(binding)
    binding.copy_outputs_to_cpu()  # one row: a device gives it when all is computed


def _pytorch_rate(rows: int, count: int, hidden: int, inner: int, rounds: int, dtype: torch.dtype) -> float:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    sizes = (rows, hidden), (hidden, inner), (inner, hidden)
    x, up, down = (torch.randn(size).to(dtype) for size in sizes)

    def repeat(times: int) -> None:
        for _ in range(times):
            x @ up @ down

    seconds = _fastest(repeat, rounds)
    torch.set_num_threads(before)
    return 4.0 * rows * hidden * inner / seconds


_CHAIN = {  # operator → from x to all rows of the result
    "MatMul": "wide = MatMul(x, up) all = MatMul(wide, down)",
    "Conv": """channels = Transpose <perm = [0, 3, 1, 2]> (x)
        wide = Conv <kernel_shape = [1, 1]> (channels, up) back = Conv <kernel_shape = [1, 1]> (wide, down)
        all = Transpose <perm = [0, 2, 3, 1]> (back)""",
}


def _chain(folder: Path, hidden: int, inner: int, kind: str, operator: str = "MatMul") -> Path:
    random, element = np.random.default_rng(1), "float16" if kind == "fp16" else "float"
    weights = {"up": random.normal(size=(hidden, inner)), "down": random.normal(size=(inner, hidden)) / inner}
    if operator == "Conv":
        weights = {name: values.T[:, :, None, None] for name, values in weights.items()}
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]>
        products ({element}[1, 1, rows, {hidden}] x) => ({element}[1, 1, 1, {hidden}] y)
        <int64[1] start = {{0}}, int64[1] end = {{1}}, int64[1] axis = {{2}}>
        {{ {_CHAIN[operator]} y = Slice(all, start, end, axis) }}""")
    for name, values in weights.items():
        own = np.ascontiguousarray(values.astype(np.float16 if kind == "fp16" else np.float32))
        model.graph.initializer.append(numpy_helper.from_array(own, name))
    path = folder / f"{operator}.onnx"
    onnx.save(model, path)
    if kind != "int8":
        return path
    with quiet():
        quantize_dynamic(path, folder / "int8.onnx", per_channel=True, reduce_range=True, weight_type=QuantType.QInt8)
    return folder / "int8.onnx"
