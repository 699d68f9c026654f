"""Load a checkpoint from the Hugging Face hub or a folder, and refuse models that the engine cannot use, in one line.

Pickles can run code when they are opened, so they are read only if the caller allows it.
"""

import hashlib
import inspect
import re
import shlex
from collections.abc import Callable, Mapping
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
from transformers import AutoConfig, AutoTokenizer, PretrainedConfig, PreTrainedModel
from transformers import __version__ as transformers_version
from transformers.tokenization_utils_fast import PreTrainedTokenizerFast

from ..engine.basics.choices import Task
from ..engine.basics.errors import InputError, first_line
from ..engine.basics.printable import counted
from ..engine.basics.reading import exists, file_sha256, is_file, open_regular, parse_json, paths_in, read_regular
from ..engine.experiments.data_sets.fetch import reason_of
from ..engine.inference.exported import TOKENIZER, name_of_checkpoint
from . import adapter
from .families import (
    LONGEST,
    NEWER,
    compared_lengths,
    counts_after_padding,
    family_of,
    longest_of,
    padding_id,
    refusal_of,
)
from .gguf_file import SUFFIX, as_folder, gguf_in, read_head
from .known_keys import keep_rotations, refuse_unread
from .quiet import quiet
from .tokenizer_files import SPECIAL_TOKENS, TOKENIZER_CONFIG, TOKENIZER_FILES, VOCABULARIES, tokenizer_in

BUNDLED = Path(__file__).parent / "mini"
Say = Callable[[str], None]
ONLY_PICKLED = (
    "has no safetensors weights; --allow-pickle reads pickled ones, which can run code: "
    "use it only for a source that you trust"
)

DEQUANTISED = ("fp8", "mxfp4")  # methods whose weights transformers makes floating numbers of, on any machine
UNQUANTISED = "give the checkpoint that it was made from, whose weights are floating numbers"


