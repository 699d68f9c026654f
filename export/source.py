"""Where a checkpoint comes from: the Hugging Face hub, a folder, a GGUF file, or an adapter and its base.

Refused in one line is what is none of them; no model is loaded.
"""

import hashlib
import re
import shlex
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import huggingface_hub
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HFValidationError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from ..engine.basics.errors import InputError
from ..engine.basics.printable import counted
from ..engine.basics.reading import file_sha256, is_file, open_regular, parse_json, paths_in, read_regular
from ..engine.experiments.data_sets.fetch import reason_of
from ..engine.inference.exported import checkpoint_revision, name_of_checkpoint
from . import adapter
from .gguf_file import SUFFIX, as_folder, gguf_in, read_head
from .quiet import quiet

BUNDLED = Path(__file__).parent / "mini"
Say = Callable[[str], None]
_MOST_CONFIG = 2**24  # bytes
_TOKENIZER_FILES = re.compile(
    r"tokenizer\.json|vocab\.|spiece\.model|.*\.(spm|bpe\.model)|tokenizer\.model|sentencepiece"
)


@dataclass(frozen=True)
class Source:
    """Where a checkpoint comes from, before its weights are read."""

    name: str
    location: str
    revision: str
    is_local: bool
    origin: str
    adapter: Path | None = None  # the folder of a LoRA adapter, which has given the name and the origin
    gguf: str = ""  # type and digest of the GGUF file that it is made from
    base: str = ""  # the origin of the model that the adapter is merged with

    @property
    def place(self) -> dict[str, Any]:
        """What transformers loads it from."""
        found = {"pretrained_model_name_or_path": self.location, "trust_remote_code": False}
        return found if self.is_local else found | {"revision": self.revision}

    def file(self, name: str) -> Path:
        """A file of it; one of the hub is brought into the cache, else a Hugging Face error says why not."""
        if self.is_local:
            return Path(self.location) / name
        return Path(huggingface_hub.hf_hub_download(self.location, name, revision=self.revision))

    @property
    def of_tokenizer(self) -> "Source":
        """Where the tokenizer is: an adapter that was trained with tokens of its own has one."""
        has_own = self.adapter and any(_TOKENIZER_FILES.match(path.name) for path in paths_in(self.adapter))
        return replace(self, location=str(self.adapter), is_local=True) if has_own else self

    @property
    def identity(self) -> str:  # the revision, and the files of the adapter if there is one
        if self.adapter is None:
            return self.revision
        both = f"{self.revision} {checkpoint_revision(self.adapter)}"
        return f"sha256:{hashlib.sha256(both.encode()).hexdigest()}"


def locate(reference: str, revision: str | None = None, say: Say = lambda _: None, base: str | None = None) -> Source:
    """Find `mini`, a local folder, a GGUF file, a hub id; with a `base`, a LoRA adapter's folder. Loads no model.

    A hub id with a revision (`lab/model@step1000`) is a model of its own, with a name of its own.
    """
    if base is not None:
        return _of_adapter(reference, revision, base, say)
    is_mini = reference == "mini"
    folder = BUNDLED if is_mini else Path(reference)
    if file := gguf_in(folder):
        return _of_gguf(file, revision, say)
    if folder.is_dir():
        if revision is not None:
            raise InputError(f"{reference} is a local folder: --revision is for models of the hub")
        if not (folder / "config.json").is_file():
            raise InputError(_no_checkpoint(folder))
        if is_file(folder / adapter.CONFIG):
            raise InputError(_with_an_adapter(folder))
        name, origin = (reference, reference) if is_mini else (name_of_checkpoint(folder), str(folder.resolve()))
        return Source(name, str(folder), checkpoint_revision(folder), is_local=True, origin=origin)
    if folder.exists() or reference.startswith((".", "/", "~")):
        raise InputError(f"{reference} is not a folder: give a hub id, a local folder, or mini")
    name, at, named = reference.partition("@")
    if at and revision is not None:
        raise InputError(f"{reference} names a revision, and --revision {revision} another: give one of them")
    revision = named or None if at else revision
    config = _hub_config(name, revision, say)
    if revision is None:
        return Source(name, name, config.parent.name, is_local=False, origin=name)
    short = revision[:12] if re.fullmatch(r"[0-9a-f]{40}", revision) else revision.replace("/", "-")
    return Source(f"{name}@{short}", name, config.parent.name, is_local=False, origin=f"{name}@{revision}")


def _of_adapter(reference: str, revision: str | None, base: str, say: Say) -> Source:
    """The base of an adapter, which is merged with it."""
    if revision is not None:
        said = f"is a local folder: give the revision of its base as --base {base}@{revision}"
        raise InputError(f"{reference} {said}")
    folder, found = Path(reference), locate(base, None, say)
    read = adapter.read_adapter(folder)
    if read is not None and read.peft_type != "LORA":
        raise InputError(_no_checkpoint(folder))
    if is_file(folder / adapter.PICKLED):
        raise InputError(f"{folder / adapter.PICKLED} is a pickle: load it with peft, and save the adapter again")
    if read is None or not is_file(folder / adapter.WEIGHTS):
        raise InputError(f"{folder} is not the folder of a LoRA adapter ({adapter.WEIGHTS}), which --base is for")
    read.refuse_variants(folder)
    _say_of_base(read, base, found, say)
    name, origin = name_of_checkpoint(folder), str(folder.resolve())
    return replace(found, name=name, origin=origin, adapter=folder, base=found.origin)


