"""The files with a checkpoint's weights: which there are, how they are fetched, and what their headers say."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from pickle import UnpicklingError

import huggingface_hub
import torch
from httpx import HTTPError
from huggingface_hub.errors import (
    EntryNotFoundError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    NotASafetensorsRepoError,
    SafetensorsParsingError,
)
from safetensors import SafetensorError, safe_open
from transformers.modeling_utils import load_state_dict, str_to_torch_dtype

from ..engine.basics.errors import InputError, first_line
from ..engine.basics.reading import is_file, paths_in
from . import adapter
from .source import Source, json_object, refuse_pointer

ONLY_PICKLED = (
    "has no safetensors weights; --allow-pickle reads pickled ones, which can run code: "
    "use it only for a source that you trust"
)
SAFE, PICKLED = ".safetensors", ".bin"
_TYPES = str_to_torch_dtype | {"F8_E8M0": torch.float8_e8m0fnu}  # as safetensors names them
NAMES_OF_TYPES = {kind: name for name, kind in _TYPES.items()}
_BYTES_IN_FP32 = 4
# What transformers reads, in this order; else the parts of an index.
_WHOLE = (f"model{SAFE}", f"pytorch_model{PICKLED}")
_INDEX = ".index.json"
_FOREIGN = {  # files in the place of weights → what they are, and what to do
    "*.onnx": "an ONNX export of another program: give the checkpoint that it was made from",
    "*.gguf": "a GGUF file: give that file itself",
    "tf_model*": "weights for TensorFlow: load them with transformers 4 (`from_tf=True`), and save the model again",
    "*.msgpack": "weights for Flax: load them with transformers 4 (`from_flax=True`), and save the model again",
    "global_step*": "parts of DeepSpeed: run zero_to_fp32.py, which lies beside them",
    "pytorch_model_fsdp*": "parts of FSDP: run `accelerate merge-weights`",
    "*.safetensors": "tensors under another name: transformers reads model.safetensors",
    **dict.fromkeys(
        ("*.ckpt", "*.pt", "*.pth"),
        "a checkpoint of another program: save the model with transformers' save_pretrained",
    ),
}


def weight_files(source: Source) -> list[Path] | None:
    """The files on this machine that hold a model's weights; None where those of the hub are not here.

    Raises InputError for an index without its files, and for other files in the place of weights.
    """
    folder = source.file("config.json").parent
    for whole in _WHOLE:
        if is_file(folder / whole):
            return [folder / whole]
        if is_file(index := folder / f"{whole}{_INDEX}"):
            parts = _parts(index)
            if all(map(is_file, parts)):
                return parts
            if source.is_local:
                missing = next(path for path in parts if not is_file(path))
                raise InputError(f"{missing} is missing, which {index.name} names: fetch it again")
    if not source.is_local:
        return None
    if dangling := [folder / whole for whole in _WHOLE if (folder / whole).is_symlink()]:
        raise InputError(f"{dangling[0]} is a link to nothing: fetch the file again")
    for pattern, said in _FOREIGN.items():
        if found := [*paths_in(folder, pattern), *paths_in(folder / "onnx", pattern)]:
            raise InputError(f"{source.name} has no weights for PyTorch; {found[0].name} is {said}")
    raise InputError(f"{source.name} has no files of weights (model.safetensors)")


def _parts(index: Path) -> list[Path]:
    named = json_object(index).get("weight_map")
    if not isinstance(named, dict) or not named:
        raise InputError(f"{index} has no weight_map, which names the files of weights: fetch it again")
    return [index.parent / name for name in sorted({*map(str, named.values())})]


def fetch(source: Source, *, allow_pickle: bool) -> None:
    """Bring a model's weights from the hub into its cache; an InputError if there are none that may be read."""
    try:
        for whole in _WHOLE[: 1 + allow_pickle]:
            if _fetched(source, whole):
                return
            if index := _fetched(source, f"{whole}{_INDEX}"):
                if missing := [path.name for path in _parts(index) if not _fetched(source, path.name)]:
                    raise InputError(f"{source.name}: the hub has no {missing[0]}, which {index.name} names")
                return
    except LocalEntryNotFoundError:
        raise InputError(f"{source.name}: its weights are not in the cache, and the hub was not reached") from None
    except (HfHubHTTPError, HTTPError) as error:
        raise InputError(f"{source.name}: the weights could not be fetched: {first_line(error)}") from None
    raise InputError(f"{source.name} {ONLY_PICKLED}")


