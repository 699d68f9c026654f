"""The checkpoint of an exported model, its weights loaded as any program loads them, for `verify --torch`."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import normalizers, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerFast
from transformers.utils import cached_file

from ..engine.basics.choices import LANGUAGE_MODELS
from ..engine.basics.errors import InputError
from ..engine.basics.printable import some
from ..engine.inference.exported import TOKENIZER, ExportedModel
from .checkpoint import load_tokenizer
from .observe import told_in_one_line
from .outsider import Outsider
from .quiet import quiet
from .source import Source, locate
from .tasks import TASKS


@dataclass(frozen=True)
class Checkpoint(Outsider):
    """The outsider, who also knows which tokens begin a word."""

    # Those that hold the space before it, and all others; both with those that end a text
    openings: tuple[Sequence[int], Sequence[int]] = ((), ())


def torch_reference(checkpoint: str, exported: ExportedModel) -> Checkpoint:
    """Load the checkpoint that a model was exported from; an InputError if it is not there, or is another one."""
    is_local = checkpoint == "mini" or Path(checkpoint).exists()
    source = locate(checkpoint) if is_local else locate(checkpoint.partition("@")[0], exported.revision)
    if source.identity != exported.revision:
        raise InputError(
            f"--torch {checkpoint}: {exported.folder} was exported from another checkpoint "
            f"({source.identity[:19]}…, in export.json {exported.revision[:19]}…)"
        )
    with quiet(), told_in_one_line(checkpoint, "loading it with transformers alone"):
        model = _weights(exported.task, source.place)
        alone = _tokenizer(source.of_tokenizer) if exported.task in LANGUAGE_MODELS else None
        tokenizer = alone or load_tokenizer(source, model.config, TASKS[exported.task].head)
    own = exported.max_length, exported.is_causal, exported.begins_with_added_bos
    vocabulary, end = tokenizer.get_vocab(), model.config.eos_token_id
    ends = {*(end if isinstance(end, list) else [end])} - {None}
    spaced = {token for text, token in vocabulary.items() if text.startswith((" ", "Ġ", "▁"))}
    others = {*vocabulary.values()} - spaced
    return Checkpoint(model.eval(), tokenizer, *own, ([*spaced | ends], [*others | ends]))


def _tokenizer(source: Source) -> PreTrainedTokenizerFast | None:
    """tokenizer.json as transformers' general class reads it; None where a checkpoint has no such file.

    Of the family's own class, which may build another tokenizer, are what goes before tokenizer.json in both
    generations of transformers, and roles that no file names.
    """
    path = cached_file(
        source.location, TOKENIZER, revision=source.revision, _raise_exceptions_for_missing_entries=False
    )
    if path is None:
        return None
    found: PreTrainedTokenizerFast = PreTrainedTokenizerFast.from_pretrained(**source.place)
    with suppress(Exception):  # transformers 5 cannot build each family's own; then the files have to tell all
        _complete(found, AutoTokenizer.from_pretrained(**source.place))
    return found


def _complete(tokenizer: Any, of_family: Any) -> None:
    read, built = tokenizer.backend_tokenizer, of_family.backend_tokenizer
    if type(read.normalizer) is type(built.normalizer) is normalizers.BertNormalizer:
        read.normalizer = built.normalizer
    if type(read.pre_tokenizer) is type(built.pre_tokenizer) is pre_tokenizers.ByteLevel:
        read.pre_tokenizer = built.pre_tokenizer
    for role, token in of_family.special_tokens_map.items():
        if getattr(tokenizer, role, "") is None and token in tokenizer.get_vocab():
            setattr(tokenizer, role, token)


def _weights(task: str, place: Mapping[str, Any]) -> PreTrainedModel:
    """A model in fp32; a head of its own in the files is not replaced by the embeddings, whatever config.json says."""
    given = {"dtype": torch.float32, "attn_implementation": "eager", "use_safetensors": True}
    for tied in ({"tie_word_embeddings": False}, {}) if task in LANGUAGE_MODELS else ({},):
        model, report = TASKS[task].head.loader.from_pretrained(**place, **given, **tied, output_loading_info=True)
        missing = sorted(name for name in report["missing_keys"] if name.endswith("weight"))
        if not missing:
            return model
    raise InputError(f"--torch: transformers alone finds no numbers for {some(missing)}")