def _of_gguf(path: Path, revision: str | None, say: Say) -> Source:
    """The checkpoint that a GGUF file holds."""
    if revision is not None:
        raise InputError(f"{path} is a local file: --revision is for models of the hub")
    (kind, _), digest = read_head(path), file_sha256(path)
    say(f"{path.name}: a GGUF file of type {kind}; its weights in fp32, as transformers reads them, are the model")
    identity, folder, origin = f"sha256:{digest}", str(as_folder(path, digest)), str(path.resolve())
    name, told = path.name.removesuffix(SUFFIX), f"{kind} {identity}"
    return Source(name, folder, identity, is_local=True, origin=origin, gguf=told)


def _say_of_base(read: adapter.Adapter, base: str, found: Source, say: Say) -> None:
    """Say that an adapter is merged with another model than it names."""
    trained = read.base_model_name_or_path or ""
    asked = f"{trained}@{read.revision}" if read.revision else trained
    is_here = found.is_local and not read.revision  # then a name is a place, or that of a copy
    is_copy = is_here and (found.origin == str(Path(trained).resolve()) or Path(base).name == Path(trained).name)
    if trained and asked not in {base, found.origin} and not is_copy:
        say(f"the adapter was trained on {asked}, and is merged with {base}")


def _with_an_adapter(folder: Path) -> str:
    if not any(path.suffix in {".safetensors", ".bin"} and "adapter" not in path.name for path in paths_in(folder)):
        return _no_checkpoint(folder)
    return (
        f"{folder} holds a model and an adapter, and it is not clear which is meant: to export the model alone, remove "
        f"{adapter.CONFIG}; to merge the two, put the adapter's files into a folder ADAPTER, and give ADAPTER --base "
        f"{folder}"
    )


def _no_checkpoint(folder: Path) -> str:
    """What a folder without config.json holds instead, and what to give."""
    if (found := adapter.read_adapter(folder)) is not None:
        if found.peft_type.endswith(("PROMPT", "TUNING")):
            return f"{folder} is a {found.peft_type} adapter: it puts vectors before each text, which no export does"
        if found.peft_type != "LORA":
            return f"{folder} is an adapter of another kind ({found.peft_type}), not a model: {adapter.BY_HAND}"
        base = found.base_model_name_or_path or "MODEL"
        return f"{folder} is a LoRA adapter of {base}, not a model: give --base {shlex.quote(base)} to merge the two"
    inside = [path.parent for up in (".", "checkpoints") for path in folder.glob(f"{up}/checkpoint-*/config.json")]
    if inside:
        last, n = max(inside, key=lambda path: (len(path.name), path.name)), counted(len(inside), "checkpoint")
        return f"{folder} is the folder of a training with {n}: give one, such as {last}"
    for path in sorted(folder.glob("*/model.safetensors")):  # such as 0_Transformer of sentence-transformers
        return f"{folder} holds no config.json: give the folder of a model inside, such as {path.parent}"
    return f"{folder} holds no config.json: give a folder that transformers' save_pretrained wrote"


def _hub_config(reference: str, revision: str | None, say: Say) -> Path:
    wanted = f"{reference} (revision {revision})" if revision else reference
    if not huggingface_hub.constants.HF_HUB_OFFLINE:
        say(f"asking the Hugging Face hub for {wanted}")  # without a connection, it tries again for half a minute
    try:
        with quiet():  # it warns of each of its attempts
            return Path(huggingface_hub.hf_hub_download(reference, "config.json", revision=revision))
    except HFValidationError:
        said = "is neither a folder here nor a hub id: give ORG/NAME, a folder, or mini"
        raise InputError(f"{reference!r} {said}") from None
    except GatedRepoError:
        raise InputError(f"{wanted} is gated: accept its terms on the hub and log in with `hf auth login`") from None
    except RevisionNotFoundError:
        raise InputError(f"{reference} has no revision {revision!r} on the hub") from None
    except EntryNotFoundError as error:
        if not isinstance(error, LocalEntryNotFoundError):
            with suppress(Exception):
                huggingface_hub.hf_hub_download(reference, adapter.CONFIG, revision=revision)
                said = "download it (`hf download`), and give its folder with --base MODEL"
                error = InputError(f"{wanted} is an adapter on the hub, not a model: {said}")
            if isinstance(error, InputError):
                raise error from None
            raise InputError(f"{wanted} has no config.json on the hub: it is not a transformers model") from None
        state = "offline mode is on (HF_HUB_OFFLINE)" if huggingface_hub.constants.HF_HUB_OFFLINE else "no connection"
        said = f"is neither a folder here nor in the cache, and the hub was not reached: {state}"
        raise InputError(f"{wanted} {said}") from None
    except RepositoryNotFoundError:
        raise InputError(f"{wanted} is neither a folder here nor a model on the hub (or it is private)") from None
    except Exception as error:  # noqa: BLE001 - the library of its connections depends on the version
        raise InputError(f"{wanted}: the hub did not answer: {reason_of(error)}") from None


def refuse_pointer(path: Path) -> None:
    """An InputError for what `git clone` writes where Git LFS is not installed."""
    with open_regular(path) as file:
        if file.read(64).startswith(b"version https://git-lfs.github.com/spec/"):
            raise InputError(f"{path} is a pointer of Git LFS, not the file itself: run `git lfs pull` in its folder")


def json_object(path: Path) -> dict[str, Any]:
    """A JSON file of a checkpoint; refuses one that takes very long or all memory to read, or is not an object."""
    refuse_pointer(path)
    content = read_regular(path, _MOST_CONFIG)
    try:
        found = parse_json(content.decode(), str(path))
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte 0x{content[error.start]:02x} is not UTF-8") from None
    if not isinstance(found, dict):
        raise InputError(f"{path}: not a JSON object, which {path.name} of a checkpoint is")
    return found
