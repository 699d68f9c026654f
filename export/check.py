"""`negengine export --check`: whether a checkpoint can be exported, from all but its weights; all reasons at once."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from transformers import PretrainedConfig
from transformers.tokenization_utils_fast import PreTrainedTokenizerFast

from ..engine.basics.errors import InputError
from ..engine.library.model import Finding, Verdict
from . import needs
from .checkpoint import (
    ONLY_PICKLED,
    Checkpoint,
    Head,
    Source,
    about_own_code,
    check_architecture,
    check_sizes,
    load_config,
    load_tokenizer,
    locate,
)
from .checkpoint_files import SAFE, tensors_of, weights_of
from .families import family_of, first_position, longest_of
from .observe import told_in_one_line
from .quiet import quiet
from .tasks import Task, task_named, task_of
from .trace import exporter_of


def check(
    reference: str,
    output: Path | None = None,
    *,
    task: str | None = None,
    base: str | None = None,
    revision: str | None = None,
    allow_pickle: bool = False,
) -> Verdict:
    """Say whether a checkpoint can be exported. Of a model of the hub, only small files are fetched.

    Raises InputError if there is no such checkpoint, or its configuration is not readable.
    """
    named = task_named(task) if task else None
    source = locate(reference, revision, base=base)
    folder = output or Path("models") / source.name
    with quiet():
        config = load_config(source)
        wanted = named or task_of(config)
        shape = [
            _finding("family", source.name, partial(_family, source.name, config, wanted.head)),
            _finding("input", source.name, partial(_input, source, config, wanted.head)),
        ]
        files = [
            _finding("tokenizer", source.name, partial(_tokenizer, source, config, wanted)),
            _finding("weights", source.name, partial(_weights, source, allow_pickle)),
        ]
        if files[-1].possible:
            files.append(_finding("needs", source.name, partial(_needs, source, wanted, folder)))
        if all(finding.possible for finding in shape):  # else there is no model whose weights could be named
            shape.append(_finding("head", source.name, partial(_head, source, config, wanted.head)))
    return Verdict(source.name, wanted.head.task, (*shape, *files))


def _finding(what: str, name: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(what, look())
    except InputError as error:
        return Finding(what, str(error).removeprefix(f"{name}: ").removeprefix(f"{name} "), possible=False)


def _family(name: str, config: PretrainedConfig, head: Head) -> str:
    check_architecture(name, config, head)
    exporter_of(name, config, head.task)
    fused = family_of(config).standard_attention
    attention = "one fused operator computes its attention" if fused else "its attention may keep plain operators"
    return "; ".join(filter(None, [config.model_type, attention, about_own_code(config)]))


def _head(source: Source, config: PretrainedConfig, head: Head) -> str:
    """What is known of the weights of the head: their names in the files, or the class that saved them."""
    wanted = head.families[type(config)].__name__
    there = tensors_of(source)
    if there is not None:
        if missing := _missing(source.name, config, head, there):
            raise InputError(f"the weights lack {missing[0]}: the model is not a {head.noun}")
        return f"{wanted}, whose weights are all there"
    saved = [name for name in config.architectures or [] if name != wanted]
    doubt = f"; {', '.join(saved)} saved the weights, so a part may be missing" if saved else ""
    return f"{wanted} (the weights are not here to look at{doubt})"


def _missing(name: str, config: PretrainedConfig, head: Head, there: set[str]) -> list[str]:
    """The weights of a model that files do not name. Shared weights have several names, of which one is enough."""
    with told_in_one_line(name, "making it"), torch.device("meta"):  # shapes without memory
        model = head.loader.from_config(config, trust_remote_code=False)
    prefix = f"{model.base_model_prefix}."
    known = {_today(one, prefix) for one in there}
    names: dict[int, list[str]] = {}
    for own, weight in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(weight), []).append(own)
    return sorted(same[0] for same in names.values() if not known & {_today(one, prefix) for one in same})


def _today(name: str, prefix: str) -> str:
    """A weight's name without what differs between files: the model's prefix, and TensorFlow's words."""
    name = name.removeprefix(prefix)
    if name.startswith("lm_predictions.lm_head."):  # DeBERTa's head under its authors' name
        name = name.replace("lm_predictions.lm_head.", "cls.predictions.transform.").replace("transform.bias", "bias")
    return name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")


def _input(source: Source, config: PretrainedConfig, head: Head) -> str:
    check_sizes(source.name, config)
    first = first_position(config)
    counted = f", as positions count from {first}" if first else ""
    return f"at most {longest_of(config, is_causal=head.is_decoder):,} tokens{counted}"


def _tokenizer(source: Source, config: PretrainedConfig, task: Task) -> str:
    tokenizer = load_tokenizer(source, task.head)
    checkpoint = Checkpoint(source, config, tokenizer, is_causal=task.head.is_decoder)
    checkpoint.refuse_tokens_without_rows()
    task.check(checkpoint)
    mask = f", mask {tokenizer.mask_token} ({tokenizer.mask_token_id})" if task.head.fills_masks else ""
    return f"{kind_of(tokenizer)}, {len(tokenizer):,} tokens{mask}"


def kind_of(tokenizer: PreTrainedTokenizerFast) -> str:
    """How a tokenizer divides words: WordPiece, byte-level BPE, BPE or Unigram."""
    content = json.loads(tokenizer.backend_tokenizer.to_str())
    kind = str(content["model"]["type"])
    levels = json.dumps([content["pre_tokenizer"], content["decoder"]])
    return "byte-level BPE" if kind == "BPE" and "ByteLevel" in levels else kind


def _weights(source: Source, allow_pickle: bool) -> str:
    files = weights_of(source)
    if files is None:
        return "not known, as the hub did not list its files"
    if not files:
        raise InputError("there are no files of weights (model.safetensors)")
    size = f"{sum(files.values()) / 1e9:.2f} GB"
    if any(name.endswith(SAFE) for name in files):
        return f"safetensors, {size}"
    if not allow_pickle:
        raise InputError(f"it {ONLY_PICKLED}")
    return f"pickled, {size}"


def _needs(source: Source, task: Task, folder: Path) -> str:
    needed = needs.estimate(source, 1 + sum(variant.size for variant in task.variants))
    if needed is None:
        return "not known, as the size of the weights is not"
    memory, disk = needs.free_memory(), needs.free_disk(folder.parent)
    needs.check(needed, source.name, folder.parent, memory=memory, disk=disk)
    said = str(needed).removeprefix("needs ")
    return f"{said}; {memory / 1e9:.1f} GB and {disk / 1e9:.1f} GB are free"
