"""What the files of a checkpoint tell before anything is loaded: its weights, its licence, how it was trained.

The licence is the entry `license` at the head of README.md; training.json is there where `negengine` trained it.
"""

import math
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import huggingface_hub
import msgspec
import yaml
from huggingface_hub import RepoCard
from huggingface_hub.errors import HfHubHTTPError
from requests import RequestException
from safetensors import SafetensorError, safe_open

from ..engine.basics.errors import InputError, first_line
from ..engine.basics.paths import is_file_name
from ..engine.basics.reading import is_file, paths_in
from ..engine.basics.sealed import read_sealed
from . import adapter
from .checkpoint import Source, json_object
from .quiet import quiet

SAFE = ".safetensors"
_FP32 = 4  # bytes


def weights_of(source: Source) -> dict[str, float] | None:
    """The whole files of weights that transformers reads, with their size in fp32; None if the hub does not tell."""
    files = _weight_files(source)
    for path in (*files, *_adapters(source)):
        if path.suffix == SAFE:
            try:
                _sizes(path)
            except SafetensorError as error:  # a download was interrupted
                raise InputError(f"{path} is damaged or cut off ({first_line(error)}): fetch it again") from None
    index = Path(source.location) / "model.safetensors.index.json"
    if source.is_local and is_file(index):
        named = json_object(index).get("weight_map")
        if not isinstance(named, dict):
            raise InputError(f"{index} has no weight_map, which names the files of weights: fetch it again")
        if missing := sorted({*map(str, named.values())} - {path.name for path in files}):
            raise InputError(f"{index.parent / missing[0]} is missing, which {index.name} names: fetch it again")
    if files or source.is_local:
        known = {path.name: sum(_sizes(path).values()) * _FP32 for path in files if path.suffix == SAFE}
        return {path.name: float(known.get(path.name, path.stat().st_size)) for path in files}
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
        return {name.removeprefix(adapter.PREFIX) for path in (*files, *_adapters(source)) for name in _sizes(path)}
    except SafetensorError:
        return None


def _adapters(source: Source) -> list[Path]:
    return [source.adapter / adapter.WEIGHTS] if source.adapter else []


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
    known = [name for name in names if name.endswith((SAFE, ".bin")) and "/" not in name]
    safe = [name for name in known if name.endswith(SAFE)]
    return safe or [name for name in known if name.startswith("pytorch_model")]


def _sizes(path: Path) -> dict[str, int]:
    """How many numbers each weight of a safetensors file has."""
    try:
        with safe_open(path, framework="numpy") as file:  # compares the header with the size
            return {name: math.prod(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    except OSError as error:  # which does not say the number of the system's error
        raise InputError(f"{path}: cannot be read ({first_line(error)})") from None


def licence_of(source: Source) -> str | None:
    """What the head of the model card names, several separated by commas; None if there is none to read."""
    card = Path(source.location) / "README.md"
    try:
        with quiet():
            if not source.is_local:
                card = Path(huggingface_hub.hf_hub_download(source.location, "README.md", revision=source.revision))
            found = RepoCard(card.read_text("utf-8")).data.get("license")
    except (OSError, TypeError, ValueError, yaml.YAMLError):  # the hub's errors are an OSError or a ValueError
        return None
    return (", ".join(map(str, found)) if isinstance(found, list) else str(found or "")) or None


RECORD = "training.json"
FORMAT = 1
_Count = Annotated[int, msgspec.Meta(ge=1, le=2**53)]


class _Result(msgspec.Struct):
    steps: _Count
    epochs: _Count
    score: float


class TrainingRecord(msgspec.Struct):
    """The whole of training.json; a ValueError for a file outside the folder, or a finished training without result."""

    format: int
    negengine: str
    kind: str  # the command, such as `nli train`
    identity: dict[str, Any]
    metadata: dict[str, Any] = {}
    finished: bool = False
    files: dict[str, str] = {}  # name → SHA-256
    result: dict[str, Any] = {}  # of a finished one, with what `_Result` has

    def __post_init__(self) -> None:
        if wrong := [name for name in self.files if not is_file_name(name)]:
            raise ValueError(f"{wrong[0][:40]!r} is not the name of a file")
        if self.finished:
            msgspec.convert(self.result, _Result)


def training_of(source: Source) -> dict[str, Any]:
    """What export.json says of the training: `training` with the command, settings, data and result; or nothing."""
    path = Path(source.location) / RECORD
    if not source.is_local or not is_file(path):
        return {}
    try:
        found = read_sealed(path, TrainingRecord, made_as=FORMAT, repair="train it again")
    except InputError:  # a record that was edited or damaged counts for nothing
        return {}
    result = {key: value for key, value in found.result.items() if key != "history"}
    hub = {"hub": found.metadata["hub"]} if "hub" in found.metadata else {}
    return {"training": {"command": found.kind, **found.identity, **hub, **result}}
