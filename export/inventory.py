"""What the files of a checkpoint hold, read from the files themselves, and whether a model takes all of it.

The comparison with PyTorch loads a checkpoint with the library that an export loads it with, so it proves nothing about
what is loaded. Here each tensor of the files is a parameter, shares one, or is known to be of no use for the task; each
parameter has its tensor, or one that it shares; and after loading, the parameters have the numbers of the files.
"""

import hashlib
import inspect
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_utils import load_state_dict

from ..engine.basics.errors import InputError, first_line
from ..engine.basics.printable import counted
from . import adapter
from .checkpoint import UNQUANTISED, Checkpoint, Head, dequantised, use_head_of_authors
from .families import NEWER
from .observe import told_in_one_line
from .source import Source
from .weight_files import NAMES_OF_TYPES, readable_files, tensors_of

_FLOATS = {torch.float64, torch.float32, torch.float16, torch.bfloat16}
# What weights that are dequantised, and their scales, are stored as.
_OF_A_BYTE = {torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e8m0fnu, torch.uint8}


@dataclass(frozen=True)
class Inventory:
    """What a model takes from the files of a checkpoint."""

    tensors: Mapping[str, torch.Tensor]  # without their numbers
    loaded_as: str  # the class of the model
    shared: Mapping[str, str] = field(default_factory=dict)  # a parameter without a tensor → the tensor that it shares
    is_untied: bool = False  # the files hold a head of its own, whatever config.json says
    unused: tuple[str, ...] = ()  # tensors that are of no use for the task
    dequantised: str = ""  # the method by which the weights in the files are quantised, which are read as floats

    @property
    def digest(self) -> str:
        """SHA-256 of all that is accounted for."""
        tensors = {name: [_type(own), *own.shape] for name, own in sorted(self.tensors.items())}
        said = [tensors, self.loaded_as, dict(self.shared), self.is_untied, self.unused]
        said += [self.dequantised] if self.dequantised else []
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()

    def lines(self) -> list[str]:
        """What a user should know, though no number depends on it."""
        told = []
        if self.dequantised:
            told.append(
                f"its weights are quantised ({self.dequantised}); the numbers that they stand for are the model"
            )
        if self.is_untied:
            told.append(
                "its head has weights of its own, which are read, though config.json says that it shares others"
            )
        if self.unused:
            several = counted(len(self.unused), "tensor is", "tensors are")
            told.append(f"{several} not needed for the task, such as {self.unused[0]}")
        return told


# ---------------------------------------------------------------- what a model takes of them
_QUANTISED = re.compile(
    r".*[._](qweight|qzeros|scales?|scale_inv|g_idx|SCB|absmax|quant_map|quant_state\..*|packed|blocks|zero_point)"
)
# Of no use for any task: a head that says which words were replaced, a value head, masks and positions as buffers.
_OF_NO_USE = re.compile(
    r"(mask_predictions|lm_predictions|v_head|value_head)\..*|.*\.?(position_ids|inv_freq|masked_bias|attn\.bias)"
)
_DECODER_BIAS = ".decoder.bias"
_SCALES = ("_scale_inv", ".scale", ".qscale_weight", "_scales")  # as fp8 and mxfp4 name them


def _type(tensor: torch.Tensor) -> str:
    """The type as safetensors names it, such as F32."""
    return str(NAMES_OF_TYPES.get(tensor.dtype, tensor.dtype))


def _quantised(name: str, how: str) -> str:
    return f"{name} is quantised ({how}): {UNQUANTISED}"


