"""An exported model on disk: a folder with model.onnx, tokenizer.json and export.json.

Finding a model reads only export.json, which has the digests of all files and thus the model's identity. The files
themselves (2.4 GB for bert-large) are compared with their digests when a session is opened, by `verify_files`.
"""

import difflib
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from typing import Any

from ..errors import InputError
from .verified import VerifiedFiles

MODELS = Path("models")  # the default folder of exports
LOW_PRECISION = {"cpu": "model.int8.onnx", "cuda": "model.fp16.onnx"}  # the low-precision graph for each kind of device
REFERENCE = "fp32"  # the precision of the reference model
PRECISIONS = (REFERENCE, "int8", "fp16")  # of a graph
CONVOLVED = "model.cpu.onnx"  # the fp32 graph with its products as convolutions
FORMAT = 2  # of export.json and of the graph's inputs and outputs; raised when older exports can no longer be run
_MANIFEST = "export.json"


@dataclass(frozen=True)
class ExportedModel:
    """What `negengine export` wrote.

    Attributes:
        folder: where it is.
        name: hub id, or the name of the local folder it was made from.
        revision: the hub's commit, or the SHA-256 of the local folder.
        sha256: identifies the decisions: digest of the digests of fp32 graph, weights and tokenizer.
        task: `fill-mask` or `text-classification`.
        family: the architecture, such as `bert`.
        mask_token: its text, such as `[MASK]`; empty for a classifier without one.
        padding_id: the id that no sentence may hold, if there is one.
        vocab_size: number of logits.
        max_length: the largest number of tokens a sentence may have.
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

    def low_precision(self, kind: str) -> Path | None:
        """The low-precision graph for `cpu` or `cuda`, if the export holds it."""
        return self.folder / LOW_PRECISION[kind] if LOW_PRECISION[kind] in self.info["files"] else None

    def verify_files(self, graph: Path | None = None) -> None:
        """Compare files with their SHA-256 in export.json; a file that did not change since then is not read again.

        Args:
            graph: the graph that is going to be opened: low-precision graphs beside it are not looked at. By default
                all files of the export are compared.

        Raises:
            InputError: a file is missing or damaged.
        """
        known = VerifiedFiles(self.folder)
        for name, wanted in self.info["files"].items():
            if graph is not None and _is_low_precision(name) and not name.startswith(graph.name):
                continue
            path = self.folder / name
            if not path.is_file():
                raise _missing(path)
            if known.sha256(name) != wanted:
                raise InputError(
                    f"{path} is damaged (its sha256 is not that in export.json): export it again with --force"
                )
        known.save()


def graph_precision(graph: Path) -> str:
    """The precision of a graph of an export, one of `PRECISIONS`."""
    words = {LOW_PRECISION["cpu"]: "int8", LOW_PRECISION["cuda"]: "fp16"}
    return words.get(graph.name, REFERENCE)


def _is_low_precision(name: str) -> bool:
    """Whether a file is a low-precision graph, or holds the weights of one."""
    return name.startswith(tuple(LOW_PRECISION.values()))


def _missing(path: Path) -> InputError:
    return InputError(f"{path} is missing: export the model again with --force")


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """The export.json of a folder, or None if the folder holds none that can be read."""
    try:
        info = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return info if isinstance(info, dict) else None


def exported_names(models: Path = MODELS) -> list[str]:
    """The names of all exported models in a folder, as commands take them (`mini`, `owner/name`), sorted."""
    manifests = [*models.glob(f"*/{_MANIFEST}"), *models.glob(f"*/*/{_MANIFEST}")]
    return sorted(path.parent.relative_to(models).as_posix() for path in manifests if read_manifest(path.parent))


def load_exported(reference: str | Path, *, task: str = "fill-mask") -> ExportedModel:
    """Find an exported model by its export.json. The files' contents are compared later, by `verify_files`.

    A folder of that path wins if it is an exported model. Else the name is looked for under `models/`, so that a
    checkpoint folder `./NAME` does not hide `models/NAME`. The path of a checkpoint stands for the export of that name
    that was made from it.

    Args:
        reference: an exported folder, a name under `models/`, or a checkpoint that was exported.
        task: what it must have been exported for.

    Raises:
        InputError: it does not exist, its export.json is damaged or of another format, it lacks a file, or it was
            exported for another task.
    """
    command = f"negengine export {reference}" + (f" --task {task}" if task != "fill-mask" else "")
    folder = _find(Path(reference), command)
    info = read_manifest(folder)
    if info is None:
        raise InputError(f"{folder / _MANIFEST} cannot be read: export the model again with --force")
    if info.get("format") != FORMAT:
        raise InputError(f"{folder} has format {info.get('format')}, this version reads {FORMAT}: export it again")
    if info.get("task") != task:
        raise InputError(
            f"{folder} is exported for {info.get('task')}, this command needs {task}: give another model, or run "
            f"`negengine export {info.get('name')} --task {task} --output FOLDER`"
        )
    _check_fields(folder / _MANIFEST, info)
    for name in info["files"]:
        if not (folder / name).is_file():
            raise _missing(folder / name)
    deciding = {name: digest for name, digest in info["files"].items() if not _is_low_precision(name)}
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


def _find(reference: Path, command: str) -> Path:
    """The folder of an exported model.

    Raises:
        InputError: there is none; the message says what to run, and names models with a similar name.
    """
    candidates = (reference, MODELS / reference)
    for folder in candidates:
        if (folder / _MANIFEST).is_file():
            return folder
    if not str(reference).strip():
        raise InputError("the model's name is empty: give an exported folder, or a name under models/")
    for folder in candidates:
        if (folder / "config.json").is_file():
            own = MODELS / folder.resolve().name
            if (read_manifest(own) or {}).get("origin") == str(folder.resolve()):
                return own
            raise InputError(
                f"{folder} is a checkpoint, not an exported model: run `{command}`, then give its name, {own.name}"
            )
        if folder.is_dir():
            raise InputError(f"{folder} is not an exported model, it has no {_MANIFEST}: run `{command}` first")
    similar = difflib.get_close_matches(reference.as_posix(), exported_names(), n=3, cutoff=0.6)
    did_you_mean = f" (did you mean {' or '.join(similar)}?)" if similar else ""
    raise InputError(f"no exported model {reference}{did_you_mean}: run `{command}` first")


def _check_fields(manifest: Path, info: dict[str, Any]) -> None:
    """Refuse an export.json that lacks a field, or has one of another kind.

    Raises:
        InputError: names the first such field.
    """
    if missing := [field for field in _FIELDS if field not in info]:
        raise InputError(f"{manifest} lacks {', '.join(missing)}: export the model again with --force")
    for field, (is_right, wanted) in _FIELDS.items():
        if not is_right(info[field]):
            raise InputError(
                f"{manifest}: {field} is {json.dumps(info[field])[:80]}, {wanted} is needed: "
                "export the model again with --force"
            )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_id(value: object) -> bool:
    return value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_origin(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("revision"), str)


def _are_files(value: object) -> bool:
    """Whether names stay inside the folder (on Windows too), and each has the text of a digest."""
    return isinstance(value, dict) and all(
        name not in {"", ".."} and PureWindowsPath(name).name == name == Path(name).name and isinstance(digest, str)
        for name, digest in value.items()
    )


_FIELDS = {
    "name": (_is_text, "a text"),
    "family": (_is_text, "a text"),
    "made_from": (_is_origin, "an object with the text `revision`"),
    "mask_token": (_is_text, "a text"),
    "padding_id": (_is_id, "a token id or null"),
    "vocab_size": (_is_count, "a whole number above 0"),
    "max_length": (_is_count, "a whole number above 0"),
    "files": (_are_files, "an object of file names without a folder, each with its sha256,"),
}


def refuse_too_long(exported: ExportedModel, tokens: int, what: str) -> None:
    """Refuse a sentence that has more tokens than a model takes.

    Args:
        exported: the model.
        tokens: of the sentence, or of the longest of several.
        what: the source of the sentence, for the message: the file and line of a text, or the name of a pattern.

    Raises:
        InputError: it is too long.
    """
    if tokens > exported.max_length:
        raise InputError(
            f"{what}: {tokens} tokens, but {exported.name} takes at most {exported.max_length}: shorten it"
        )
