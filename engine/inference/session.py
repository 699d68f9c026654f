"""Open an ONNX Runtime session that runs on the chosen device only.

ONNX Runtime lists its CUDA provider on machines without a GPU, and falls back to the CPU without an error: as a whole,
or operator by operator. This module does not allow that. A session for CUDA runs on CUDA, except for arithmetic with
shapes. If that is not possible, the session is not opened, and the error says why.
"""

import ctypes
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import onnxruntime as ort

from ..basics.errors import InputError, first_line
from .device import Device, cpu_threads, cuda_memory

_MEMORY_SHARE = 0.45  # of a device, for one session: a run at mixed precision has two
# Fusions whose CPU kernels take longer than the operators that they replace: on 2,040 × 384 values
# SkipLayerNormalization took 3.1 ms, the sums and the LayerNormalization 1.2; BiasGelu 5.5 ms against 3.1 (2 cores).
_SLOWER_ON_CPU = ("SkipLayerNormFusion", "BiasGeluFusion")
# What may stay on the CPU in a session on CUDA: counting with a few numbers. The option of ONNX Runtime that forbids
# the CPU altogether forbids most of these as well.
_SHAPE_ARITHMETIC = frozenset(
    [
        *("Shape", "Gather", "Slice", "Squeeze", "Unsqueeze", "Concat", "Reshape", "Range", "Cast"),
        *("Add", "Sub", "Mul", "Div", "Sqrt", "Max", "Min", "Equal", "Not", "Where"),
    ]
)


def open_session(
    graph: Path, device: Device, threads: int | None = None, cuda_options: Mapping[str, str] | None = None
) -> ort.InferenceSession:
    """Open a session that runs on this device only; `threads` are inside an operator, on the CPU one for each core.

    Raises:
        InputError: The graph does not load, or not wholly on CUDA.
    """
    options = ort.SessionOptions()
    options.log_severity_level = 4  # its errors are raised too; it would write them with colours of its own
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    if device.kind == "cpu":
        options.intra_op_num_threads = threads or cpu_threads()
        session = _open(graph, options, ["CPUExecutionProvider"], _SLOWER_ON_CPU)
        give_back_freed_memory()
        return session
    if hasattr(ort, "preload_dlls"):
        ort.preload_dlls()
    chosen = {
        "device_id": str(device.index),
        "use_tf32": "0",  # fp32 is the reference: ten bits of mantissa would not be
        "arena_extend_strategy": "kSameAsRequested",
        **({"gpu_mem_limit": str(int(memory * _MEMORY_SHARE))} if (memory := cuda_memory(device.index)) else {}),
        **(cuda_options or {}),
    }
    session = _open(graph, options, [("CUDAExecutionProvider", chosen)])
    session.disable_fallback()
    if session.get_providers()[0] != "CUDAExecutionProvider":
        raise InputError(
            f"--device {device}: CUDA does not start here; its libraries come with `pip install negengine[cuda]`"
        )
    if refused := set(placed(session).get("CPUExecutionProvider", {})) - _SHAPE_ARITHMETIC:
        raise InputError(f"{graph}: CUDA cannot run {', '.join(sorted(refused))} of this model: use --device cpu")
    return session


def placed(session: ort.InferenceSession) -> dict[str, Counter[str]]:
    """Provider → how many nodes of each operator it runs, of a session from `open_session`."""
    found: dict[str, Counter[str]] = {}
    for group in session.get_provider_graph_assignment_info():
        found.setdefault(group.ep_name, Counter()).update(node.op_type for node in group.get_nodes())
    return found


def run_options() -> ort.RunOptions:
    """Options for runs that compute only what is asked for: `logits` is an output too, and its copy would cost time."""
    options = ort.RunOptions()
    options.only_execute_path_to_fetches = True
    return options


def _open(
    graph: Path, options: ort.SessionOptions, providers: list[object], without: Sequence[str] = ()
) -> ort.InferenceSession:
    try:
        return ort.InferenceSession(
            str(graph), options, providers=providers, disabled_optimizers=list(without), enable_fallback=0
        )
    except Exception as error:  # noqa: BLE001 - ONNX Runtime's exceptions share no base class
        raise InputError(f"{graph}: ONNX Runtime cannot open it: {first_line(error)}") from None


def give_back_freed_memory() -> None:
    """Ask the C library for the memory that was freed; nothing happens where it cannot (it is not glibc).

    While ONNX Runtime opens a graph, it rewrites and packs the weights. Without this, the C library keeps the memory of
    their first copies: of a model of 65 MB, 68 of 138 MB.
    """
    if (trim := _malloc_trim()) is not None:
        trim(0)


@cache
def _malloc_trim() -> Any:
    try:
        return getattr(ctypes.CDLL(None), "malloc_trim", None)
    except (OSError, TypeError):  # Windows has no library of the process itself
        return None
