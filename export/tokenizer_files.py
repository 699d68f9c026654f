"""A tokenizer as its files describe it.

transformers 5 builds the tokenizers of many families anew from a vocabulary, and takes the normalisation, the division
into words, the special tokens or the segments of its own class in the place of those in tokenizer.json. Other tokens
than those of the training come out, without a word. Here tokenizer.json is read as it is; where there is none, the
SentencePiece model, or the vocabulary and the merges, are converted as transformers 4 converted them.
"""

import inspect
import json
from collections.abc import Container, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import transformers
from tokenizers import AddedToken, Tokenizer, normalizers, pre_tokenizers
from transformers import TOKENIZER_MAPPING, PretrainedConfig, PreTrainedTokenizerFast
from transformers.convert_slow_tokenizer import (
    SLOW_TO_FAST_CONVERTERS,
    DebertaConverter,
    RobertaConverter,
    SpmConverter,
    generate_merges,
)

from ..engine.inference.exported import TOKENIZER

TOKENIZER_CONFIG, SPECIAL_TOKENS = "tokenizer_config.json", "special_tokens_map.json"
ADDED_TOKENS = "added_tokens.json"
TOKENIZER_FILES = (TOKENIZER_CONFIG, SPECIAL_TOKENS, ADDED_TOKENS, TOKENIZER)
VOCABULARIES = (  # where there is no tokenizer.json
    *("vocab.txt", "vocab.json", "merges.txt"),
    *("spm.model", "spiece.model", "sentencepiece.model", "sentencepiece.bpe.model", "tokenizer.model"),
)
_GENERIC = {"PreTrainedTokenizerFast", "TokenizersBackend"}
_SEGMENTED = ["input_ids", "token_type_ids", "attention_mask"]


def tokenizer_in(
    folder: Path, config: PretrainedConfig, written: Mapping[str, Any], takes: Container[str]
) -> PreTrainedTokenizerFast | None:
    """The tokenizer of the files in a folder; None if they are of another kind than those that are read here.

    `written` is what tokenizer_config.json and special_tokens_map.json say; the model `takes` inputs of these names.
    """
    kind = _kind(config, written)
    given: dict[str, Any] = {"model_input_names": [name for name in _inputs(kind, written) if name in takes]}
    roles = {key: own for key, own in _defaults(kind).items() if key.endswith("_token") and own is not None}
    given |= {key: own for key, own in roles.items() if key not in written}
    if (folder / TOKENIZER).is_file():
        found = PreTrainedTokenizerFast.from_pretrained(folder, **_added_in(folder / TOKENIZER, given))
        _configure(found.backend_tokenizer, {**_defaults(kind), **written})
        return found
    convert = SLOW_TO_FAST_CONVERTERS.get(kind.__name__) if kind else None
    files = {role: folder / name for role, name in kind.vocab_files_names.items()} if kind else {}
    if convert is None or not all(path.is_file() for role, path in files.items() if role != "tokenizer_file"):
        return None
    if not issubclass(convert, SpmConverter | RobertaConverter | DebertaConverter):
        return None
    settings = {key: _token(own) for key, own in {**_defaults(kind), **given, **written}.items()}
    mask = settings.get("mask_token")
    if isinstance(mask, str) and kind.__name__ != "DebertaV2Tokenizer":  # the space before a mask belongs to it
        settings["mask_token"] = AddedToken(mask, lstrip=True, special=True)
    make = _from_sentencepiece if issubclass(convert, SpmConverter) else _from_merges
    backend = make(convert, files, settings)
    known = {key for key in settings if key.endswith("_token")} | {"model_input_names", "model_max_length"}
    known |= {"padding_side", "truncation_side", "additional_special_tokens"}
    kept = {key: own for key, own in settings.items() if key in known and own is not None}
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, added_tokens_decoder=_beyond_vocabulary(folder, written, settings), **kept
    )


def _kind(config: PretrainedConfig, written: Mapping[str, Any]) -> Any:
    """The class that the files name, else that of the family; None for a generic one, which has no defaults."""
    named = str(written.get("tokenizer_class") or "").removesuffix("Fast")
    if not named:
        kind = TOKENIZER_MAPPING.get(type(config), None)
        kind = next((own for own in reversed(kind) if own), None) if isinstance(kind, tuple) else kind
    else:
        kind = getattr(transformers, named, None)
    return None if kind is None or kind.__name__ in _GENERIC | {"PreTrainedTokenizer"} else kind


def _defaults(kind: Any) -> dict[str, Any]:
    parameters = inspect.signature(kind.__init__).parameters if kind else {}
    return {key: own.default for key, own in parameters.items() if own.default is not inspect.Parameter.empty}


