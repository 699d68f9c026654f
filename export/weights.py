"""Which files hold the weights of a checkpoint, how large they are, and what they name; nothing is loaded."""

import struct
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import huggingface_hub
import msgspec
from huggingface_hub.errors import HfHubHTTPError
from requests import RequestException

from ..engine.files.reading import paths_in
from .checkpoint import Source

SAFE = ".safetensors"

_FP32 = 4
_WIDTHS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1}
_WEIGHTS = (SAFE, ".bin")
_UNREADABLE = (OSError, struct.error, msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def weights_of(source: Source) -> dict[str, float] | None:
    """The files of weights that transformers reads, with their size in fp32; None if the hub does not tell."""
    files = _weight_files(source)
    if files or source.is_local:
        return {path.name: _fp32_size(path) for path in files}
    with suppress(HfHubHTTPError, RequestException, OSError):
        if not huggingface_hub.constants.HF_HUB_OFFLINE:
            info = huggingface_hub.HfApi().model_info(source.location, revision=source.revision, files_metadata=True)
            sizes = {item.rfilename: float(item.size or 0) for item in info.siblings or []}
            return {name: sizes[name] for name in _preferred(sizes)}
    return None


def tensors_of(source: Source) -> set[str] | None:
    """The names of all weights in files on this machine; None if they are not all in safetensors here."""
    files = _weight_files(source)
    if not files or any(path.suffix != SAFE for path in files):
        return None
    try:
        return {name for path in files for name in _header(path)}
    except _UNREADABLE:
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
    safe = [name for name in known if name.endswith(SAFE)]
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
    if path.suffix == SAFE:
        with suppress(*_UNREADABLE):
            tensors = [msgspec.json.decode(item, type=_Tensor) for item in _header(path).values()]
            return float(sum(tensor.bytes * _FP32 / _WIDTHS.get(tensor.dtype, _FP32) for tensor in tensors))
    return float(path.stat().st_size)


def _header(path: Path) -> dict[str, msgspec.Raw]:
    """What a safetensors file says about each of its weights."""
    with path.open("rb") as stream:
        (length,) = struct.unpack("<Q", stream.read(8))
        header = msgspec.json.decode(stream.read(min(length, path.stat().st_size)), type=dict[str, msgspec.Raw])
    header.pop("__metadata__", None)
    return header
