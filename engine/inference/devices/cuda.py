"""CUDA devices: what NVIDIA's driver tells of them, their sessions, several runs at the same time on each.

The C library of the driver is asked, not NVML: that ignores CUDA_VISIBLE_DEVICES, counts a GPU that is divided into MIG
instances as one, and is missing in many containers.
"""

import ctypes
import io
import os
import re
from contextlib import redirect_stdout, suppress
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import onnxruntime as ort

from ...basics.errors import InputError
from ...basics.versions import requirement
from ..batches import Runner
from ..exported import FP16, REFERENCE, graph_precision
from ..gpu import Filled
from ..session import Device, open_session, refuse_cpu_nodes

STREAMS = 3  # batches that run at the same time: one batch is copied, one is computed, one is prepared
_MEMORY_SHARE = 0.45  # of a device, for one session: a run at mixed precision has two
_PROVIDER = "CUDAExecutionProvider"
_DRIVER = Path("/proc/driver/nvidia/version")
_ERRORS = 3  # the least severity of what the logger says


class Cuda(Device):
    """A CUDA device, as the driver numbers those that this process may use."""

    kind: ClassVar[str] = "cuda"
    batch_tokens: ClassVar[int] = 16384  # it hides the time that launching the kernels takes
    rows: ClassVar[int] = 2048
    at_once: ClassVar[int] = 2**15  # a part: its close calls are batches that a GPU is worth
    few_sizes: ClassVar[bool] = False
    preference: ClassVar[int | None] = 1
    low_graph: ClassVar[str | None] = FP16

    @classmethod
    def missing(cls) -> str | None:
        if _PROVIDER not in ort.get_available_providers():
            return f"this ONNX Runtime has no CUDA: pip uninstall onnxruntime, then pip install {requirement('cuda')}"
        if not cls.count():
            return "no CUDA device or no NVIDIA driver on this machine: use --device cpu"
        if (version := cuda_version()) is not None and _first(version) < _first(_built_for()):
            return (
                f"NVIDIA's driver supports CUDA {version}, and this ONNX Runtime needs {_built_for()}: install a newer "
                "driver, or use --device cpu"
            )
        if (why := cls().no_kernels()) is not None and all(cls(index).no_kernels() for index in range(cls.count())):
            return why
        lacking = f"cuDNN 9 is missing, which attention needs: pip install {requirement('cuda')}"
        return None if has_cudnn() else lacking

    @classmethod
    def count(cls) -> int:
        driver, count = _driver(), ctypes.c_int(0)
        return 0 if driver is None or driver.cuDeviceGetCount(ctypes.byref(count)) != 0 else count.value

    def no_kernels(self) -> str | None:
        """Why ONNX Runtime cannot compute on this device, though it finds it; None if it can, or is not known to."""
        major, minor = (_attribute(number, self.index) for number in _CAPABILITY)
        if major is None or minor is None or not ort.__version__.startswith(_KNOWN_VERSION):
            return None
        if any(major == known and minor >= least for known, least in _KERNELS):
            return None
        return (
            f"ONNX Runtime {ort.__version__} has no kernels for this GPU (compute capability {major}.{minor}): use "
            "another GPU, or --device cpu"
        )

    def hardware(self) -> dict[str, Any]:
        memory = cuda_memory(self.index)
        found = {
            "hardware": cuda_text("cuDeviceGetName", self.index),
            "memory GiB": round(memory / 2**30, 1) if memory else None,
            "driver": driver_version(),
            "CUDA": cuda_version(),
        }
        return {key: value for key, value in found.items() if value is not None}

    def session(self, graph: Path, options: ort.SessionOptions | None = None) -> ort.InferenceSession:
        if lacking := self.no_kernels() or self.missing():
            raise InputError(f"--device {self}: {lacking}")
        chosen = {
            "device_id": str(self.index),
            "use_tf32": "0",  # fp32 is the reference: ten bits of mantissa would not be
            "arena_extend_strategy": "kSameAsRequested",
            # The memory-efficient kernel in fp16: on sentences of 17 tokens it takes half the time of flash attention,
            # whose tiles have 128. In fp32 unfused attention, as on the CPU. The kernel of cuDNN, the default on new
            # devices, takes hundreds of milliseconds to plan each new shape. Sentences a second of bert-base's shape
            # in fp16 on an H200: 102,000; flash 87,500; unfused 84,800; cuDNN's 62,700 to 79,200.
            "sdpa_kernel": "16" if graph_precision(graph) == REFERENCE else "2",
            **({"gpu_mem_limit": str(int(memory * _MEMORY_SHARE))} if (memory := cuda_memory(self.index)) else {}),
        }
        ort.set_default_logger_severity(_ERRORS)  # with each session it warns that CUDA is not a plugin
        session = open_session(graph, options or ort.SessionOptions(), providers=[(_PROVIDER, chosen)])
        if session.get_providers()[0] != _PROVIDER:
            raise InputError(
                f"--device {self}: CUDA does not start here; pip install {requirement('cuda')} has its libraries"
            )
        refuse_cpu_nodes(session, graph, "CUDA")
        return session

    def low_precision_speed(self) -> float:
        major, minor = (_attribute(number, self.index) for number in _CAPABILITY)
        return _HALF_SPEED.get(f"{major}.{minor}", _LEAST_HALF_SPEED)

    def runner(self, graph: Path, batch_tokens: int, at_a_time: int) -> Runner:  # noqa: ARG002
        return Filled(self.session(graph), self, batch_tokens, STREAMS)