def _inputs(kind: Any, written: Mapping[str, Any]) -> list[str]:
    """What the tokenizer gives to the model: in transformers 4 segments too, but for BigBird.

    A model without segments does not ask for them.
    """
    if named := written.get("model_input_names"):
        return [str(name) for name in named]
    if "backend" in written:  # transformers 5 wrote the files
        return list((kind or PreTrainedTokenizerFast).model_input_names)
    return _SEGMENTED if kind is None or kind.__name__ != "BigBirdTokenizer" else [_SEGMENTED[0], _SEGMENTED[2]]


def _beyond_vocabulary(folder: Path, written: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[int, AddedToken]:
    """Number → token that was added to it: of tokenizer_config.json, else of the older added_tokens.json."""
    if "added_tokens_decoder" in written:
        return {int(number): _token(own) for number, own in written["added_tokens_decoder"].items()}
    path = folder / ADDED_TOKENS
    numbers = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    roles = {str(own) for key, own in settings.items() if key.endswith("_token")}
    special = set(map(str, settings.get("additional_special_tokens") or []))
    return {
        number: AddedToken(token, normalized=token not in special, special=token in special)
        for token, number in numbers.items()
        if token not in roles
    }


def _token(own: Any) -> Any:
    """A setting; a token with its properties where a file has them."""
    if isinstance(own, list):
        return [_token(each) for each in own]
    if not isinstance(own, dict) or "content" not in own:
        return own
    return AddedToken(**{key: value for key, value in own.items() if key != "__type"})


def _added_in(path: Path, given: dict[str, Any]) -> dict[str, Any]:
    """The same, with roles as tokens with the properties that tokenizer.json has, and without those that it lacks."""
    content = json.loads(path.read_text("utf-8"))
    added = {own["content"]: own for own in content.get("added_tokens") or []}
    known = Tokenizer.from_file(str(path)).get_vocab(with_added_tokens=True)
    properties = ("lstrip", "rstrip", "normalized", "single_word", "special")
    return {
        key: AddedToken(own, **{name: added[str(own)][name] for name in properties}) if str(own) in added else own
        for key, own in given.items()
        if not key.endswith("_token") or str(own) in known
    }


_BERT = {  # settings of tokenizer_config.json or its class, which go before tokenizer.json in both generations
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}


def _configure(backend: Tokenizer, settings: Mapping[str, Any]) -> None:
    normalizer, words = backend.normalizer, backend.pre_tokenizer
    if isinstance(normalizer, normalizers.BertNormalizer):
        for key in _BERT.keys() & settings.keys():
            setattr(normalizer, _BERT[key], settings[key])
        backend.normalizer = normalizer
    if isinstance(words, pre_tokenizers.ByteLevel) and settings.get("add_prefix_space") is not None:
        words.add_prefix_space = bool(settings["add_prefix_space"])
        backend.pre_tokenizer = words


class _Merges:
    """The merges of a SentencePiece model of the kind BPE, by the scores of its pieces."""

    def __init__(self, _: str) -> None:
        pass

    def extract(self, scores: list[tuple[str, float]]) -> tuple[None, list[tuple[str, str]]]:
        return None, generate_merges({piece: number for number, (piece, _) in enumerate(scores)}, dict(scores))


def _from_sentencepiece(convert: Any, files: Mapping[str, Path], settings: dict[str, Any]) -> Tokenizer:
    pieces: dict[str, int] = {}
    own = {"keep_accents": False, "do_lower_case": False, "split_by_punct": False, "legacy": True, **settings}
    own |= {"vocab_file": str(files["vocab_file"]), "convert_tokens_to_ids": lambda token: pieces[token]}
    converter = type("Converter", (convert,), {"SpmExtractor": _Merges})(SimpleNamespace(**own))
    spec = converter.proto.trainer_spec
    pieces |= {piece: number for number, (piece, _) in enumerate(converter.vocab(converter.proto))}
    for role, number in (("unk_token", spec.unk_id), ("pad_token", spec.pad_id)):  # as the model itself calls them
        if number >= 0 and str(settings.get(role)) not in pieces:
            settings[role] = list(pieces)[number]
    # Roles whose tokens the model lacks follow its pieces, in this order.
    for token in filter(None, map(settings.get, PreTrainedTokenizerFast.SPECIAL_TOKENS_ATTRIBUTES)):
        pieces.setdefault(str(token), len(pieces))
    converted: Tokenizer = converter.converted()
    return converted


def _from_merges(convert: Any, files: Mapping[str, Path], settings: Mapping[str, Any]) -> Tokenizer:
    ids = json.loads(files["vocab_file"].read_text("utf-8"))
    lines = files["merges_file"].read_text("utf-8").split("\n")
    merges = [tuple(line.split()) for line in lines if line and not line.startswith("#version")]
    own = {**settings, "encoder": ids, "bpe_ranks": dict.fromkeys(merges), "convert_tokens_to_ids": ids.get}
    for role in ("cls_token", "sep_token"):
        own |= {role: str(settings[role]), f"{role}_id": ids.get(str(settings[role]))}
    converted: Tokenizer = convert(SimpleNamespace(**own)).converted()
    return converted
