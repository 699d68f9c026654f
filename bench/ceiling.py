"""The ceiling of the hardware: the least work that a sentence needs, and the highest speed for that work.

The least work is counted from the architecture: matrix products alone, 2 m k n operations for m × k by k × n, of an
encoder that computes in its last layer keys and values for all positions, and everything else for the mask's row:

    layer       2 (4 L H² + 2 L H I + 2 L² H)
    last layer  2 (2 L H² + 2 H² + 2 H I + 2 L H)
    head        2 (H E + E V)
    embeddings  2 L E H, where E is not H

for L tokens, hidden size H, feed-forward size I, vocabulary V, width E of the embeddings (H but in ALBERT and ELECTRA).
Where attention has further terms, as in DeBERTa, they are not counted.

The fastest rate is measured: a chain of two products of a feed-forward block, (N × H) (H × I) and (N × I) (I × H), with
nothing between, for N tokens in a batch and eight times as many, by every kernel at hand: ONNX Runtime's products and,
on the CPU in fp32, its 1 × 1 convolutions and PyTorch's products; in bf16, PyTorch's products alone. The fastest kernel
is the ceiling, whichever library it is from.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
import onnxruntime as ort
import torch
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

from ..engine.inference.device import CPU, Device, cpu_threads
from ..engine.inference.session import open_session
from ..export.quiet import quiet

ROUNDS, _REPEATS = 5, 4
_TORCH = {"fp32": torch.float32, "bf16": torch.bfloat16}


def least_flops(
    length: float, layers: int, hidden: int, inner: int, vocabulary: int, embedding: int | None = None
) -> float:
    """Operations for one sentence; the module has the formula, in which E is H unless it is given."""
    width = hidden if embedding is None else embedding
    layer = 2 * (4 * length * hidden**2 + 2 * length * hidden * inner + 2 * length**2 * hidden)
    last = 2 * (2 * length * hidden**2 + 2 * hidden**2 + 2 * hidden * inner + 2 * length * hidden)
    widening = 0 if width == hidden else 2 * length * width * hidden
    return widening + (layers - 1) * layer + last + 2 * (hidden * width + width * vocabulary)


def product_rates(
    device: Device, rows: int, hidden: int, inner: int, kind: str, threads: int | None = None, *, rounds: int = ROUNDS
) -> dict[str, float]:
    """Operations per second of the chain of products on a device, by the kernel that computes it."""
    operators = {"fp32": ("MatMul", "Conv") if device == CPU else ("MatMul",), "bf16": ()}.get(kind, ("MatMul",))
    count = threads or cpu_threads() if device == CPU else 1
    rates = {}
    with TemporaryDirectory() as folder:
        for operator in operators:
            session = open_session(_chain(Path(folder), hidden, inner, kind, operator), device, threads=1)
            rates[operator] = max(
                _rate(session, device, n, count, hidden, inner, kind, rounds) for n in (rows, 8 * rows)
            )
    if device == CPU and kind in _TORCH:
        rates["PyTorch"] = max(_pytorch_rate(n, count, hidden, inner, rounds, _TORCH[kind]) for n in (rows, 8 * rows))
    return rates


def _rate(
    session: ort.InferenceSession,
    device: Device,
    rows: int,
    count: int,
    hidden: int,
    inner: int,
    kind: str,
    rounds: int,
) -> float:
    values = np.random.default_rng(0).normal(size=(1, 1, rows, hidden))
    x = ort.OrtValue.ortvalue_from_numpy(
        values.astype(np.float16 if kind == "fp16" else np.float32), device.kind, device.index
    )

    def repeat(times: int) -> None:
        binding = session.io_binding()
        binding.bind_ortvalue_input("x", x)
        binding.bind_output("y", device.kind, device.index)
        for _ in range(times):
            session.run_with_iobinding(binding)
        binding.synchronize_outputs()

    with ThreadPoolExecutor(count) as cores:
        list(cores.map(repeat, [1] * count))
        seconds = []
        for _ in range(rounds):
            started = time.perf_counter()
            list(cores.map(repeat, [_REPEATS] * count))
            seconds.append(time.perf_counter() - started)
    return 4.0 * rows * hidden * inner * count * _REPEATS / min(seconds)  # the best of them: a ceiling


def _pytorch_rate(rows: int, count: int, hidden: int, inner: int, rounds: int, dtype: torch.dtype) -> float:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    sizes = (rows, hidden), (hidden, inner), (inner, hidden)
    x, up, down = (torch.randn(size).to(dtype) for size in sizes)
    seconds = []
    for _ in range(rounds + 1):
        started = time.perf_counter()
        for _ in range(_REPEATS):
            x @ up @ down
        seconds.append(time.perf_counter() - started)
    torch.set_num_threads(before)
    return 4.0 * rows * hidden * inner * _REPEATS / min(seconds)


def _chain(folder: Path, hidden: int, inner: int, kind: str, operator: str = "MatMul") -> Path:
    precision = np.float16 if kind == "fp16" else np.float32
    element = TensorProto.FLOAT16 if kind == "fp16" else TensorProto.FLOAT
    random = np.random.default_rng(1)
    weights = {"up": random.normal(size=(hidden, inner)), "down": random.normal(size=(inner, hidden)) / inner}
    nodes = [helper.make_node("MatMul", ["x", "up"], ["wide"]), helper.make_node("MatMul", ["wide", "down"], ["y"])]
    if operator == "Conv":
        weights = {name: values.T[:, :, None, None] for name, values in weights.items()}
        nodes = [
            helper.make_node("Transpose", ["x"], ["channels"], perm=[0, 3, 1, 2]),
            helper.make_node("Conv", ["channels", "up"], ["wide"], kernel_shape=[1, 1]),
            helper.make_node("Conv", ["wide", "down"], ["back"], kernel_shape=[1, 1]),
            helper.make_node("Transpose", ["back"], ["y"], perm=[0, 2, 3, 1]),
        ]
    graph = helper.make_graph(
        nodes,
        "products",
        [helper.make_tensor_value_info("x", element, [1, 1, "rows", hidden])],
        [helper.make_tensor_value_info("y", element, [1, 1, "rows", hidden])],
        [numpy_helper.from_array(np.ascontiguousarray(v.astype(precision)), name) for name, v in weights.items()],
    )
    path = folder / f"{operator}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    if kind != "int8":
        return path
    with quiet():
        quantize_dynamic(path, folder / "int8.onnx", per_channel=True, reduce_range=True, weight_type=QuantType.QInt8)
    return folder / "int8.onnx"
