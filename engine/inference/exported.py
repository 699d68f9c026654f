"""An exported model on disk: a folder with model.onnx, tokenizer.json, and export.json with the digests of all files.

Each file is read as a whole and compared with it when a session is opened: a disk can lose bits and keep the time.
"""

import difflib
import hashlib
import json
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import msgspec

from ..basics.choices import LANGUAGE_MODELS, Task
from ..basics.errors import InputError
from ..basics.paths import is_file_name, is_model_name
from ..basics.reading import (
    MOST_JSON,
    exists,
    file_sha256,
    is_file,
    is_folder,
    paths_in,
    read_regular,
)
from ..basics.sealed import DamagedError, read_sealed, unseal, write_sealed
from ..text.tokenizer import CausalTokenizer, MaskTokenizer, begin_with, load_tokenizer
from .checkpoint_steps import is_step

_PLACE = "NEGENGINE_MODELS"  # an environment variable
FORMAT = 3  # of export.json and of the graph's inputs and outputs; raised when older exports can no longer be run
MANIFEST, GRAPH, TOKENIZER = "export.json", "model.onnx", "tokenizer.json"
INT8, FP16 = "model.int8.onnx", "model.fp16.onnx"
LOW_GRAPHS = {INT8: "int8", FP16: "fp16"}  # the low-precision graphs, and what their numbers are
REFERENCE = "fp32"  # the precision of the reference model
GRAPHS = "graphs"  # key of `made_from`: the precision that was asked for, if it is not auto
MERGED = "base"  # key of `made_from`: the model that the checkpoint, an adapter, was merged with
FP32_ON_DEVICE = "fp32 on device"  # the precision of the fp32 graph on a device that rounds otherwise than a CPU
BF16 = "bf16"  # the precision of the fp32 graph on a processor that computes its products in bf16
PRECISIONS = (REFERENCE, *LOW_GRAPHS.values(), FP32_ON_DEVICE, BF16)
ADDED_BOS = "BOS token"  # key of `made_from`: the token stands before every text, though the tokenizer does not do that
CONVOLVED = "model.cpu.onnx"  # the fp32 graph with its products as convolutions
VOCABULARY = "model.vocabulary.onnx"  # of a causal model: from rows of `HIDDEN` to log-probabilities of tokens
# Of a causal model on the CPU: graph → the same for sentences with a common beginning, or for trees of texts
SHARING_PREFIXES = {own: own.replace(".onnx", ".prefix.onnx") for own in (GRAPH, CONVOLVED, INT8)}
TREES = {own: own.replace(".onnx", ".tree.onnx") for own in (GRAPH, CONVOLVED)}
HIDDEN = "hidden"  # an output of a causal model's fp32 graphs: what enters the vocabulary projection, of all tokens

_Count = Annotated[int, msgspec.Meta(ge=1, le=2**31)]
_Digest = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
_AGAIN = "export the model again with --force"
_DIGESTED = {".json", ".safetensors", ".bin", ".txt", ".model"}


class NotExportedError(InputError):
    """There is no export of this name; an export may make one."""


class ChangedError(NotExportedError):
    """A checkpoint has changed since it was exported."""


class Manifest(msgspec.Struct):
    """What the engine reads of export.json; it has further members for people."""

    format: int
    task: str
    name: str  # hub id, or the name of the local folder that the export was made from
    family: str  # the architecture, such as `bert`
    # `revision` (the hub's commit, or the SHA-256 of the local folder), and versions of packages
    made_from: dict[str, str]
    mask_token: str  # such as `[MASK]`; empty for a classifier without one
    padding_id: Annotated[int, msgspec.Meta(ge=0, le=2**31)] | None  # the id that no sentence may hold
    vocab_size: _Count  # number of logits
    max_length: _Count  # the largest number of tokens that a sentence may have
    files: dict[str, _Digest]  # file name → SHA-256
    further_files: dict[str, _Digest] = {}  # the same of files that no run reads, such as config.json
    origin: str = ""  # hub id, or the path of the local folder
    labels: list[str] = []  # of a classifier, in the order of its logits
    truncation_side: str = "right"  # where a classifier shortens a text that is too long

    def __post_init__(self) -> None:
        if not is_model_name(self.name):
            raise ValueError(f"{self.name[:40]!r} is not the name of a model")
        if "revision" not in self.made_from:
            raise ValueError("made_from lacks the revision")
        if wrong := [name for name in {**self.files, **self.further_files} if not is_file_name(name)]:
            raise ValueError(f"{wrong[0][:40]!r} is not the name of a file in the folder")
        if missing := {GRAPH, TOKENIZER} - set(self.files):
            raise ValueError(f"files lacks {', '.join(sorted(missing))}")


def write_manifest(folder: Path, info: dict[str, Any]) -> None:
    """Write export.json, with its digest."""
    write_sealed(folder / MANIFEST, info)


def read_manifest(folder: Path) -> tuple[Manifest, dict[str, Any]]:
    """The export.json of a folder: what the engine reads of it, and all of it."""
    path = folder / MANIFEST
    info = read_sealed(path, dict[str, Any], made_as=FORMAT, repair=_AGAIN)
    try:
        return msgspec.convert(info, Manifest), info
    except msgspec.ValidationError as error:
        raise InputError(f"{path}: not as negengine writes it ({str(error)[:120]}); {_AGAIN}") from None