def _fetched(source: Source, name: str) -> Path | None:
    try:
        return source.file(name)
    except LocalEntryNotFoundError:
        raise
    except EntryNotFoundError:
        return None


def tensors_of(files: Iterable[Path]) -> dict[str, torch.Tensor]:
    """Every tensor of some files by its name, without its numbers; an InputError if a file is damaged."""
    found: dict[str, torch.Tensor] = {}
    for path in files:
        refuse_pointer(path)
        try:
            if path.suffix == SAFE:
                with safe_open(path, framework="numpy") as file:  # compares the header with the size
                    slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
                    found |= {name: _empty(own.get_dtype(), own.get_shape()) for name, own in slices.items()}
            else:
                found |= load_state_dict(str(path), map_location="meta")
            if not all(isinstance(own, torch.Tensor) for own in found.values()):
                raise TypeError("not a tensor")
        except SafetensorError as error:  # a download was interrupted
            raise InputError(f"{path} is damaged or cut off ({first_line(error)}): fetch it again") from None
        except (TypeError, UnpicklingError):
            said = "holds more than tensors by their names: load it in Python, and save the model with save_pretrained"
            raise InputError(f"{path} {said}") from None
        except Exception as error:  # noqa: BLE001 - of pickles, everything
            raise InputError(f"{path}: cannot be read ({first_line(error)})") from None
    return found


def _empty(kind: str, shape: Iterable[int]) -> torch.Tensor:
    return torch.empty(tuple(shape), dtype=_TYPES[kind], device="meta")


def tensors_on_hub(source: Source) -> dict[str, torch.Tensor] | None:
    """The same of a model's files on the hub, of which the headers alone are fetched; None if the hub does not tell."""
    with suppress(HfHubHTTPError, HTTPError, OSError, NotASafetensorsRepoError, SafetensorsParsingError, KeyError):
        if not huggingface_hub.constants.HF_HUB_OFFLINE:
            found = huggingface_hub.HfApi().get_safetensors_metadata(source.location, revision=source.revision)
            tensors = [item for file in found.files_metadata.values() for item in file.tensors.items()]
            return {name: _empty(own.dtype, own.shape) for name, own in tensors}
    return None


def weights_of(source: Source) -> dict[str, float] | None:
    """The files of weights with their size in fp32, in bytes; None if the hub does not tell."""
    if source.adapter:
        adapter.names_in(source.adapter)  # which refuses a damaged one
    if (files := weight_files(source)) is not None:
        return {path.name: float(_size(path)) for path in files}
    with suppress(HfHubHTTPError, HTTPError, OSError):
        if not huggingface_hub.constants.HF_HUB_OFFLINE:
            info = huggingface_hub.HfApi().model_info(source.location, revision=source.revision, files_metadata=True)
            sizes = {item.rfilename: float(item.size or 0) for item in info.siblings or []}
            safe = {name: size for name, size in sizes.items() if "/" not in name and name.endswith(SAFE)}
            return safe or {name: size for name, size in sizes.items() if name.startswith("pytorch_model")}
    return None


def _size(path: Path) -> int:
    if path.suffix != SAFE:
        return path.stat().st_size
    found = tensors_of([path])  # a byte of blocks holds two numbers
    return _BYTES_IN_FP32 * sum(int(own.numel()) * (1 + key.endswith("_blocks")) for key, own in found.items())


def readable_files(source: Source, *, allow_pickle: bool) -> list[Path]:
    """The files of a model's weights, fetched where they are on the hub; an InputError for pickles without consent."""
    if not source.is_local:
        fetch(source, allow_pickle=allow_pickle)
    files = weight_files(source) or []
    if not allow_pickle and any(path.suffix != SAFE for path in files):
        raise InputError(f"{source.name} {ONLY_PICKLED}")
    return files