DEVICE = Cuda

# Compute capability → how many times as fast the fp16 graph is as the fp32 one, without TF32. Measured on an H200: 7.2,
# which is 0.49 of the ratio of its data sheet (989 and 67 TFLOP/s). The same share is assumed for T4 (65 and 8.1) and
# A100 (312 and 19.5). A10 (125 and 31.2) and L4 (121 and 30.3) have four times, but RTX 3090, 4090 and 5090 two, and
# nothing tells them apart.
_HALF_SPEED = {"7.5": 3.9, "8.0": 7.8, "9.0": 7.2}
_LEAST_HALF_SPEED = 2.0
# Compute capabilities for which the wheel of this version has machine code. It has nothing that a driver could compile.
# Code of one runs on later ones with the same first number: none for 10.0 (B200).
_KNOWN_VERSION, _KERNELS = "1.31.", ((7, 5), (8, 0), (9, 0), (12, 0))
_CAPABILITY = (75, 76)  # the numbers of its two parts among the driver's attributes of a device


def driver_version() -> str | None:
    """The version of NVIDIA's driver, such as `580.95.05`; None where the system does not tell."""
    with suppress(OSError):
        if found := re.search(r"Module.*?\s([0-9]+(?:\.[0-9]+)+)\s", _DRIVER.read_text()):
            return found[1]
    return None


_LIBRARY = "nvcuda.dll" if os.name == "nt" else "libcuda.so.1"
_LONGEST_TEXT = 256  # bytes of a name or an address


def cuda_memory(index: int) -> int | None:
    """Bytes of a CUDA device's memory; None if the driver does not report it."""
    total = ctypes.c_size_t(0)
    return (total.value or None) if _told("cuDeviceTotalMem_v2", index, ctypes.byref(total)) else None


def cuda_text(function: str, index: int) -> str | None:
    """What a function of the driver tells of a CUDA device as text, such as its name; None if it does not report it."""
    text = ctypes.create_string_buffer(_LONGEST_TEXT)
    told = _told(function, index, text, _LONGEST_TEXT)
    return (text.value.decode(errors="replace") or None) if told else None


def cuda_version() -> str | None:
    """The newest version of CUDA that the driver supports, such as `13.0`; None without a driver."""
    driver, version = _driver(), ctypes.c_int(0)
    if driver is None or driver.cuDriverGetVersion(ctypes.byref(version)) != 0:
        return None
    return f"{version.value // 1000}.{version.value % 1000 // 10}"


def _driver() -> Any:
    """The driver's library, initialised; None if it is missing or does not start."""
    try:
        driver = ctypes.CDLL(_LIBRARY)
    except OSError:
        return None
    return driver if driver.cuInit(0) == 0 else None


def _built_for() -> str:
    """The version of CUDA that this ONNX Runtime was built for, such as `13.0`; its first number counts."""
    return str(getattr(ort, "cuda_version", None) or "0")


def _first(version: str) -> int:
    return int(version.partition(".")[0])


@cache
def has_cudnn() -> bool:
    """Whether cuDNN can be loaded: ONNX Runtime itself looks for it in the first attention, in the middle of a run."""
    if hasattr(ort, "preload_dlls"):
        with redirect_stdout(io.StringIO()):  # it prints what it does not find
            ort.preload_dlls()  # those of Python packages
    try:
        return bool(ctypes.CDLL("cudnn64_9.dll" if os.name == "nt" else "libcudnn.so.9"))
    except OSError:
        return False


def _attribute(number: int, index: int) -> int | None:
    """A number that the driver tells of a device; None if it does not."""
    found = ctypes.c_int(0)
    return found.value if _told("cuDeviceGetAttribute", index, ctypes.byref(found), number) else None


def _told(function: str, index: int, *result: Any) -> bool:
    driver, device = _driver(), ctypes.c_int(0)
    if driver is None or driver.cuDeviceGet(ctypes.byref(device), index) != 0:
        return False
    return hasattr(driver, function) and bool(getattr(driver, function)(*result, device) == 0)