class Origin(msgspec.Struct):
    """What an export was made from: what export.json says in every format. Empty where it says nothing."""

    task: str = ""
    origin: str = ""
    made_from: dict[str, str] = {}


def read_origin(folder: Path) -> Origin | None:
    """What the export in a folder was made from; None if there is no export.json, or a damaged one."""
    try:
        return unseal(read_regular(folder / MANIFEST, MOST_JSON), Origin)
    except (InputError, DamagedError):
        return None


@dataclass(frozen=True)
class ExportedModel:
    """What `negengine export` wrote."""

    folder: Path
    name: str  # hub id, or the name of the local folder it was made from
    revision: str  # the hub's commit, or the SHA-256 of the local folder
    sha256: str  # identifies the decisions: digest of the digests of fp32 graph, weights and tokenizer
    task: str
    family: str  # the architecture, such as `bert`
    mask_token: str  # such as `[MASK]`, also for a causal model; empty for a classifier without one
    padding_id: int | None  # the id that no sentence may hold, if there is one
    vocab_size: int  # number of logits
    max_length: int  # the largest number of tokens a sentence may have
    info: dict[str, Any]  # the whole of export.json

    @property
    def graph(self) -> Path:
        return self.folder / GRAPH

    @property
    def is_causal(self) -> bool:
        return self.task == Task.TEXT_GENERATION

    @property
    def begins_with_added_bos(self) -> bool:
        return ADDED_BOS in self.info["made_from"]

    def held(self, name: str) -> Path | None:
        """A file, such as another graph, if the export holds it."""
        return self.folder / name if name in self.info["files"] else None

    @cached_property
    def tokenizer(self) -> MaskTokenizer:
        """The tokenizer of a language model, for sentences with a mask; InputError if it is damaged."""
        if self.is_causal:
            return CausalTokenizer(load_tokenizer(self.folder), self.vocab_size)
        return MaskTokenizer.load(self.folder, self.mask_token)

    def tokenizer_with(self, *, bos: bool) -> MaskTokenizer:
        """The `tokenizer`; with `bos`, it begins every text with the model's BOS token. InputError if there is none."""
        return self._begun if bos else self.tokenizer

    @cached_property
    def _begun(self) -> CausalTokenizer:
        token, backend = self.info.get("bos_token", ""), load_tokenizer(self.folder)
        if not self.is_causal:
            raise InputError(f"--bos is for causal models; {self.name} is a masked one")
        if not token or backend.token_to_id(token) is None:
            raise InputError(f"--bos: the tokenizer of {self.name} has no BOS token; leave --bos out")
        begin_with(backend, token)
        return CausalTokenizer(backend, self.vocab_size)

    def low_precision_sha256(self, precision: str) -> str:
        """The digest of the digests of the `int8` or `fp16` graph and its weights, as `sha256` is of the others."""
        if precision in {FP32_ON_DEVICE, BF16}:
            return self.sha256
        stems = [_stem(name) for name, own in LOW_GRAPHS.items() if own == precision]
        return _together({name: own for name, own in self.info["files"].items() if name.startswith(tuple(stems))})

    def verify_files(self, graph: Path | None = None) -> None:
        """Compare files with export.json; of the low-precision graphs only `graph`, if it is given."""
        for name, wanted in self.info["files"].items():
            if graph is not None and is_low_precision(name) and not name.startswith(_stem(graph.name)):
                continue
            path = self.folder / name
            if not is_file(path):
                raise _missing(path)
            if file_sha256(path) != wanted:
                raise _damaged(path)


def graph_precision(graph: Path) -> str:
    """The precision of a graph of an export, one of `PRECISIONS`."""
    return LOW_GRAPHS.get(graph.name, REFERENCE)


def _together(digests: dict[str, str]) -> str:
    return hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()


def is_low_precision(name: str) -> bool:
    """Whether a file of an export belongs to the int8 or the fp16 graph."""
    return name.startswith(tuple(_stem(graph) for graph in LOW_GRAPHS))


def _stem(graph: str) -> str:
    """What the names of a graph, of its weights and of its variants begin with: `model.int8.`."""
    return graph if graph == GRAPH else graph.removesuffix("onnx")


def _damaged(path: Path) -> InputError:
    return InputError(f"{path} is damaged (its sha256 is not that in export.json): export it again with --force")


def _missing(path: Path) -> InputError:
    return InputError(f"{path} is missing: {_AGAIN}")


def models_folder() -> Path:
    """Where exports have their names: the value of NEGENGINE_MODELS, or `models` in the current folder."""
    return Path(os.environ.get(_PLACE) or "models").expanduser()


def exported_names() -> list[str]:
    """The names of all exported models, as commands take them (`mini`, `owner/name`), sorted."""
    folder = models_folder()
    manifests = [*folder.glob(f"*/{MANIFEST}"), *folder.glob(f"*/*/{MANIFEST}")]
    return sorted(path.parent.relative_to(folder).as_posix() for path in manifests if read_origin(path.parent))


