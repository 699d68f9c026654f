"""LoRA adapters as peft writes them, merged into the weights of the model that they were trained on.

    weight += scale · B · A        scale: lora_alpha / rank, or lora_alpha / √rank (rsLoRA)

Layers that were trained as a whole, such as a new head, replace those of the base. Every tensor of the file must have
its place: an adapter of another kind, or of another model, is refused.
"""

import re
from pathlib import Path

import msgspec
import torch
from safetensors.torch import load_file
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from ..engine.basics.errors import InputError
from ..engine.basics.reading import is_file, parse_json, read_regular

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
PREFIX = "base_model.model."
"""What the names of an adapter's tensors begin with; the model's own names follow."""
_MOST_CONFIG = 2**20  # bytes
_FACTOR = re.compile(r"(?P<layer>.+)\.(?P<kind>lora_|lora_embedding_)(?P<side>[AB])(?:\.weight)?")
BY_HAND = "merge it with peft (`merge_and_unload`), and export what `save_pretrained` writes then"


class Adapter(msgspec.Struct):
    """What is read of adapter_config.json."""

    peft_type: str = ""
    base_model_name_or_path: str | None = None
    lora_alpha: float = 8
    use_rslora: bool = False
    alpha_pattern: dict[str, float] = {}  # pattern of a layer's name → its own lora_alpha

    @property
    def base(self) -> str:
        return self.base_model_name_or_path or "MODEL"

    def scale(self, layer: str, rank: int) -> float:
        own = (alpha for name, alpha in self.alpha_pattern.items() if re.fullmatch(rf"(.*\.)?({name})", layer))
        return next(own, self.lora_alpha) / (rank**0.5 if self.use_rslora else rank)


def read_adapter(folder: Path) -> Adapter | None:
    """What a folder says of its adapter; None if it holds none."""
    path = folder / CONFIG
    if not is_file(path):
        return None
    try:
        return msgspec.convert(parse_json(read_regular(path, _MOST_CONFIG).decode(), str(path)), Adapter)
    except (UnicodeDecodeError, msgspec.ValidationError) as error:
        raise InputError(f"{path}: not as peft writes it ({error})") from None


def merge(model: PreTrainedModel, folder: Path) -> set[str]:
    """Merge an adapter into its base; returns the names of the weights that it replaces.

    Raises InputError if a tensor has no place in the base, or one that two layers share.
    """
    adapter, weights = read_adapter(folder) or Adapter(), dict(model.named_parameters(remove_duplicate=False))
    factors: dict[tuple[str, str], dict[str, torch.Tensor]] = {}
    new: dict[str, torch.Tensor] = {}
    for key, tensor in load_file(folder / WEIGHTS).items():
        name = key.removeprefix(PREFIX).replace(".base_layer.", ".")
        if match := _FACTOR.fullmatch(name):
            factors.setdefault((match["layer"], match["kind"]), {})[match["side"]] = tensor.float()
        else:
            new[name] = tensor.float()
    whole = set(new)
    for (layer, kind), pair in factors.items():
        name = f"{layer}.weight"
        if len(pair) < 2 or name not in weights or pair["A"].ndim != 2 or pair["A"].shape[0] != pair["B"].shape[-1]:
            raise InputError(f"{folder}: its LoRA of {layer} does not fit the base; {BY_HAND}")
        product = adapter.scale(layer, len(pair["A"])) * pair["B"] @ pair["A"]
        is_turned = kind == "lora_embedding_" or isinstance(model.get_submodule(layer), Conv1D)
        product = product.T if is_turned else product
        new[name] = product + new.get(name, weights[name].data) if product.shape == weights[name].shape else product
    for name, tensor in new.items():
        if name not in weights or weights[name].shape != tensor.shape:
            size = " × ".join(map(str, tensor.shape))
            raise InputError(
                f"{folder}: the base has no weight {name} of {size} numbers; give its own base, or {BY_HAND}"
            )
        if shared := [own for own, other in weights.items() if other is weights[name] and own != name]:
            raise InputError(f"{folder}: changes {name}, which the base shares with {shared[0]}; {BY_HAND}")
        weights[name].data = tensor
    return whole