@dataclass(frozen=True)
class Head:
    """The task that a checkpoint is loaded for."""

    task: str
    noun: str
    adjective: str  # what the head is called where it is missing
    loader: Any  # transformers' class that loads any checkpoint with the head
    endings: tuple[str, ...]  # of the names of such classes

    @property
    def families(self) -> Mapping[type[PretrainedConfig], type[PreTrainedModel]]:
        known: Mapping[type[PretrainedConfig], type[PreTrainedModel]] = self.loader._model_mapping  # noqa: SLF001
        return known

    @property
    def fills_masks(self) -> bool:
        return self.task == Task.FILL_MASK

    @property
    def is_decoder(self) -> bool:
        return self.task == Task.TEXT_GENERATION

    @property
    def is_language_model(self) -> bool:
        return self.fills_masks or self.is_decoder


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
    def of_tokenizer(self) -> str:
        """Where the tokenizer is: an adapter that was trained with tokens of its own has one."""
        own = self.adapter if self.adapter and any(map(_TOKENIZER_FILES.match, _names(self.adapter))) else None
        return str(own or self.location)

    @property
    def identity(self) -> str:  # the revision, and the files of the adapter if there is one
        if self.adapter is None:
            return self.revision
        both = f"{self.revision} {_folder_digest(self.adapter)}"
        return f"sha256:{hashlib.sha256(both.encode()).hexdigest()}"


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint without its weights."""

    source: Source
    config: PretrainedConfig
    tokenizer: PreTrainedTokenizerFast
    is_causal: bool
    limit: int = LONGEST  # tokens of the longest input that an export takes, whatever the configuration says

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def vocabulary(self) -> int:
        return int(self.config.vocab_size)

    def refuse_unsuitable_tokens(self) -> None:
        """An InputError if the model has no embedding for a token, or takes one that is in each text for padding."""
        tokens = self.tokenizer.get_vocab()
        padding = self.tokenizer.pad_token  # which no input has
        beyond = sorted(token for token, number in tokens.items() if number >= self.vocabulary and token != padding)
        if counts_after_padding(self.config) and self.padding_id in self.tokenizer("a")["input_ids"]:
            token = self.tokenizer.convert_ids_to_tokens(self.padding_id)
            raise InputError(
                f"{self.name}: config.json says pad_token_id {self.padding_id}, which is {token!r} and stands in each "
                "text: the model would count its positions wrong; correct pad_token_id"
            )
        if beyond:
            raise InputError(
                f"{self.name}: the model has {self.vocabulary:,} rows of embeddings, and its tokenizer has "
                f"{counted(len(beyond), 'token')} beyond them, such as {beyond[0]!r}: resize the embeddings "
                f"(`model.resize_token_embeddings({max(tokens.values()) + 1})`), or save the tokenizer without them"
            )

    @property
    def longest(self) -> int:  # tokens of a sentence, special ones included
        return min(longest_of(self.config, is_causal=self.is_causal), self.limit)

    @property
    def compared_lengths(self) -> list[int]:  # tokens of the random strings that an export is compared on, ascending
        return compared_lengths(self.config, self.longest, is_causal=self.is_causal)

    @property
    def padding_id(self) -> int | None:  # which no sentence may hold; a causal model without padding ignores none
        return None if self.is_causal else padding_id(self.config)


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
        return Source(name, str(folder), f"sha256:{_folder_digest(folder)}", is_local=True, origin=origin)
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


def _names(folder: Path) -> list[str]:
    return [path.name for path in paths_in(folder)]


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


def _folder_digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in [path for path in paths_in(folder) if path.suffix in _DIGESTED and exists(path)]:  # no link to nothing
        digest.update(f"{path.name}\0{path.stat().st_size}\0".encode())
        digest.update(bytes.fromhex(file_sha256(path)))
    return digest.hexdigest()


_MOST_CONFIG = 2**24  # bytes
_MOST = {
    "vocab_size": 2**24,
    "hidden_size": 2**16,
    "embedding_size": 2**16,
    "intermediate_size": 2**20,
    "num_hidden_layers": 2**10,
    "num_attention_heads": 2**10,
    "max_position_embeddings": 2**20,
    "type_vocab_size": 2**10,
    "num_labels": 2**16,
}
_TOKENIZERS = re.compile(r"tokenizer|vocab|merges|spm|spiece|.*\.model$")  # the names of their files begin so
_TOKENIZER_FILES = re.compile(
    r"tokenizer\.json|vocab\.|spiece\.model|.*\.(spm|bpe\.model)|tokenizer\.model|sentencepiece"
)
_DIGESTED = {".json", ".safetensors", ".bin", ".txt", ".model"}


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


def load(source: Source, head: Head) -> Checkpoint:
    """Load configuration and tokenizer; refuses a model without the head, a mask token or a fast tokenizer."""
    config = load_config(source)
    check_architecture(source, config, head)
    check_sizes(source.name, config)
    return Checkpoint(source, config, load_tokenizer(source, config, head), is_causal=head.is_decoder)


def _name_labels(source: Source, config: PretrainedConfig) -> None:
    """Take the names of labels from label2id where id2label has none; refuse two that contradict each other."""
    saved, _ = PretrainedConfig.get_config_dict(source.location, **_revision(source))  # transformers drops label2id
    try:
        told = {int(number): str(label) for label, number in (saved.get("label2id") or {}).items()}
    except (AttributeError, TypeError, ValueError):
        raise InputError(f"{source.name}: label2id of config.json does not give each label a number") from None
    known = {int(number): str(label) for number, label in config.id2label.items()}
    told_unnamed, unnamed = (all(map(re.compile(r"LABEL_\d+").fullmatch, own.values())) for own in (told, known))
    if told == known or told_unnamed:
        return
    if not unnamed:
        number = min(own for own in {*told, *known} if told.get(own) != known.get(own))
        said = f"label {number} is {known.get(number)!r} in id2label, and {told.get(number)!r} in label2id"
        raise InputError(f"{source.name}: config.json says that {said}; correct config.json")
    if sorted(told) != list(range(len(told))):
        raise InputError(f"{source.name}: label2id of config.json has the numbers {sorted(told)}; add id2label")
    config.id2label = told


def load_config(source: Source) -> PretrainedConfig:
    """The configuration, with what its family needs for an export; refuses a config.json that is not readable."""
    written = json_object(_config_file(source))
    refuse_quantised(source.name, written)
    try:
        config = AutoConfig.from_pretrained(source.location, trust_remote_code=False, **_revision(source))
    except Exception as error:  # noqa: BLE001 - transformers raises nearly everything here
        _refuse_own_code(source.name, error)
        if unknown := re.search(r"model type `([\w.-]{1,99})` but Transformers does not recognize", str(error)):
            known = f"transformers {transformers_version} does not know the family {unknown[1]}"
            raise InputError(f"{source.name}: {known}; another version may know it") from None
        said = " ".join(line.strip() for line in str(error).splitlines() if line.strip()) or first_line(error)
        raise InputError(f"{source.name}: config.json is not readable: {said}") from None
    keep_rotations(source.name, config, written)
    if dequantised(written):
        config.quantization_config |= {"dequantize": True}  # on a GPU, too
    for key, value in {**_OUTPUTS, **family_of(config).settings}.items():
        setattr(config, key, value)
    if isinstance(padding := written.get("pad_index"), int):  # FlauBERT and XLM of transformers 4 read this key alone
        config.pad_token_id = padding
    if (getattr(config, "pad_token_id", None) or 0) < 0:
        config.pad_token_id = None
    if getattr(config, "legacy", None) is False:
        use_head_of_authors(config)
    return config


# A model gives its logits by name, and nothing besides.
_OUTPUTS = {"return_dict": True, "torchscript": False, "output_attentions": False, "output_hidden_states": False}


def refuse_quantised(name: str, written: Mapping[str, Any]) -> None:
    """An InputError if config.json says that the weights are not floating numbers."""
    if (said := written.get("quantization_config") or written.get("compression_config")) and not dequantised(written):
        method = said.get("quant_method") if isinstance(said, dict) else said
        raise InputError(f"{name} is quantised ({method or 'bitsandbytes'}): {UNQUANTISED}")


def dequantised(written: Mapping[str, Any]) -> str:
    """The method by which weights are quantised that are read as floating numbers; empty if they are such numbers."""
    said = written.get("quantization_config")
    method = str(said.get("quant_method")) if isinstance(said, dict) else ""
    return method if method in DEQUANTISED else ""


def _config_file(source: Source) -> Path:
    if source.is_local:
        return Path(source.location) / "config.json"
    return Path(huggingface_hub.hf_hub_download(source.location, "config.json", revision=source.revision))


def about_own_code(config: PretrainedConfig) -> str:
    """That a checkpoint brings code of its own, which a model of a known family does without; empty if it has none."""
    said = f"its own code (auto_map) is not run: this is transformers' {config.model_type} model with its weights"
    return said if getattr(config, "auto_map", None) else ""


def _refuse_own_code(what: str, error: Exception) -> None:
    if "trust_remote_code" in str(error):  # without that argument, transformers would ask on the terminal
        said = f"{what} needs code of its own (auto_map), which negengine never runs; {NEWER} may know it"
        raise InputError(said) from None


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


def check_sizes(name: str, config: PretrainedConfig) -> None:
    """Refuse sizes that no model has: PyTorch would make layers without end, or ask for all memory. Nothing is NaN."""
    if nan := next((key for key, value in vars(config).items() if value != value), None):  # noqa: PLR0124 - only NaN
        raise InputError(f"{name}: config.json says {nan} NaN; give a number")
    for key, most in _MOST.items():
        size = getattr(config, key, None)
        if size is None or isinstance(size, list | tuple | dict):  # some families have a size for each layer
            continue
        if not isinstance(size, int) or isinstance(size, bool) or not -1 <= size <= most:  # -1: XLNet has no limit
            raise InputError(f"{name}: config.json says {key} {size!r}; a model has a whole number of at most {most:,}")


def _revision(source: Source) -> dict[str, Any]:
    return {} if source.is_local else {"revision": source.revision}


def check_architecture(source: Source, config: PretrainedConfig, head: Head) -> None:
    """Refuse a model without the head, a decoder as an encoder, a family that fails, and keys that are not read."""
    name = source.name
    if type(config) not in head.families:
        raise InputError(f"{name} is a {config.model_type} model, which has no {head.adjective} head in transformers")
    decoder = [key for key in ("is_decoder", "add_cross_attention") if getattr(config, key, False)]
    if decoder and not head.is_decoder:
        raise InputError(f"{name} is configured as a decoder ({decoder[0]}): a {head.noun} is an encoder")
    if getattr(config, "text_config", None) is not None:
        said = f"give a checkpoint of its text model alone ({config.text_config.model_type})"
        raise InputError(f"{name} reads more than texts, and cannot be exported: {said}")
    if reason := refusal_of(config):
        raise InputError(f"{name}: the family {config.model_type} cannot be exported: {reason}")
    refuse_unread(name, config, json_object(_config_file(source)))
    if not head.is_language_model:
        _name_labels(source, config)


def load_tokenizer(source: Source, config: PretrainedConfig, head: Head) -> PreTrainedTokenizerFast:
    """The tokenizer; refuses one without a fast version, or without a mask token where one is needed."""
    folder = Path(source.of_tokenizer)
    is_local = source.is_local or source.adapter is not None
    names = [name for name in _names(folder) if _TOKENIZERS.match(name)] if is_local else [TOKENIZER]
    for name in names if is_local else []:
        refuse_pointer(folder / name)
    try:
        given = {"trust_remote_code": False, **({} if is_local else _revision(source))}
        folder = folder if is_local else _fetch_tokenizer(source)
        written: dict[str, Any] = {}
        for name in (SPECIAL_TOKENS, TOKENIZER_CONFIG):
            written |= json_object(folder / name) if is_file(folder / name) else {}
        kind = head.families.get(type(config), None)  # none where the family is not known for the task
        takes = inspect.signature(kind.forward).parameters if kind else ()
        tokenizer = tokenizer_in(folder, config, written, takes)
        if tokenizer is None:
            tokenizer = AutoTokenizer.from_pretrained(source.of_tokenizer, **given)
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001 - transformers raises nearly everything here
        _refuse_own_code(f"{source.name}: its tokenizer", error)
        raise InputError(f"{source.name}: no fast tokenizer could be loaded: {first_line(error)}") from None
    special = {own.content for own in tokenizer.added_tokens_decoder.values() if own.special}
    if not names or tokenizer.get_vocab().keys() <= special:  # transformers makes one without words
        said = "no fast tokenizer could be loaded: there is no tokenizer file, such as tokenizer.json"
        empty = f"{TOKENIZER} holds special tokens alone, and no words: give the tokenizer of the training"
        raise InputError(f"{source.name}: {empty if is_file(folder / TOKENIZER) else said}")
    if not tokenizer.is_fast:
        raise InputError(f"{source.name}: its tokenizer has no fast version (tokenizer.json), which the engine needs")
    if getattr(tokenizer.backend_tokenizer.model, "dropout", None):  # for training: it leaves merges out at random
        tokenizer.backend_tokenizer.model.dropout = None
    if head.fills_masks and tokenizer.mask_token is None:
        vocabulary = tokenizer.get_vocab()
        if there := [token for token in ("[MASK]", "<mask>", "<MASK>") if token in vocabulary]:
            said = f'names no mask token, though there is {there[0]}: add "mask_token": "{there[0]}" to it'
            raise InputError(f"{source.name}: {TOKENIZER_CONFIG} {said}")
        raise InputError(f"{source.name}: its tokenizer has no mask token: a masked language model is needed")
    return tokenizer


def _fetch_tokenizer(source: Source) -> Path:
    """The folder of the hub's cache, with the files of a tokenizer in it; a file that the hub does not have is none."""
    for name in (*TOKENIZER_FILES, *VOCABULARIES):
        with suppress(EntryNotFoundError):
            huggingface_hub.hf_hub_download(source.location, name, revision=source.revision)
            if name == TOKENIZER_FILES[-1]:
                break
    return _config_file(source).parent


def use_head_of_authors(config: PretrainedConfig) -> None:
    """Let transformers make DeBERTa's `lm_predictions`, which multiplies by the word embeddings itself."""
    config.legacy = False
    config.tie_word_embeddings = False  # else transformers may put them in the place of the head's dense layer
