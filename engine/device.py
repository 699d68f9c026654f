"""Where a model runs: choosing a device, and opening an ONNX Runtime session that stays on it.

ONNX Runtime lists its CUDA provider on machines without a GPU and falls back to the CPU without an error. Both are
undone here: a driver is asked for its devices first, and a session on CUDA either runs wholly there or is not opened.
"""

import ctypes
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import onnxruntime as ort

from .errors import InputError


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


def cpu_threads() -> int:
    """Cores that this process may use: fewer than the machine has, inside a container or a batch job."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def open_session(graph: Path, device: Device, threads: int | None = None) -> ort.InferenceSession:
    """Open a session that runs on the device and nowhere else.

    Args:
        graph: an .onnx file.
        device: from `choose_device`.
        threads: threads inside an operator on the CPU; by default one for each core of this process.

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
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    cuda_options = {
        "device_id": str(device.index),
        "use_tf32": "0",  # fp32 is the reference: ten bits of mantissa would not be
        "sdpa_kernel": "1",  # flash attention: cuDNN's plans cost hundreds of milliseconds for each new shape
        "arena_extend_strategy": "kSameAsRequested",
    }
    session = _open(graph, options, [("CUDAExecutionProvider", cuda_options)])
    session.disable_fallback()
    if session.get_providers()[0] != "CUDAExecutionProvider":
        raise InputError(
            f"--device {device}: CUDA does not start here; its libraries come with `pip install negengine[cuda]`"
        )
    return session


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