def take(
    source: Source,
    head: Head,
    config: PretrainedConfig,
    tensors: Mapping[str, torch.Tensor],
    files: Sequence[Path] = (),
) -> Inventory:
    """Account for every tensor and for every parameter of the model; an InputError if something is left.

    With the files that hold the tensors, heads of their own are told from shared ones. Where they are DeBERTa's under
    its authors' name, the configuration is told.
    """
    name, kind = source.name, head.families[type(config)]
    if getattr(config, "legacy", False) and any(key.startswith("lm_predictions.") for key in tensors):
        use_head_of_authors(config)
    prefix = f"{kind.base_model_prefix}."
    # Parameter → tensor, if their names agree.
    written = {own: key for key in tensors for own in (key, f"{prefix}{key}")}
    model = without_weights(name, kind, config)
    shared, is_untied = _shared(model, files, written)
    method = dequantised(config.to_dict())
    in_bytes = [key for key, own in tensors.items() if own.dtype not in _FLOATS and not _OF_NO_USE.fullmatch(key)]
    if method and (alone := [key for key in in_bytes if not _is_scaled(key, tensors)]):
        raise InputError(_quantised(name, f"{alone[0]} is {_type(tensors[alone[0]])}, without the scales of {method}"))
    missing, unread, wrong = _dry_run(name, kind, config, tensors)
    missing -= {*shared}
    for own in [own for own in missing if own.endswith(_DECODER_BIAS)]:  # transformers 4 shares it always
        if (bias := own.replace(_DECODER_BIAS, ".bias")) in written:
            shared[own] = written[bias]
            missing.discard(own)
    shared |= (tied := _tied_head(model, missing, written))
    missing -= {*tied}
    missing -= {*adapter.names_in(source.adapter)} if source.adapter else set()
    used = {key: own for key, own in tensors.items() if key not in unread}
    unread -= {key for key in unread if method and key.endswith(".activation_scale")}  # floats need no scale
    if not method and (quantised := [key for key in in_bytes if key in used]):
        raise InputError(_quantised(name, f"{quantised[0]} is {_type(used[quantised[0]])}"))
    if quantised := sorted(key for key in unread if _QUANTISED.fullmatch(key)):
        raise InputError(_quantised(name, f"{quantised[0]} scales another tensor"))
    if wrong:
        raise InputError(f"{name}: {_other_shape(min(wrong), tensors.get(written.get(min(wrong), '')))}")
    unread = {key for key in unread if not _OF_NO_USE.fullmatch(key)}
    known = (_of_other_heads(kind, config) | _own_classifiers(model, tensors)) if unread else set()
    left = sorted(unread - known)
    if missing and not any(map(_is_adapters, left)):
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        more += f", and hold {left[0]}, which it does not read" if left else ""
        raise InputError(f"{name} is not a {head.noun}: its weights lack {min(missing)}{more}")
    if left:
        raise InputError(f"{name}: {_unread(left, kind, config)}")
    if source.adapter and not is_untied:
        adapter.merge(model, source.adapter)
    return Inventory(tensors, kind.__name__, shared, is_untied, tuple(sorted(unread)), method)


def _is_scaled(key: str, tensors: Mapping[str, torch.Tensor]) -> bool:
    """Whether a tensor of bytes is one that transformers dequantises: its scales are beside it, or it is the scales."""
    stem, blocks = key.removesuffix("weight"), key.removesuffix("blocks")
    scales = {f"{key}_scale_inv", f"{stem}scale", f"{stem}qscale_weight", f"{blocks}scales"} - {key}
    return tensors[key].dtype in _OF_A_BYTE and (key.endswith(_SCALES) or any(scale in tensors for scale in scales))


def _shared(model: PreTrainedModel, files: Sequence[Path], written: Mapping[str, str]) -> tuple[dict[str, str], bool]:
    """Parameter → the tensor that it shares; and whether a head has its own, whatever config.json says."""
    shared: dict[str, str] = {}
    is_untied = False
    names: dict[int, list[str]] = {}
    for own, weight in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(weight), []).append(own)
    for group in (own for own in names.values() if len(own) > 1):  # one parameter under several names
        there = [own for own in group if own in written]
        values = _read(files, [written[own] for own in there]) if files and len(there) > 1 else {}
        first = max(there, key=lambda own: own.endswith(_DECODER_BIAS), default="")  # that bias is added, if any
        if any(not torch.equal(values[written[first]], value) for value in values.values()):
            is_untied |= not first.endswith(_DECODER_BIAS)
            shared |= {own: written[first] for own in group if own != first and first.endswith(_DECODER_BIAS)}
    return shared, is_untied


def _tied_head(model: PreTrainedModel, missing: set[str], written: Mapping[str, str]) -> dict[str, str]:
    """A head without a tensor → the word embeddings, where transformers 4 shared them, and 5 does so no more (LUKE)."""
    if not missing or not getattr(model.config, "tie_word_embeddings", True):
        return {}
    names = {id(own): key for key, own in model.named_parameters()}
    head, words = model.get_output_embeddings(), model.get_input_embeddings()
    head, words = (names.get(id(getattr(own, "weight", None)), "") for own in (head, words))
    return {head: written[words]} if head in missing and words in written else {}


def without_weights(name: str, kind: type[PreTrainedModel], config: PretrainedConfig) -> PreTrainedModel:
    """A model whose parameters have shapes and take no memory."""
    with told_in_one_line(name, "making it"), torch.device("meta"):
        return kind._from_config(config)  # noqa: SLF001 - AutoModel's from_config calls it


