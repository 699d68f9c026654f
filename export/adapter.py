"""LoRA adapters as peft writes them, merged into the weights of the model that they were trained on.

To a weight, lora_alpha / rank · B · A is added; of rsLoRA, lora_alpha / √rank · B · A.
"""

from pathlib import Path
from typing import Any

import msgspec
from safetensors.torch import load_file
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from ..engine.basics.errors import InputError
from ..engine.basics.reading import is_file, parse_json, read_regular

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
PREFIX = "base_model.model."  # what the names of an adapter's tensors begin with; the model's own names follow
BY_HAND = "merge it with peft (`merge_and_unload`), and export what `save_pretrained` writes then"
_A, _B = ".lora_A.weight", ".lora_B.weight"
_MOST_CONFIG = 2**20  # bytes


class Adapter(msgspec.Struct):
    """What is read of adapter_config.json."""

    peft_type: str
    base_model_name_or_path: str | None = None
    lora_alpha: float = 8
    use_rslora: bool = False
    alpha_pattern: dict[str, Any] = {}


def read_adapter(folder: Path) -> Adapter | None:
    """What a folder says of its adapter; None if it holds none."""
    return _read(folder / CONFIG) if is_file(folder / CONFIG) else None


def _read(path: Path) -> Adapter:
    try:
        return msgspec.convert(parse_json(read_regular(path, _MOST_CONFIG).decode(), str(path)), Adapter)
    except (UnicodeDecodeError, msgspec.ValidationError) as error:
        raise InputError(f"{path}: not as peft writes it ({error})") from None


def merge(model: PreTrainedModel, folder: Path) -> set[str]:
    """Merge an adapter into its base; returns the names of the weights that it replaces.

    Raises InputError if a tensor has no place in the base, or one that two layers share.
    """
    adapter, weights = _read(folder / CONFIG), dict(model.named_parameters(remove_duplicate=False))
    loaded = load_file(folder / WEIGHTS).items()
    tensors = {key.removeprefix(PREFIX).replace(".base_layer.", "."): own for key, own in loaded}
    whole = {name for name in tensors if not name.endswith((_A, _B))}
    for layer in [name.removesuffix(_A) for name in tensors if name.endswith(_A)]:
        a, b, name = tensors.pop(layer + _A), tensors.pop(layer + _B, None), f"{layer}.weight"
        fits = b is not None and name in weights and a.ndim == b.ndim == 2 and len(a) == b.shape[1]
        if not fits or adapter.alpha_pattern:
            raise InputError(f"{folder}: its LoRA of {layer} is not a plain one of the base; {BY_HAND}")
        product = b.float() @ a.float() * (adapter.lora_alpha / len(a) ** (0.5 if adapter.use_rslora else 1))
        product = product.T if isinstance(model.get_submodule(layer), Conv1D) else product
        tensors[name] = weights[name].data + product if product.shape == weights[name].shape else product
    for name, tensor in tensors.items():
        if name not in weights or weights[name].shape != tensor.shape:
            size = " × ".join(map(str, tensor.shape))
            said = f"the base has no weight {name} of {size} numbers; give its own base, or {BY_HAND}"
            raise InputError(f"{folder}: {said}")
        if shared := [own for own, other in weights.items() if other is weights[name] and own != name]:
            raise InputError(f"{folder}: changes {name}, which the base shares with {shared[0]}; {BY_HAND}")
        weights[name].data = tensor.float()
    return whole
