"""What the files of a checkpoint hold, read from the files themselves, and whether a model takes all of it.

The comparison with PyTorch loads a checkpoint with the library that an export loads it with, so it proves nothing about
what is loaded. Here each tensor of the files is a parameter, shares one, or is known to be of no use for the task; each
parameter has its tensor, or one that it shares; and after loading, the parameters have the numbers of the files.
"""

import hashlib
import inspect
import json
import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import huggingface_hub
import torch
from httpx import HTTPError
from huggingface_hub.errors import (
    EntryNotFoundError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    NotASafetensorsRepoError,
    SafetensorsParsingError,
)
from safetensors import SafetensorError, safe_open
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_utils import load_state_dict

from ..engine.basics.errors import InputError, first_line
from ..engine.basics.printable import counted
from ..engine.basics.reading import is_file, paths_in
from . import adapter
from .checkpoint import (
    ONLY_PICKLED,
    UNQUANTISED,
    Checkpoint,
    Head,
    Source,
    dequantised,
    json_object,
    refuse_pointer,
    use_head_of_authors,
)
from .families import NEWER
from .observe import told_in_one_line

SAFE, PICKLED = ".safetensors", ".bin"
_FLOATS = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
_OF_A_BYTE = {  # what weights that are dequantised, and their scales, are stored as
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "F8_E8M0": torch.float8_e8m0fnu,
    "U8": torch.uint8,
}
_BYTES_IN_FP32 = 4


@dataclass(frozen=True)
class Tensor:
    """A tensor as the header of its file describes it."""

    dtype: str  # as safetensors names it, such as F32
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Inventory:
    """What a model takes from the files of a checkpoint."""

    tensors: Mapping[str, Tensor]
    loaded_as: str  # the class of the model
    shared: Mapping[str, str] = field(default_factory=dict)  # a parameter without a tensor → the tensor that it shares
    is_untied: bool = False  # the files hold a head of its own, whatever config.json says
    unused: tuple[str, ...] = ()  # tensors that are of no use for the task
    dequantised: str = ""  # the method by which the weights in the files are quantised, which are read as floats

    @property
    def digest(self) -> str:
        """SHA-256 of all that is accounted for."""
        tensors = {name: [own.dtype, *own.shape] for name, own in sorted(self.tensors.items())}
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


# ---------------------------------------------------------------- the files
_WHOLE = (
    f"model{SAFE}",
    f"pytorch_model{PICKLED}",
)  # what transformers reads, in this order; else the parts of an index
_INDEX = ".index.json"
_FOREIGN = {  # files in the place of weights → what they are, and what to do
    "*.onnx": "an ONNX export of another program: give the checkpoint that it was made from",
    "*.gguf": "a GGUF file: give that file itself",
    "tf_model*": "weights for TensorFlow: load them with transformers 4 (`from_tf=True`), and save the model again",
    "*.msgpack": "weights for Flax: load them with transformers 4 (`from_flax=True`), and save the model again",
    "global_step*": "parts of DeepSpeed: run zero_to_fp32.py, which lies beside them",
    "pytorch_model_fsdp*": "parts of FSDP: run `accelerate merge-weights`",
    "*.safetensors": "tensors under another name: transformers reads model.safetensors",
    "*.ckpt": "a checkpoint of another program: save the model with transformers' save_pretrained",
    "*.pt": "a checkpoint of another program: save the model with transformers' save_pretrained",
    "*.pth": "a checkpoint of another program: save the model with transformers' save_pretrained",
}


def weight_files(source: Source) -> list[Path] | None:
    """The files on this machine that hold a model's weights; None where those of the hub are not here.

    Raises InputError for an index without its files, and for other files in the place of weights.
    """
    folder = Path(source.location)
    if not source.is_local:
        cached = huggingface_hub.try_to_load_from_cache(source.location, "config.json", revision=source.revision)
        folder = Path(cached).parent if isinstance(cached, str) else folder
    for whole in _WHOLE:
        if is_file(folder / whole):
            return [folder / whole]
        if is_file(index := folder / f"{whole}{_INDEX}"):
            parts = _parts(index)
            if all(map(is_file, parts)):
                return parts
            if source.is_local:
                missing = next(path for path in parts if not is_file(path))
                raise InputError(f"{missing} is missing, which {index.name} names: fetch it again")
    if not source.is_local:
        return None
    if dangling := [folder / whole for whole in _WHOLE if (folder / whole).is_symlink()]:
        raise InputError(f"{dangling[0]} is a link to nothing: fetch the file again")
    for pattern, said in _FOREIGN.items():
        if found := [*paths_in(folder, pattern), *paths_in(folder / "onnx", pattern)]:
            raise InputError(f"{source.name} has no weights for PyTorch; {found[0].name} is {said}")
    raise InputError(f"{source.name} has no files of weights (model.safetensors)")


