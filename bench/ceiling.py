"""What the hardware could do at best: the least work a sentence needs, and the fastest that work can be done.

The least work is counted from the architecture: matrix products alone, 2 m k n operations for m × k by k × n, of an
encoder that computes in its last layer keys and values for all positions, and everything else for the mask's row:

    layer       2 (4 L H² + 2 L H I + 2 L² H)
    last layer  2 (2 L H² + 2 H² + 2 H I + 2 L H)
    head        2 (H E + E V)
    embeddings  2 L E H, where E is not H

for L tokens, hidden size H, feed-forward size I, vocabulary V, width E of the embeddings (H but in ALBERT and ELECTRA).
Where attention has further terms, as in DeBERTa, they are not counted.

The fastest rate is measured: a chain of two products of a feed-forward block, (N × H) (H × I) and (N × I) (I × H), with
nothing between, for the batch's number of tokens N.
"""

import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

from ..engine.device import Device, open_session
from ..export.quiet import quiet

_REPEATS = 12


def least_flops(
    length: float, layers: int, hidden: int, inner: int, vocabulary: int, embedding: int | None = None
) -> float:
    """Operations for one sentence; the module has the formula, in which E is H unless it is given."""
    width = hidden if embedding is None else embedding
    layer = 2 * (4 * length * hidden**2 + 2 * length * hidden * inner + 2 * length**2 * hidden)
    last = 2 * (2 * length * hidden**2 + 2 * hidden**2 + 2 * hidden * inner + 2 * length * hidden)
    widening = 0 if width == hidden else 2 * length * width * hidden
    return widening + (layers - 1) * layer + last + 2 * (hidden * width + width * vocabulary)


def product_rate(device: Device, rows: int, hidden: int, inner: int, kind: str, threads: int | None = None) -> float:
    """Operations a second of the chain of products on a device.

    Args:
        device: where.
        rows: N.
        hidden: H.
        inner: I.
        kind: `fp32`, `int8` (products on 8 bits, scales taken at run time) or `fp16`.
        threads: on the CPU.
    """
    with TemporaryDirectory() as folder:
        path = _chain(Path(folder), hidden, inner, kind)
        session = open_session(path, device, threads)
        x = ort.OrtValue.ortvalue_from_numpy(
            np.random.default_rng(0).normal(size=(rows, hidden)).astype(np.float16 if kind == "fp16" else np.float32),
            device.kind,
            device.index,
        )
        binding = session.io_binding()
        binding.bind_ortvalue_input("x", x)
        binding.bind_output("y", device.kind, device.index)
        seconds = []
        for _ in range(_REPEATS):
            started = time.perf_counter()
            session.run_with_iobinding(binding)
            binding.synchronize_outputs()
            seconds.append(time.perf_counter() - started)
    return 4.0 * rows * hidden * inner / float(np.min(seconds))  # the best of them: a ceiling


def _chain(folder: Path, hidden: int, inner: int, kind: str) -> Path:
    precision = np.float16 if kind == "fp16" else np.float32
    element = TensorProto.FLOAT16 if kind == "fp16" else TensorProto.FLOAT
    random = np.random.default_rng(1)
    weights = {"up": random.normal(size=(hidden, inner)), "down": random.normal(size=(inner, hidden)) / inner}
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "up"], ["wide"]), helper.make_node("MatMul", ["wide", "down"], ["y"])],
        "products",
        [helper.make_tensor_value_info("x", element, ["rows", hidden])],
        [helper.make_tensor_value_info("y", element, ["rows", hidden])],
        [numpy_helper.from_array(values.astype(precision), name) for name, values in weights.items()],
    )
    path = folder / "products.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    if kind != "int8":
        return path
    with quiet():
        quantize_dynamic(path, folder / "int8.onnx", per_channel=True, reduce_range=True, weight_type=QuantType.QInt8)
    return folder / "int8.onnx"