def name_of_checkpoint(folder: Path) -> str:
    """The name of a checkpoint's folder; of a step it is `RUN/checkpoint-500`, because several runs have a step 500."""
    path = folder.resolve()
    run = next((above.name for above in path.parents if above.name != "checkpoints"), "")
    return f"{run}/{path.name}" if run and is_step(path.name) else path.name


def load_exported(reference: str | Path, *, task: str | None = None, place: Path | None = None) -> ExportedModel:
    """Find an exported model by its folder, its name or its checkpoint's folder; its files are compared later.

    `place` is the export's folder, if it is not the usual one of the checkpoint.
    """
    command = f"negengine export {reference}" + (f" --task {task}" if task else "")
    folder = _find(Path(place or reference), command)
    _refuse_changed(Path(reference), folder)
    manifest, info = read_manifest(folder)
    if manifest.task not in ([task] if task else LANGUAGE_MODELS):
        needed = task or " or ".join(LANGUAGE_MODELS)
        again = f"`negengine export {manifest.name} --task {task or Task.FILL_MASK} --output FOLDER`"
        raise InputError(
            f"{folder} is exported for {manifest.task}, this command needs {needed}: give another model, or run {again}"
        )
    for name in manifest.files:
        if not is_file(folder / name):
            raise _missing(folder / name)
    if file_sha256(folder / TOKENIZER) != manifest.files[TOKENIZER]:  # runs are planned with it, before a graph opens
        raise _damaged(folder / TOKENIZER)
    kept = ("name", "task", "family", "mask_token", "padding_id", "vocab_size", "max_length")
    identity = _together({name: own for name, own in manifest.files.items() if not is_low_precision(name)})
    own = {name: getattr(manifest, name) for name in kept}
    return ExportedModel(folder=folder, revision=manifest.made_from["revision"], sha256=identity, info=info, **own)


def _find(reference: Path, command: str) -> Path:
    """The folder of an exported model; the message where there is none says what to run, and names similar models."""
    candidates = (reference, models_folder() / reference)
    for folder in candidates:
        if is_file(folder / MANIFEST):
            return folder
    if not str(reference).strip():
        raise InputError("the model's name is empty: give an exported folder, or a name under models/")
    for folder in candidates:
        if is_file(folder / "config.json"):
            name = name_of_checkpoint(folder)
            place = models_folder() / name
            if (made := read_origin(place)) is not None and made.origin == str(folder.resolve()):
                return place
            raise NotExportedError(
                f"{folder} is a checkpoint, not an exported model: run `{command}`, then give its name, {name}"
            )
        if is_file(folder / "run.json"):
            raise InputError(f"{folder} is a run, not an exported model: give a model, such as mini")
        if is_folder(folder):
            raise InputError(f"{folder} is not an exported model, it has no {MANIFEST}: run `{command}` first")
    known = dict.fromkeys([*exported_names(), "mini"])
    known.pop(reference.as_posix(), None)  # `mini` can be exported without a download
    similar = difflib.get_close_matches(reference.as_posix(), known, n=3, cutoff=0.6)
    did_you_mean = f" (did you mean {' or '.join(similar)}?)" if similar else ""
    here = "" if reference.is_absolute() else f" in {models_folder()} (NEGENGINE_MODELS can name another folder)"
    raise NotExportedError(f"no exported model {reference}{did_you_mean}{here}: run `{command}` first")


def _refuse_changed(checkpoint: Path, export: Path) -> None:
    """ChangedError for a checkpoint's folder that has other files than when it was exported."""
    if not is_file(checkpoint / "config.json"):
        return
    made = read_origin(export)
    if made is None or made.origin != str(checkpoint.resolve()) or MERGED in made.made_from:
        return
    written = (export / MANIFEST).stat().st_mtime
    states = [path.stat() for path in (checkpoint, *_digested_files(checkpoint))]
    if all(max(state.st_mtime, state.st_ctime) <= written for state in states):
        return  # its files can be large
    if made.made_from.get("revision") != checkpoint_revision(checkpoint):
        raise ChangedError(f"{checkpoint} has changed since it was exported: run `negengine export {checkpoint}` again")


def checkpoint_revision(folder: Path) -> str:
    """What identifies the content of a checkpoint's folder: `sha256:` and the digest of its files."""
    digest = hashlib.sha256()
    for path in _digested_files(folder):
        digest.update(f"{path.name}\0{path.stat().st_size}\0".encode())
        digest.update(bytes.fromhex(file_sha256(path)))
    return f"sha256:{digest.hexdigest()}"


def _digested_files(folder: Path) -> list[Path]:
    """The files of a checkpoint that decide what its export is."""
    return [path for path in paths_in(folder) if path.suffix in _DIGESTED and exists(path)]  # no link to nothing


def refuse_too_long(exported: ExportedModel, tokens: int, what: str) -> None:
    """InputError for a sentence with more tokens than a model takes; `what` is its source."""
    if tokens > exported.max_length:
        most = exported.max_length
        raise InputError(f"{what}: {tokens} tokens, but {exported.name} takes at most {most}: shorten it")