def _dry_run(
    name: str, kind: type[PreTrainedModel], config: PretrainedConfig, tensors: Mapping[str, torch.Tensor]
) -> tuple[set[str], set[str], set[str]]:
    """What transformers does with tensors of these names and shapes, as they may be renamed, joined and divided.

    Parameters without a tensor, tensors without a parameter, and parameters of another shape.
    """
    kinds = _FLOATS | _OF_A_BYTE
    state = {key: own if own.dtype in kinds else own.to(torch.float32) for key, own in tensors.items()}
    given = {"dtype": torch.float32, "device_map": {"": "meta"}, "attn_implementation": "eager"}
    try:
        _, report = kind.from_pretrained(
            None, config=config, state_dict=state, ignore_mismatched_sizes=True, output_loading_info=True, **given
        )
    except Exception as error:  # noqa: BLE001 - transformers raises nearly everything here
        raise InputError(f"{name}: its weights are not those of {kind.__name__}: {first_line(error)}") from None
    wrong = names_of(report["mismatched_keys"])
    return {*report["missing_keys"]} - wrong, {*report["unexpected_keys"]}, wrong


def names_of(report: Iterable[Any]) -> set[str]:
    """The names of parameters of another shape: transformers 5 reports their shapes, too."""
    return {key if isinstance(key, str) else key[0] for key in report}


def _other_shape(own: str, tensor: torch.Tensor | None) -> str:
    if tensor is None:
        return f"{own} has another shape in the files than config.json says"
    if 0 in tensor.shape:
        said = "DeepSpeed saved a part: run zero_to_fp32.py, or train with stage3_gather_16bit_weights_on_model_save"
        return f"{own} has no numbers in the file; {said}"
    return f"{own} is {' × '.join(map(str, tensor.shape))} in the file, and config.json asks for another shape"


def _of_other_heads(kind: type[PreTrainedModel], config: PretrainedConfig) -> set[str]:
    """The names of what the family's models for other tasks have, such as a pooler."""
    names: set[str] = set()
    for other in vars(sys.modules[kind.__module__]).values():
        is_model = inspect.isclass(other) and issubclass(other, PreTrainedModel)
        if is_model and getattr(other, "config_class", None) is type(config):
            with suppress(Exception):  # one that asks for other settings, or an abstract class
                model = without_weights(kind.__name__, other, config)
                own = {key for key, _ in [*model.named_parameters(remove_duplicate=False), *model.named_buffers()]}
                names |= own | {f"{kind.base_model_prefix}.{key}" for key in own}
    return names


def _own_classifiers(model: PreTrainedModel, tensors: Mapping[str, torch.Tensor]) -> set[str]:
    """Tensors of linear layers beside the body that give a few numbers, as a model with own tasks has them.

    Neither the body nor the head for tokens reads those: its rows are as wide as the hidden ones or the vocabulary.
    """
    inside = {model.base_model_prefix, *(name for name, _ in model.base_model.named_children())}
    width, vocabulary = model.config.hidden_size, model.config.vocab_size
    stems = {
        key.removesuffix(".weight")
        for key, own in tensors.items()
        if key.endswith(".weight") and key.partition(".")[0] not in inside
        if len(own.shape) == 2 and own.shape[1] == width and own.shape[0] < min(width, vocabulary)
    }
    return {f"{stem}.{end}" for stem in stems for end in ("weight", "bias")}


def _is_adapters(key: str) -> bool:
    return any(word in key for word in ("lora_", "adapter", ".base_layer."))


def _unread(left: list[str], kind: type[PreTrainedModel], config: PretrainedConfig) -> str:
    what = f"{kind.__name__} does not read {counted(len(left), 'tensor')} of its files, such as {left[0]}"
    layers = [int(found[1]) for key in left if (found := re.search(r"\.(?:h|layers?|blocks?)\.(\d+)\.", f".{key}"))]
    if layers and min(layers) >= int(getattr(config, "num_hidden_layers", 0) or sys.maxsize):
        return f"{what}: config.json says {config.num_hidden_layers} layers, and the files have {max(layers) + 1}"
    if any(map(_is_adapters, left)):
        return f"{what}: merge its adapters into the model, and save it again"
    return f"{what}, which may change what it computes: remove what the model does not need, or install {NEWER}"


