"""An exported model on disk: a folder with model.onnx, tokenizer.json and export.json, found and checked."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import InputError

TWINS = {"cpu": "model.int8.onnx", "cuda": "model.fp16.onnx"}  # the faster graph for each kind of device
CONVOLVED = "model.cpu.onnx"  # the fp32 graph with its products as convolutions
FORMAT = 2  # of export.json and of the graph's inputs and outputs; raised when older exports can no longer be run


@dataclass(frozen=True)
class ExportedModel:
    """What `negengine export` wrote.

    Attributes:
        folder: where it lies.
        name: hub id, or the name of the local folder it was made from.
        revision: the hub's commit, or the SHA-256 of the local folder.
        sha256: identifies the decisions: digest of the digests of fp32 graph, weights and tokenizer.
        task: `fill-mask` or `text-classification`.
        family: the architecture, such as `bert`.
        mask_token: its text, such as `[MASK]`.
        padding_id: the id that no sentence may hold, if there is one.
        vocab_size: number of logits.
        max_length: most tokens a sentence may have.
        info: the whole of export.json.
    """

    folder: Path
    name: str
    revision: str
    sha256: str
    task: str
    family: str
    mask_token: str
    padding_id: int | None
    vocab_size: int
    max_length: int
    info: dict[str, Any]

    @property
    def graph(self) -> Path:
        """The fp32 graph."""
        return self.folder / "model.onnx"

    @property
    def convolved(self) -> Path | None:
        """The fp32 graph for CPUs whose convolutions are faster than their products, if the export holds it."""
        return self.folder / CONVOLVED if CONVOLVED in self.info["files"] else None

    def twin(self, kind: str) -> Path | None:
        """The faster graph of low precision for `cpu` or `cuda`, if the export holds it."""
        return self.folder / TWINS[kind] if TWINS[kind] in self.info["files"] else None


def published_export(folder: Path) -> dict[str, Any] | None:
    """The export.json of a folder, or None if the folder holds none that can be read."""
    try:
        info = json.loads((folder / "export.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return info if isinstance(info, dict) else None


def load_exported(reference: str | Path, *, task: str = "fill-mask") -> ExportedModel:
    """Find an exported model and check that its files are whole.

    Args:
        reference: a folder, or a name under `models/`.
        task: what it must have been exported for.

    Raises:
        InputError: not there, damaged, of another format, or for another task.
    """
    command = f"negengine export {reference}" + (f" --task {task}" if task != "fill-mask" else "")
    folder = next((path for path in (Path(reference), Path("models") / reference) if path.is_dir()), None)
    if folder is None:
        raise InputError(f"no exported model {reference}: run `{command}` first")
    info = published_export(folder)
    if info is None:
        hint = " (it looks like a checkpoint)" if (folder / "config.json").is_file() else ""
        raise InputError(f"{folder} is no exported model{hint}: run `{command}` first")
    if info.get("format") != FORMAT:
        raise InputError(f"{folder} has format {info.get('format')}, this version reads {FORMAT}: export it again")
    if info.get("task") != task:
        raise InputError(f"{folder} was exported for {info.get('task')}, needed is {task}")
    missing = [key for key in _KEYS if key not in info]
    if missing:
        raise InputError(f"{folder}/export.json lacks {', '.join(missing)}: export the model again with --force")
    for name, wanted in info["files"].items():
        path = folder / name
        if not path.is_file():
            raise InputError(f"{path} is missing: export the model again with --force")
        if file_sha256(path) != wanted:
            raise InputError(f"{path} is damaged (its sha256 is not that in export.json): export it again with --force")
    deciding = {name: digest for name, digest in info["files"].items() if not name.startswith(tuple(TWINS.values()))}
    return ExportedModel(
        folder=folder,
        name=info["name"],
        revision=info["made_from"]["revision"],
        sha256=hashlib.sha256(json.dumps(deciding, sort_keys=True).encode()).hexdigest(),
        task=info["task"],
        family=info["family"],
        mask_token=info["mask_token"],
        padding_id=info["padding_id"],
        vocab_size=info["vocab_size"],
        max_length=info["max_length"],
        info=info,
    )


_KEYS = ("name", "family", "made_from", "mask_token", "padding_id", "vocab_size", "max_length", "files")


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's bytes, in hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
