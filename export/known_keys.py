"""The keys of config.json that the installed transformers does not read: what it would ignore without a word.

A newer transformers writes keys that say what a model computes, such as how it rotates. An older one takes its own
defaults in their place, and PyTorch, which an export is compared with, takes them too.
"""

import inspect
import re
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any

from transformers import GenerationConfig, PretrainedConfig

from ..engine.basics.errors import InputError
from .families import NEWER

# What says something of the file, of training, of generated texts, of speed or of other libraries.
_CHANGES_NOTHING = re.compile(
    r"_.*|.*(dropout|initializer|gradient_checkpointing|_loss|loss_).*|init_(std|method|device|config)|pooler_.*|"
    r"unsloth_.*|.*_version|.*_token_id|.*attn_implementation|transformers(\.js)?_.*|"
    r"architectures|auto_map|directionality|dtype|torch_dtype|finetuning_task|language|licen[cs]e|model_max_length|"
    r"model_type|output_past|prefix|quantization_config|reference_compile|repad_logits_with_grad|return_dict|"
    r"task_specific_params|tokenizer_class|torchscript|use_bfloat16|use_cache|use_return_dict|verbose|xla_device|"
    r"tie_encoder_decoder|tie_weights_|total_flos|trained_.*|"
    r".*_pdrop|model_name|tokenizer_name|name_or_path|max_seq_len(gth)?|fp16|bf16|sentence_transformers|sbert_ce_.*|"
    r"(use_)?flash_(attn|rotary)|fused_.*|deterministic_flash_attn|is_llama_config|"
    r"down_scale_factor|gap_size|net_structure_type|num_memory_blocks|"  # ALBERT
    r"n_ctx|n_special|predict_special_tokens|"  # GPT, GPT-2 and their descendants
    r"seq_length|offset_alibi|skip_bias_add|skip_bias_add_qkv|masked_softmax_fusion|bias_dropout_fusion|"  # BLOOM
    r"attention_softmax_in_fp32|inference_runner|pad_key_length|pre_allocate_kv_cache|validate_runner_input|"
    r"padding_idx"  # DeBERTa
)
_TRAINING_TOO = frozenset({"flaubert", "xlm"})  # their files hold all options of the training, and those of data

# Where a newer transformers dropped a choice, the values for which it computes the same.
_COMPUTED = {
    "add_cross_attention": (False,),
    "apply_residual_connection_post_layernorm": (False,),
    "attention_mode": ("longformer",),
    "ignore_attention_mask": (False,),
    "is_decoder": (False,),
    "is_encoder_decoder": (False,),
    "position_embedding_type": ("absolute", "rope"),
    "pretraining_tp": (1,),
    "pruned_heads": ({},),
    "rope_interleaved": (False,),
    "rotary": (True,),
    "scale_attn_weights": (True,),
    "untie_r": (True,),
    "use_mrope": (False,),
}


def refuse_unread(name: str, config: PretrainedConfig, written: Mapping[str, Any]) -> None:
    """An InputError if config.json has keys that nothing reads and that may change what the model computes."""
    if config.model_type in _TRAINING_TOO:
        return
    unread = {key: value for key, value in written.items() if value is not None and not _is_read(key, config)}
    for key, value in sorted(unread.items()):
        if _CHANGES_NOTHING.fullmatch(key) or value in _COMPUTED.get(key, ()) or _is_whole(key, value):
            continue
        by = written.get("transformers_version")
        newer = f", which transformers {by} wrote" if isinstance(by, str) else ""
        raise InputError(
            f"{name}: config.json says {key} {str(value)[:60]}{newer}, and the installed transformers does not read "
            f"it: {NEWER} may; if it changes nothing that the model computes, remove it from config.json"
        )


_KINDS = "layer_types"


def _is_whole(key: str, value: object) -> bool:
    """Whether a setting says of each layer that it sees all tokens, as a class without kinds of layers computes."""
    return key == _KINDS and isinstance(value, list) and {*map(str, value)} == {"full_attention"}


_BASES = ("rope_theta", "rotary_emb_base", "global_rope_theta", "local_rope_theta", "rope_local_base_freq")
_PARTS = ("partial_rotary_factor", "rotary_pct")


def keep_rotations(name: str, config: PretrainedConfig, written: Mapping[str, Any]) -> None:
    """Check that a configuration rotates as config.json says, which transformers 4 wrote under other names.

    A single base is that of every kind of layer, where the class has one default; an InputError for what is left out.
    """
    kept = getattr(config, "rope_parameters", None)
    if not isinstance(kept, dict):
        return
    if is_new := isinstance(written.get("rope_parameters"), dict):  # which nothing older beside it may contradict
        kept = written["rope_parameters"]
    by_layer = [own for own in kept.values() if isinstance(own, dict)] or [kept]
    bases = {key: written[key] for key in _BASES if isinstance(written.get(key), int | float)}
    if len(bases) == 1 and not is_new and not isinstance(getattr(config, "default_theta", None), dict):
        for own in by_layer:
            own["rope_theta"] = next(iter(bases.values()))
    scaling = written.get("rope_scaling")
    asked = bases | {key: written[key] for key in _PARTS if written.get(key) not in (None, 1)}
    if isinstance(scaling, dict):
        asked |= {key: value for key, value in scaling.items() if key not in {"type", "rope_type"}}
    read = [value for own in by_layer for value in own.values()]
    if lost := next((key for key, value in asked.items() if value is not None and value not in read), None):
        who, remedy = (
            "the installed transformers rotates by",
            "write rope_parameters in its place, as transformers 5 does",
        )
        if is_new:
            who, remedy = "rope_parameters says", "remove the one that is wrong"
        said = f"config.json says {lost} {str(asked[lost])[:60]}, and {who} {str(kept)[:80]}"
        raise InputError(f"{name}: {said}: {remedy}")


def _is_read(key: str, config: PretrainedConfig) -> bool:
    asked = rf"[\"']{re.escape(key)}[\"']|(config|self)\.{re.escape(key)}\b"  # self: a class derives it from others
    general = () if key == _KINDS else _GENERAL  # it checks those words, and classes compute by them
    return key in _keys(type(config)) or re.search(asked, _source(type(config).__module__, general)) is not None


def _keys(kind: type[PretrainedConfig]) -> set[str]:
    """What a class of configurations takes; of its attributes, what any model has, and how texts are generated."""
    made = {key for own in (kind, PretrainedConfig) for key in inspect.signature(own.__init__).parameters}
    declared = {key for own in kind.__mro__ for key in vars(own).get("__annotations__", {})}
    general = {*vars(PretrainedConfig()), *GenerationConfig().to_dict()}
    return made | declared | general | {*kind.attribute_map, *kind.attribute_map.values()}


_GENERAL = ("transformers.configuration_utils", "transformers.modeling_rope_utils")


@cache
def _source(own: str, general: tuple[str, ...]) -> str:
    """The code that may read a key that the class does not name: transformers keeps it as an attribute."""
    return "".join(_text(module) for module in (own, own.replace(".configuration_", ".modeling_"), *general))


def _text(module: str) -> str:
    try:
        return inspect.getsource(import_module(module))
    except (ImportError, OSError):
        return ""