# ---------------------------------------------------------------- loading
def _read(files: Iterable[Path], names: Iterable[str]) -> dict[str, torch.Tensor]:
    """Some tensors, in fp32."""
    found: dict[str, torch.Tensor] = {}
    wanted = {*names}
    for path in files:
        state = load_state_dict(str(path))  # mapped: what is not used is not read
        found |= {key: state[key].float() for key in wanted & {*state}}
    return found


def load_model(checkpoint: Checkpoint, head: Head, *, allow_pickle: bool = False) -> PreTrainedModel:
    """Load the weights, in fp32 and evaluation mode; refuses pickles, damaged files, and what `take` refuses."""
    return load_counted(checkpoint, head, allow_pickle=allow_pickle)[0]


def load_counted(
    checkpoint: Checkpoint, head: Head, *, allow_pickle: bool = False
) -> tuple[PreTrainedModel, Inventory]:
    """The same, and what was read."""
    source, config = checkpoint.source, checkpoint.config
    files = readable_files(source, allow_pickle=allow_pickle)
    inventory = take(source, head, config, tensors_of(files), files)
    # Eager attention: plain operators in the exported graph, which the fusions recognise.
    model, _ = read_weights(source, head, files, inventory, config=config, attn_implementation="eager")
    refuse_unsound(source.name, model, files, inventory)
    if source.adapter:
        adapter.merge(model, source.adapter)
    return model.eval(), inventory


def read_weights(
    source: Source, head: Head, files: Iterable[Path], inventory: Inventory | None = None, **given: Any
) -> tuple[PreTrainedModel, dict[str, Any]]:
    """The model in fp32, and what transformers reports of the weights' names.

    It gets the tensors and no folder: so it does not look for adapters there, which it would do if peft is installed.
    """
    shared = inventory.shared if inventory else {}
    try:
        state = {key: own for path in files for key, own in load_state_dict(str(path)).items()}
        state |= {own: state[key] for own, key in shared.items()}
        kind = head.families[type(given["config"])]
        given |= {"dtype": torch.float32, "output_loading_info": True}
        model, report = kind.from_pretrained(None, state_dict=state, **given)
    except Exception as error:  # noqa: BLE001 - transformers raises nearly everything here
        said = [line.strip() for line in str(error).splitlines() if line.strip()]
        line = " ".join(said[:2]) if said and said[0].endswith(":") else first_line(error)
        raise InputError(f"{source.name}: the weights could not be read: {line}") from None
    return model, report | {"mismatched_keys": names_of(report["mismatched_keys"])}


def refuse_unsound(name: str, model: PreTrainedModel, files: Iterable[Path], inventory: Inventory) -> None:
    """An InputError for numbers that are not finite in fp32, and for two tensors of one parameter that differ.

    And for a parameter that has other numbers than the tensor of its name, where the model has numbers.
    """
    prefix, parameters = f"{model.base_model_prefix}.", dict(model.named_parameters(remove_duplicate=False))
    replaced = {id(parameters[own]) for own in inventory.shared if own in parameters}
    has_numbers = not any(own.is_meta for own in parameters.values())  # XLNet makes some that are never without
    places: dict[str, tuple[str, Path]] = {}
    others = ""
    for path in files:
        for key, stored in load_state_dict(str(path)).items():
            value = stored.float()
            own = next((parameters[known] for known in (key, f"{prefix}{key}") if known in parameters), None)
            is_read = own is not None and own.shape == value.shape and id(own) not in replaced and has_numbers
            if own is not None and is_read and stored.element_size() > 1 and not torch.equal(own, value):
                others = others or f"{name}: transformers loads other numbers than {path.name} holds as {key}"
            if key in inventory.unused:
                continue
            if value.numel() and not all(map(torch.isfinite, value.aminmax())):
                raise InputError(
                    f"{name}: {key} in {path.name} holds numbers that are not finite in fp32 (NaN, infinite or too "
                    "large), and so does what the model computes; give a checkpoint of sound weights"
                )
            # Without the model's name, and without the names of TensorFlow's layers:
            plain = re.sub(r"\.gamma$", ".weight", re.sub(r"\.beta$", ".bias", key.removeprefix(prefix)))
            other, place = places.setdefault(plain, (key, path))
            if (other, place) == (key, path) or torch.equal(_read([place], [other])[other], value):
                continue
            if not {key, other} <= parameters.keys() or key == other:
                said = f"{other} in {place.name} and {key} in {path.name} are one parameter with two values"
                raise InputError(f"{name}: {said}: remove the tensor that is wrong")
    if others:
        raise InputError(others)
