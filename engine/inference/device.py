"""Where a model runs: choosing a device, and opening an ONNX Runtime session that stays on it.

ONNX Runtime lists its CUDA provider on machines without a GPU and falls back to the CPU without an error, as a whole or
operator by operator. All that is undone here: a driver is asked for its devices first, and a session on CUDA either
runs there, but for arithmetic with shapes, or is not opened.
"""

import ctypes
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime as ort

from ..errors import InputError


@dataclass(frozen=True)
class Device:
    """`cpu`, or one CUDA device by its index."""

    kind: str
    index: int = 0

    def __str__(self) -> str:
        return self.kind if self.kind == "cpu" else f"{self.kind}:{self.index}"


CPU = Device("cpu")


def choose_device(wanted: str) -> Device:
    """Turn `auto`, `cpu`, `cuda` or `cuda:1` into a device that exists.

    Raises:
        InputError: another word, or a CUDA device that is not there.
    """
    if wanted == "cpu":
        return CPU
    match = re.fullmatch(r"auto|cuda(?::(\d+))?", wanted)
    if match is None:
        raise InputError(f"--device {wanted}: give auto, cpu, cuda or cuda:INDEX")
    missing = missing_for_cuda()
    if wanted == "auto":
        return CPU if missing else Device("cuda")
    if missing:
        raise InputError(f"--device {wanted}: {missing}")
    device = Device("cuda", int(match[1] or 0))
    if device.index >= (count := cuda_devices()):
        raise InputError(f"--device {wanted}: there is no such device, the driver lists {count} (from cuda:0 on)")
    return device


def missing_for_cuda() -> str | None:
    """What is missing to run on CUDA, as a clause with its remedy; None if nothing is."""
    if "CUDAExecutionProvider" not in ort.get_available_providers():
        return "this ONNX Runtime has no CUDA provider: install onnxruntime-gpu in place of onnxruntime"
    if cuda_devices() == 0:
        return "no CUDA device or no NVIDIA driver on this machine: use --device cpu"
    return None


def cuda_devices() -> int:
    """Number of CUDA devices that the driver lists; 0 without a driver."""
    try:
        driver = ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value


def cuda_memory(device: Device) -> int | None:
    """Bytes of a CUDA device's memory; None if the driver does not tell."""
    try:
        driver = ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")
    except OSError:
        return None
    number, total = ctypes.c_int(0), ctypes.c_size_t(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGet(ctypes.byref(number), device.index) != 0:
        return None
    if driver.cuDeviceTotalMem_v2(ctypes.byref(total), number) != 0:
        return None
    return total.value or None


def cpu_threads() -> int:
    """Cores that this process may use: fewer than the machine has, inside a container or a batch job."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def prefers_convolutions() -> bool:
    """Whether ONNX Runtime's 1 × 1 convolutions are faster than its products here: on processors with AVX-512.

    Judged by the processor and not by a measurement, so that a run that is resumed goes on with the same graph.
    """
    found = np.show_config(mode="dicts")["SIMD Extensions"]["found"]
    return not {"AVX512F", "X86_V4"}.isdisjoint(found)  # NumPy calls it one or the other, by version


_MEMORY_SHARE = 0.45  # of a device, for one session: a run at mixed precision has two


def open_session(
    graph: Path, device: Device, threads: int | None = None, cuda_options: Mapping[str, str] | None = None
) -> ort.InferenceSession:
    """Open a session that runs on the device and nowhere else.

    Args:
        graph: an .onnx file.
        device: from `choose_device`.
        threads: threads inside an operator on the CPU; by default one for each core of this process.
        cuda_options: of ONNX Runtime's CUDA provider, beyond those that every session here has.

    Raises:
        InputError: the graph does not load, or not wholly on CUDA.
    """
    options = ort.SessionOptions()
    options.log_severity_level = 3
    if device.kind == "cpu":
        options.intra_op_num_threads = threads or cpu_threads()
        return _open(graph, options, ["CPUExecutionProvider"], _SLOWER_ON_CPU)
    if hasattr(ort, "preload_dlls"):
        ort.preload_dlls()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    chosen = {
        "device_id": str(device.index),
        "use_tf32": "0",  # fp32 is the reference: ten bits of mantissa would not be
        "arena_extend_strategy": "kSameAsRequested",
        **({"gpu_mem_limit": str(int(memory * _MEMORY_SHARE))} if (memory := cuda_memory(device)) else {}),
        **(cuda_options or {}),
    }
    session = _open(graph, options, [("CUDAExecutionProvider", chosen)])
    session.disable_fallback()
    if session.get_providers()[0] != "CUDAExecutionProvider":
        raise InputError(
            f"--device {device}: CUDA does not start here; its libraries come with `pip install negengine[cuda]`"
        )
    if left := on_cpu(session) - _SHAPE_ARITHMETIC:
        raise InputError(f"{graph}: CUDA does not take {', '.join(sorted(left))} of this model: use --device cpu")
    return session


# What may stay on the CPU in a session on CUDA: counting with a few numbers. The option of ONNX Runtime that forbids
# the CPU altogether forbids most of these as well.
_SHAPE_ARITHMETIC = frozenset(
    [
        *("Shape", "Gather", "Slice", "Squeeze", "Unsqueeze", "Concat", "Reshape", "Range", "Cast"),
        *("Add", "Sub", "Mul", "Div", "Sqrt", "Max", "Min", "Equal", "Not", "Where"),
    ]
)


def on_cpu(session: ort.InferenceSession) -> set[str]:
    """The operators that a session on CUDA leaves to the CPU."""
    placed = session.get_provider_graph_assignment_info()
    return {node.op_type for group in placed if group.ep_name == "CPUExecutionProvider" for node in group.get_nodes()}


def run_options() -> ort.RunOptions:
    """Options for runs that compute what is asked for alone: `logits` is an output too, and its copy would cost."""
    options = ort.RunOptions()
    options.only_execute_path_to_fetches = True
    return options


# Fusions whose CPU kernels take longer than the operators that they replace: on 2,040 × 384 values
# SkipLayerNormalization took 3.1 ms, the sums and the LayerNormalization 1.2; BiasGelu 5.5 ms against 3.1 (2 cores).
_SLOWER_ON_CPU = ("SkipLayerNormFusion", "BiasGeluFusion")


def _open(
    graph: Path, options: ort.SessionOptions, providers: list[object], without: Sequence[str] = ()
) -> ort.InferenceSession:
    try:
        return ort.InferenceSession(
            str(graph), options, providers=providers, disabled_optimizers=list(without), enable_fallback=0
        )
    except Exception as error:  # noqa: BLE001 - ONNX Runtime's exceptions share no base class
        raise InputError(f"{graph}: ONNX Runtime does not open it: {str(error).splitlines()[0]}") from None
