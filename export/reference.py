"""The checkpoint of an exported model, its weights loaded as any program loads them, for `verify --torch`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from ..engine.basics.choices import LANGUAGE_MODELS
from ..engine.basics.errors import InputError
from ..engine.basics.printable import some
from ..engine.inference.exported import ExportedModel
from .checkpoint import load_tokenizer
from .observe import told_in_one_line
from .outsider import Outsider
from .quiet import quiet
from .source import locate
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
        tokenizer = load_tokenizer(source, model.config, TASKS[exported.task].head)
    own = exported.max_length, exported.is_causal, exported.begins_with_added_bos
    vocabulary, end = tokenizer.get_vocab(), model.config.eos_token_id
    ends = {*(end if isinstance(end, list) else [end])} - {None}
    spaced = {token for text, token in vocabulary.items() if text.startswith((" ", "Ġ", "▁"))}
    others = {*vocabulary.values()} - spaced
    return Checkpoint(model.eval(), tokenizer, *own, ([*spaced | ends], [*others | ends]))


def _weights(task: str, place: Mapping[str, Any]) -> PreTrainedModel:
    """A model in fp32; a head of its own in the files is not replaced by the embeddings, whatever config.json says."""
    given = {"dtype": torch.float32, "attn_implementation": "eager", "use_safetensors": True}
    for tied in ({"tie_word_embeddings": False}, {}) if task in LANGUAGE_MODELS else ({},):
        model, report = TASKS[task].head.loader.from_pretrained(**place, **given, **tied, output_loading_info=True)
        missing = sorted(name for name in report["missing_keys"] if name.endswith("weight"))
        if not missing:
            return model
    raise InputError(f"--torch: transformers alone finds no numbers for {some(missing)}")
