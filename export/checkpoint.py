"""The configuration and the tokenizer of a checkpoint; models that the engine cannot use are refused in one line.

Pickles can run code when they are opened, so they are read only if the caller allows it.
"""

import inspect
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub.errors import EntryNotFoundError
from transformers import AutoConfig, AutoTokenizer, PretrainedConfig, PreTrainedModel
from transformers import __version__ as transformers_version
from transformers.tokenization_utils_fast import PreTrainedTokenizerFast

from ..engine.basics.choices import Task
from ..engine.basics.errors import InputError, first_line
from ..engine.basics.printable import counted
from ..engine.basics.reading import is_file, paths_in
from ..engine.inference.exported import TOKENIZER
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
from .known_keys import keep_rotations, refuse_unread
from .source import Source, json_object, refuse_pointer
from .tokenizer_files import SPECIAL_TOKENS, TOKENIZER_CONFIG, TOKENIZER_FILES, VOCABULARIES, tokenizer_in

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


def load(source: Source, head: Head) -> Checkpoint:
    """Load configuration and tokenizer; refuses a model without the head, a mask token or a fast tokenizer."""
    config = load_config(source)
    check_architecture(source, config, head)
    check_sizes(source.name, config)
    return Checkpoint(source, config, load_tokenizer(source, config, head), is_causal=head.is_decoder)


def _name_labels(source: Source, config: PretrainedConfig) -> None:
    """Take the names of labels from label2id where id2label has none; refuse two that contradict each other."""
    saved, _ = PretrainedConfig.get_config_dict(**source.place)  # transformers drops label2id
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
    written = json_object(source.file("config.json"))
    refuse_quantised(source.name, written)
    try:
        config = AutoConfig.from_pretrained(**source.place)
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


def about_own_code(config: PretrainedConfig) -> str:
    """That a checkpoint brings code of its own, which a model of a known family does without; empty if it has none."""
    said = f"its own code (auto_map) is not run: this is transformers' {config.model_type} model with its weights"
    return said if getattr(config, "auto_map", None) else ""


def _refuse_own_code(what: str, error: Exception) -> None:
    if "trust_remote_code" in str(error):  # without that argument, transformers would ask on the terminal
        said = f"{what} needs code of its own (auto_map), which negengine never runs; {NEWER} may know it"
        raise InputError(said) from None


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
    refuse_unread(name, config, json_object(source.file("config.json")))
    if not head.is_language_model:
        _name_labels(source, config)


def load_tokenizer(source: Source, config: PretrainedConfig, head: Head) -> PreTrainedTokenizerFast:
    """The tokenizer; refuses one without a fast version, or without a mask token where one is needed."""
    place = source.of_tokenizer
    folder = Path(place.location)
    names = [path.name for path in paths_in(folder) if _TOKENIZERS.match(path.name)] if place.is_local else [TOKENIZER]
    for name in names if place.is_local else []:
        refuse_pointer(folder / name)
    try:
        folder = folder if place.is_local else _fetch_tokenizer(place)
        written: dict[str, Any] = {}
        for name in (SPECIAL_TOKENS, TOKENIZER_CONFIG):
            written |= json_object(folder / name) if is_file(folder / name) else {}
        kind = head.families.get(type(config), None)  # none where the family is not known for the task
        takes = inspect.signature(kind.forward).parameters if kind else ()
        tokenizer = tokenizer_in(folder, config, written, takes)
        if tokenizer is None:
            tokenizer = AutoTokenizer.from_pretrained(**place.place)
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
            source.file(name)
            if name == TOKENIZER_FILES[-1]:
                break
    return source.file("config.json").parent


def use_head_of_authors(config: PretrainedConfig) -> None:
    """Let transformers make DeBERTa's `lm_predictions`, which multiplies by the word embeddings itself."""
    config.legacy = False
    config.tie_word_embeddings = False  # else transformers may put them in the place of the head's dense layer