def _parts(index: Path) -> list[Path]:
    named = json_object(index).get("weight_map")
    if not isinstance(named, dict) or not named:
        raise InputError(f"{index} has no weight_map, which names the files of weights: fetch it again")
    return [index.parent / name for name in sorted({*map(str, named.values())})]


def fetch(source: Source, *, allow_pickle: bool) -> None:
    """Bring a model's weights from the hub into its cache; an InputError if there are none that may be read."""
    try:
        for whole in _WHOLE[: 1 + allow_pickle]:
            if _fetched(source, whole):
                return
            if index := _fetched(source, f"{whole}{_INDEX}"):
                if missing := [path.name for path in _parts(index) if not _fetched(source, path.name)]:
                    raise InputError(f"{source.name}: the hub has no {missing[0]}, which {index.name} names")
                return
    except LocalEntryNotFoundError:
        raise InputError(f"{source.name}: its weights are not in the cache, and the hub was not reached") from None
    except (HfHubHTTPError, HTTPError) as error:
        raise InputError(f"{source.name}: the weights could not be fetched: {first_line(error)}") from None
    raise InputError(f"{source.name} {ONLY_PICKLED}")


def _fetched(source: Source, name: str) -> Path | None:
    try:
        return Path(huggingface_hub.hf_hub_download(source.location, name, revision=source.revision))
    except LocalEntryNotFoundError:
        raise
    except EntryNotFoundError:
        return None


def tensors_of(files: Iterable[Path]) -> dict[str, Tensor]:
    """Every tensor of some files by its name, without its numbers; an InputError if a file is damaged."""
    found: dict[str, Tensor] = {}
    for path in files:
        refuse_pointer(path)
        try:
            if path.suffix == SAFE:
                with safe_open(path, framework="numpy") as file:  # compares the header with the size
                    slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
                    found |= {name: Tensor(own.get_dtype(), tuple(own.get_shape())) for name, own in slices.items()}
            else:
                found |= {
                    name: _described(own) for name, own in load_state_dict(str(path), map_location="meta").items()
                }
        except SafetensorError as error:  # a download was interrupted
            raise InputError(f"{path} is damaged or cut off ({first_line(error)}): fetch it again") from None
        except (TypeError, UnpicklingError):
            said = "holds more than tensors by their names: load it in Python, and save the model with save_pretrained"
            raise InputError(f"{path} {said}") from None
        except Exception as error:  # noqa: BLE001 - of pickles, everything
            raise InputError(f"{path}: cannot be read ({first_line(error)})") from None
    return found


def tensors_on_hub(source: Source) -> dict[str, Tensor] | None:
    """The same of a model's files on the hub, of which the headers alone are fetched; None if the hub does not tell."""
    with suppress(HfHubHTTPError, HTTPError, OSError, NotASafetensorsRepoError, SafetensorsParsingError):
        if not huggingface_hub.constants.HF_HUB_OFFLINE:
            found = huggingface_hub.HfApi().get_safetensors_metadata(source.location, revision=source.revision)
            tensors = [item for file in found.files_metadata.values() for item in file.tensors.items()]
            return {name: Tensor(own.dtype, tuple(own.shape)) for name, own in tensors}
    return None


def _described(value: object) -> Tensor:
    if not isinstance(value, torch.Tensor):
        raise TypeError("not a tensor")
    kinds = {kind: name for name, kind in (_FLOATS | _OF_A_BYTE).items()}
    return Tensor(kinds.get(value.dtype, str(value.dtype)), tuple(value.shape))


def weights_of(source: Source) -> dict[str, float] | None:
    """The files of weights with their size in fp32, in bytes; None if the hub does not tell."""
    if source.adapter:
        adapter.names_in(source.adapter)  # which refuses a damaged one
    if (files := weight_files(source)) is not None:
        return {path.name: float(_size(path)) for path in files}
    with suppress(HfHubHTTPError, HTTPError, OSError):
        if not huggingface_hub.constants.HF_HUB_OFFLINE:
            info = huggingface_hub.HfApi().model_info(source.location, revision=source.revision, files_metadata=True)
            sizes = {item.rfilename: float(item.size or 0) for item in info.siblings or []}
            safe = {name: size for name, size in sizes.items() if "/" not in name and name.endswith(SAFE)}
            return safe or {name: size for name, size in sizes.items() if name.startswith("pytorch_model")}
    return None


def _size(path: Path) -> int:
    if path.suffix != SAFE:
        return path.stat().st_size
    found = tensors_of([path])  # a byte of blocks holds two numbers
    return _BYTES_IN_FP32 * sum(math.prod(own.shape) * (1 + key.endswith("_blocks")) for key, own in found.items())


