"""How much memory and disk an export needs, estimated from the checkpoint's size and checked before the work starts."""

import struct
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import huggingface_hub
import msgspec
import psutil
from huggingface_hub.errors import HfHubHTTPError
from requests import RequestException

from ..engine.errors import InputError
from ..engine.files.listing import paths_in
from .checkpoint import Source

_FP32 = 4
_WIDTHS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1}
_WEIGHTS = (".safetensors", ".bin")

# Measured on two cores with checkpoints of 0.35 to 2.24 GB: Python with its libraries, and what a session for the CPU
# holds of each weight at its peak.
_MEMORY_OF_LIBRARIES = 0.9e9
_MEMORY_PER_WEIGHT = 3.2


@dataclass(frozen=True)
class Needs:
    """Bytes of memory and of disk."""

    memory: float
    disk: float

    def __str__(self) -> str:
        return f"needs about {self.memory / 1e9:.1f} GB of memory and {self.disk / 1e9:.1f} GB of disk"


def estimate(source: Source, graphs: float) -> Needs | None:
    """What exporting a checkpoint needs; None if its size cannot be told.

    Args:
        source: the checkpoint.
        graphs: size of all graphs that are written, as a multiple of the weights in fp32.
    """
    weights = _fp32_bytes(source)
    return None if weights is None else Needs(_MEMORY_OF_LIBRARIES + _MEMORY_PER_WEIGHT * weights, graphs * weights)


def check(needs: Needs, name: str, folder: Path, *, memory: float, disk: float) -> None:
    """Fail where an export cannot fit.

    Args:
        needs: from `estimate`.
        name: what to call the model.
        folder: where the export is written.
        memory: free bytes of memory.
        disk: free bytes of the folder's disk.

    Raises:
        InputError: too little of one of them is free.
    """
    if needs.memory > memory:
        raise InputError(
            f"{name}: exporting it {needs}, but only {memory / 1e9:.1f} GB of memory are free: "
            "close other programs, or export on a larger machine and copy the folder"
        )
    if needs.disk > disk:
        raise InputError(
            f"{name}: exporting it {needs}, but only {disk / 1e9:.1f} GB are free in {folder}: "
            "make room or give another --output"
        )


def free_memory() -> float:
    """Bytes that this process may still take: of the machine with its swap space, and of its control group."""
    machine = float(psutil.virtual_memory().available + psutil.swap_memory().free)
    return min(machine, _free_in_control_group())


def free_disk(folder: Path) -> float:
    """Free bytes on the disk of a folder that may not exist yet."""
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    return float(psutil.disk_usage(str(there)).free)


def _free_in_control_group() -> float:
    """What the limits of containers and cluster jobs leave (Linux, control groups version 2)."""
    free = float("inf")
    with suppress(OSError, ValueError, IndexError):
        own = Path("/proc/self/cgroup").read_text().splitlines()[-1].rpartition(":")[2]
        group = Path("/sys/fs/cgroup") / own.strip("/")
        for level in (group, *group.parents):
            limit = level / "memory.max"
            if limit.is_file() and (text := limit.read_text().strip()) != "max":
                used = int((level / "memory.current").read_text())
                # What only caches files can be taken back at any time.
                cached = dict(line.split() for line in (level / "memory.stat").read_text().splitlines())
                free = min(free, int(text) - used + int(cached.get("inactive_file", 0)))
            if level == Path("/sys/fs/cgroup"):
                break
    return free


def _fp32_bytes(source: Source) -> float | None:
    """Size of all weights in fp32."""
    files = _weight_files(source)
    if files:
        return sum(_fp32_size(path) for path in files)
    with suppress(HfHubHTTPError, RequestException, OSError):
        if not source.is_local and not huggingface_hub.constants.HF_HUB_OFFLINE:
            info = huggingface_hub.HfApi().model_info(source.location, revision=source.revision, files_metadata=True)
            sizes = {item.rfilename: item.size or 0 for item in info.siblings or []}
            return float(sum(sizes[name] for name in _preferred(sizes))) or None
    return None


def _weight_files(source: Source) -> list[Path]:
    """Files of weights on this machine: in the folder, or in the hub's cache."""
    if source.is_local:
        folder = Path(source.location)
    else:
        cached = huggingface_hub.try_to_load_from_cache(source.location, "config.json", revision=source.revision)
        if not isinstance(cached, str):
            return []
        folder = Path(cached).parent
    return [folder / name for name in _preferred(path.name for path in paths_in(folder))]


def _preferred(names: Iterable[str]) -> list[str]:
    """The files that transformers reads: safetensors if there are any."""
    known = [name for name in names if name.endswith(_WEIGHTS) and "/" not in name]
    safe = [name for name in known if name.endswith(".safetensors")]
    return safe or [name for name in known if name.startswith("pytorch_model")]


class _Tensor(msgspec.Struct):
    """A tensor in the header of a safetensors file."""

    dtype: str
    data_offsets: tuple[int, int]

    @property
    def bytes(self) -> int:
        start, stop = self.data_offsets
        return stop - start


def _fp32_size(path: Path) -> float:
    """Bytes of a file's weights in fp32; the file's size if it does not tell how wide its numbers are."""
    if path.suffix == ".safetensors":
        with suppress(OSError, struct.error, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            with path.open("rb") as stream:
                (length,) = struct.unpack("<Q", stream.read(8))
                header = msgspec.json.decode(stream.read(min(length, path.stat().st_size)), type=dict[str, msgspec.Raw])
            header.pop("__metadata__", None)
            tensors = [msgspec.json.decode(item, type=_Tensor) for item in header.values()]
            return float(sum(tensor.bytes * _FP32 / _WIDTHS.get(tensor.dtype, _FP32) for tensor in tensors))
    return float(path.stat().st_size)
