"""LoRA adapters as peft writes them, merged into the weights of the model that they were trained on.

To a weight, lora_alpha / rank · B · A is added; of rsLoRA, lora_alpha / √rank · B · A. Whatever else
adapter_config.json asks for is refused: peft has many variants of LoRA, and each gives other numbers.
"""

from pathlib import Path
from typing import Any

import msgspec
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from ..engine.basics.errors import InputError, first_line
from ..engine.basics.reading import is_file, parse_json, read_regular

CONFIG, WEIGHTS, PICKLED = "adapter_config.json", "adapter_model.safetensors", "adapter_model.bin"
PREFIX = "base_model.model."  # what the names of an adapter's tensors begin with; the model's own names follow
BY_HAND = "merge it with peft (`merge_and_unload`), and export what `save_pretrained` writes then"
_A, _B = ".lora_A.weight", ".lora_B.weight"
_MOST_CONFIG = 2**20  # bytes


# What adapter_config.json says of the training alone, or of the adapter's tensors, which have names and sizes.
_CHANGES_NOTHING = {
    *("auto_mapping", "bias", "exclude_modules", "fan_in_fan_out", "inference_mode", "layers_pattern"),
    *("layers_to_transform", "lora_dropout", "megatron_core", "modules_to_save", "peft_version", "qalora_group_size"),
    *("r", "rank_pattern", "runtime_config", "task_type"),
}
# PiSSA, OLoRA, CorDA, LoftQ, LoRA-GA and others take their first values out of the base, which peft then changes.
_LEAVE_THE_BASE = {"gaussian", "eva", "orthogonal"}


class Adapter(msgspec.Struct):
    """What is read of adapter_config.json."""

    peft_type: str
    base_model_name_or_path: str | None = None
    revision: str | None = None
    lora_alpha: float = 8
    use_rslora: bool = False
    init_lora_weights: bool | str | None = True
    target_modules: str | list[str] | None = None
    further: dict[str, Any] = {}  # what asks for something that is not known

    def refuse_variants(self, folder: Path) -> None:
        """An InputError if the adapter is not a plain LoRA."""
        first, asked = self.init_lora_weights, [f"{key} {str(value)[:40]}" for key, value in self.further.items()]
        if isinstance(first, str) and first.lower() not in _LEAVE_THE_BASE:
            asked.append(f"init_lora_weights {first}, which changes the base")
        if asked:
            raise InputError(f"{folder / CONFIG} asks for {asked[0]}: this is not a plain LoRA; {BY_HAND}")

    def is_of(self, layer: str) -> bool:
        """Whether peft reads the tensors of a layer, where names of layers tell (and no pattern does)."""
        named = self.target_modules
        return not isinstance(named, list) or any(layer == own or layer.endswith(f".{own}") for own in named)


def read_adapter(folder: Path) -> Adapter | None:
    """What a folder says of its adapter; None if it holds none."""
    return _read(folder / CONFIG) if is_file(folder / CONFIG) else None


def _read(path: Path) -> Adapter:
    try:
        found = parse_json(read_regular(path, _MOST_CONFIG).decode(), str(path))
        adapter = msgspec.convert(found, Adapter)
    except (UnicodeDecodeError, msgspec.ValidationError) as error:
        raise InputError(f"{path}: not as peft writes it ({error})") from None
    known = {*Adapter.__struct_fields__, *_CHANGES_NOTHING}
    if adapter.init_lora_weights == "eva":
        known.add("eva_config")  # how the first values were found
    adapter.further = {key: own for key, own in found.items() if key not in known and _asks(own)}
    return adapter


def _asks(value: object) -> bool:
    return not (value is None or value is False or value in ({}, [], ""))


def names_in(folder: Path) -> set[str]:
    """The names of the weights that an adapter has as a whole, as its base calls them."""
    try:
        with safe_open(folder / WEIGHTS, framework="numpy") as file:
            names = {_own_name(key) for key in file.keys()}  # noqa: SIM118
    except SafetensorError as error:  # a download was interrupted
        raise InputError(f"{folder / WEIGHTS} is damaged or cut off ({first_line(error)}): fetch it again") from None
    return {name for name in names if not name.endswith((_A, _B))}


def _own_name(key: str) -> str:
    return key.removeprefix(PREFIX).replace(".base_layer.", ".")


def merge(model: PreTrainedModel, folder: Path) -> None:
    """Merge an adapter into its base, which may have shapes alone (PyTorch's device `meta`).

    Raises InputError if a tensor has no place in the base, or one that two layers share, or is not finite.
    """
    adapter, weights = _read(folder / CONFIG), dict(model.named_parameters(remove_duplicate=False))
    tensors = {_own_name(key): own for key, own in load_file(folder / WEIGHTS).items()}
    if unsound := [name for name, own in tensors.items() if not torch.isfinite(own).all()]:
        raise InputError(f"{folder / WEIGHTS}: {unsound[0]} holds numbers that are not finite (NaN or infinite)")
    for layer in [name.removesuffix(_A) for name in tensors if name.endswith(_A)]:
        a, b, name = tensors.pop(layer + _A), tensors.pop(layer + _B, None), f"{layer}.weight"
        fits = b is not None and name in weights and a.ndim == b.ndim == 2 and len(a) == b.shape[1]
        if not fits:
            raise InputError(f"{folder}: its LoRA of {layer} is not a plain one of the base; {BY_HAND}")
        if not adapter.is_of(layer):
            said = f"has tensors of {layer}, which its target_modules do not name, so peft does not read them"
            raise InputError(f"{folder} {said}: correct {CONFIG}")
        product = b.float() @ a.float() * (adapter.lora_alpha / len(a) ** (0.5 if adapter.use_rslora else 1))
        product = product.T if isinstance(model.get_submodule(layer), Conv1D) else product
        product = product.to(weights[name].device)
        tensors[name] = weights[name].data + product if product.shape == weights[name].shape else product
    for name, tensor in tensors.items():
        if name not in weights or weights[name].shape != tensor.shape:
            size = " × ".join(map(str, tensor.shape))
            said = f"the base has no weight {name} of {size} numbers; give its own base, or {BY_HAND}"
            raise InputError(f"{folder}: {said}")
        if shared := [own for own, other in weights.items() if other is weights[name] and own != name]:
            raise InputError(f"{folder}: changes {name}, which the base shares with {shared[0]}; {BY_HAND}")
        weights[name].data = tensor.float().to(weights[name].device)