# ---------------------------------------------------------------- what a model takes of them
_QUANTISED = re.compile(
    r".*[._](qweight|qzeros|scales?|scale_inv|g_idx|SCB|absmax|quant_map|quant_state\..*|packed|blocks|zero_point)"
)
# Of no use for any task: a head that says which words were replaced, a value head, masks and positions as buffers.
_OF_NO_USE = re.compile(
    r"(mask_predictions|lm_predictions|v_head|value_head)\..*|.*\.?(position_ids|inv_freq|masked_bias|attn\.bias)"
)
_WRAPPERS = r"(?:module|_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)\."
_DECODER_BIAS = ".decoder.bias"
_SCALES = ("_scale_inv", ".scale", ".qscale_weight", "_scales")  # as fp8 and mxfp4 name them


def _quantised(name: str, how: str) -> str:
    return f"{name} is quantised ({how}): {UNQUANTISED}"


def take(
    source: Source,
    head: Head,
    config: PretrainedConfig,
    tensors: Mapping[str, Tensor],
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
    written = {
        own: key for key in tensors for own in (key, f"{prefix}{key}")
    }  # parameter → tensor, if their names agree
    _refuse_wrapped(name, kind, config, tensors, written)
    shared, is_untied = _shared(name, kind, config, files, written)
    method = dequantised(config.to_dict())
    in_bytes = [key for key, own in tensors.items() if own.dtype not in _FLOATS and not _OF_NO_USE.fullmatch(key)]
    if method and (alone := [key for key in in_bytes if not _is_scaled(key, tensors)]):
        raise InputError(_quantised(name, f"{alone[0]} is {tensors[alone[0]].dtype}, without the scales of {method}"))
    missing, unread, wrong = _dry_run(name, kind, config, tensors)
    missing -= {*shared}
    for own in [own for own in missing if own.endswith(_DECODER_BIAS)]:  # transformers 4 shares it always
        if (bias := own.replace(_DECODER_BIAS, ".bias")) in written:
            shared[own] = written[bias]
            missing.discard(own)
    shared |= (tied := _tied_head(name, kind, config, missing, written))
    missing -= {*tied}
    missing -= {*adapter.names_in(source.adapter)} if source.adapter else set()
    used = {key: own for key, own in tensors.items() if key not in unread}
    unread -= {key for key in unread if method and key.endswith(".activation_scale")}  # floats need no scale
    if not method and (quantised := [key for key in in_bytes if key in used]):
        raise InputError(_quantised(name, f"{quantised[0]} is {used[quantised[0]].dtype}"))
    if quantised := sorted(key for key in unread if _QUANTISED.fullmatch(key)):
        raise InputError(_quantised(name, f"{quantised[0]} scales another tensor"))
    if wrong:
        raise InputError(f"{name}: {_other_shape(min(wrong), tensors.get(written.get(min(wrong), '')))}")
    unread = {key for key in unread if not _OF_NO_USE.fullmatch(key)}
    known = (_of_other_heads(kind, config) | _own_classifiers(kind, config, tensors)) if unread else set()
    left = sorted(unread - known)
    if missing and not any(map(_is_adapters, left)):
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        more += f", and hold {left[0]}, which it does not read" if left else ""
        raise InputError(f"{name} is not a {head.noun}: its weights lack {min(missing)}{more}")
    if left:
        raise InputError(f"{name}: {_unread(left, kind, config)}")
    if source.adapter and not is_untied:
        adapter.merge(without_weights(name, kind, config), source.adapter)
    return Inventory(tensors, kind.__name__, shared, is_untied, tuple(sorted(unread)), method)


def _is_scaled(key: str, tensors: Mapping[str, Tensor]) -> bool:
    """Whether a tensor of bytes is one that transformers dequantises: its scales are beside it, or it is the scales."""
    stem, blocks = key.removesuffix("weight"), key.removesuffix("blocks")
    scales = {f"{key}_scale_inv", f"{stem}scale", f"{stem}qscale_weight", f"{blocks}scales"} - {key}
    return tensors[key].dtype in _OF_A_BYTE and (key.endswith(_SCALES) or any(scale in tensors for scale in scales))


def _shared(
    name: str, kind: type[PreTrainedModel], config: PretrainedConfig, files: Sequence[Path], written: Mapping[str, str]
) -> tuple[dict[str, str], bool]:
    """Parameter → the tensor that it shares; and whether a head has its own, whatever config.json says."""
    shared: dict[str, str] = {}
    is_untied = False
    for group in _groups(name, kind, config):
        there = [own for own in group if own in written]
        values = _read(files, [written[own] for own in there]) if files and len(there) > 1 else {}
        first = max(there, key=lambda own: own.endswith(_DECODER_BIAS), default="")  # that bias is added, if any
        if any(not torch.equal(values[written[first]], value) for value in values.values()):
            is_untied |= not first.endswith(_DECODER_BIAS)
            shared |= {own: written[first] for own in group if own != first and first.endswith(_DECODER_BIAS)}
    return shared, is_untied


def _tied_head(
    name: str, kind: type[PreTrainedModel], config: PretrainedConfig, missing: set[str], written: Mapping[str, str]
) -> dict[str, str]:
    """A head without a tensor → the word embeddings, where transformers 4 shared them, and 5 does so no more (LUKE)."""
    if not missing or not getattr(config, "tie_word_embeddings", True):
        return {}
    model = without_weights(name, kind, config)
    names = {id(own): key for key, own in model.named_parameters()}
    head, words = model.get_output_embeddings(), model.get_input_embeddings()
    head, words = (names.get(id(getattr(own, "weight", None)), "") for own in (head, words))
    return {head: written[words]} if head in missing and words in written else {}


def _groups(name: str, kind: type[PreTrainedModel], config: PretrainedConfig) -> list[list[str]]:
    """The names of the parameters that a model has under several names."""
    names: dict[int, list[str]] = {}
    for own, weight in without_weights(name, kind, config).named_parameters(remove_duplicate=False):
        names.setdefault(id(weight), []).append(own)
    return [group for group in names.values() if len(group) > 1]


def without_weights(name: str, kind: type[PreTrainedModel], config: PretrainedConfig) -> PreTrainedModel:
    """A model whose parameters have shapes and take no memory."""
    with told_in_one_line(name, "making it"), torch.device("meta"):
        return kind._from_config(config)  # noqa: SLF001 - AutoModel's from_config calls it


def _dry_run(
    name: str, kind: type[PreTrainedModel], config: PretrainedConfig, tensors: Mapping[str, Tensor]
) -> tuple[set[str], set[str], set[str]]:
    """What transformers does with tensors of these names and shapes, as they may be renamed, joined and divided.

    Parameters without a tensor, tensors without a parameter, and parameters of another shape.
    """
    kinds = _FLOATS | _OF_A_BYTE
    state = {
        key: torch.empty(own.shape, dtype=kinds.get(own.dtype, torch.float32), device="meta")
        for key, own in tensors.items()
    }
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


def _other_shape(own: str, tensor: Tensor | None) -> str:
    if tensor is None:
        return f"{own} has another shape in the files than config.json says"
    if 0 in tensor.shape:
        said = "DeepSpeed saved a part: run zero_to_fp32.py, or train with stage3_gather_16bit_weights_on_model_save"
        return f"{own} has no numbers in the file; {said}"
    return f"{own} is {' × '.join(map(str, tensor.shape))} in the file, and config.json asks for another shape"


def _refuse_wrapped(
    name: str, kind: type[PreTrainedModel], config: PretrainedConfig, tensors: Iterable[str], known: Iterable[str]
) -> None:
    """An InputError if the names of all tensors have a prefix that a program for training put there."""
    names = {own for own, _ in without_weights(name, kind, config).named_parameters(remove_duplicate=False)}
    if names & {*known}:
        return
    for key in tensors:
        for own in names:
            if key.endswith(f".{own}") or re.sub(_WRAPPERS, "", key) == own:
                before = key.removesuffix(own) if key.endswith(own) else "".join(re.findall(_WRAPPERS, key))
                said = "as a program for training wraps a model: save the model inside it, or remove the prefix"
                raise InputError(f"{name}: the names of its weights begin with {before!r}, {said}")


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


def _own_classifiers(kind: type[PreTrainedModel], config: PretrainedConfig, tensors: Mapping[str, Tensor]) -> set[str]:
    """Tensors of linear layers beside the body that give a few numbers, as a model with own tasks has them.

    Neither the body nor the head for tokens reads those: its rows are as wide as the hidden ones or the vocabulary.
    """
    body = without_weights(kind.__name__, kind, config).base_model
    inside = {kind.base_model_prefix, *(name for name, _ in body.named_children())}
    width = config.hidden_size
    stems = {
        key.removesuffix(".weight")
        for key, own in tensors.items()
        if key.endswith(".weight") and key.partition(".")[0] not in inside
        if len(own.shape) == 2 and own.shape[1] == width and own.shape[0] < min(width, config.vocab_size)
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


def readable_files(source: Source, *, allow_pickle: bool) -> list[Path]:
    """The files of a model's weights, fetched where they are on the hub; an InputError for pickles without consent."""
    if not source.is_local:
        fetch(source, allow_pickle=allow_pickle)
    files = weight_files(source) or []
    if not allow_pickle and any(path.suffix != SAFE for path in files):
        raise InputError(f"{source.name} {ONLY_PICKLED}")
    return files


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
