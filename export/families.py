"""Everything in an export that is special to a family of models (`model_type` in transformers).

To add a family, add its line here, and a row to its test; one that is not listed is exported with the defaults, and
`--check` tries it.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from transformers import MODEL_FOR_MASKED_LM_MAPPING, PretrainedConfig

NEWER = "a newer transformers"  # what may know a family that the installed version does not know
LONGEST = 8192  # tokens of the longest input that an export takes
_COMPARED = (3, 17, 64, 150, 512, 1024)  # tokens of the inputs on which each export is compared with PyTorch
# Settings that say from which length a model may treat positions differently, in all families of transformers.
_TURNS = re.compile("window|chunk|local|block|distance|bucket|relative|original|clamp|floor|segment")
LONGEST_CHUNK = 512  # tokens of the longest text of a model with linear attention: its graph multiplies L × L matrices
_AFTER_PADDING = "after padding"


@dataclass(frozen=True)
class Refusal:
    """Why a family cannot be exported, in all cases or in some."""

    why: str
    case: str = ""
    applies: Callable[[PretrainedConfig], bool] = lambda _: True


@dataclass(frozen=True)
class Family:
    """The special properties of a family; `docs/families.md` says who exports it, and why it is refused."""

    standard_attention: bool = False  # one fused operator computes the attention of each layer; else it is an error
    by_torch: bool = False  # by PyTorch's exporter alone: Optimum does not know the family, or fails
    first_position: int | str = 0  # of the first token in the table of positions; or after the padding id
    padding_id: int | None = None  # where the model takes a fixed one whatever its configuration says
    reads_padding: bool = False  # a text ends at its padding; so it does where positions count after padding
    intermediate_size: str = "intermediate_size"  # what a configuration calls the width of feed-forward blocks
    settings: Mapping[str, Any] = field(default_factory=dict)  # what its configuration must say for the export
    most_tokens: Callable[[PretrainedConfig], int] | None = None  # where its positions do not tell the longest input
    refused: Refusal | None = None


_NYSTROM = Refusal(
    "it takes inputs of one length only",
    "where num_landmarks is not segment_means_seq_len",  # else it computes full attention, as published checkpoints do
    lambda config: bool(config.num_landmarks != config.segment_means_seq_len),
)
_HALVES = Refusal("it halves a text from block to block, and transformers fails on texts of fewer than five tokens")
_BLOCKS = Refusal(
    "it goes through a text block by block, in a loop that is traced for texts of one length only",
    "with linear attention",
    lambda config: "linear_attention" in config.layer_types,
)
_INTEGERS = Refusal(
    "it rounds its values to integers as it computes, and an export has its numbers in fp32",
    "with quant_mode",
    lambda config: bool(config.quant_mode),
)
_SPARSE = Refusal(
    "it needs the inverse of the error function, which ONNX does not have",
    "with sparse activations",
    lambda config: any(config.activation_sparsity_pattern or ()),
)

_PLAIN = (  # tested with the defaults
    *("bloom", "convbert", "deberta", "deberta-v2", "gemma3_text", "gpt_bigcode", "gpt_neox", "layoutlm", "llama"),
    *("mistral", "mobilebert", "qwen2", "roformer", "squeezebert"),
)

FAMILIES = {
    **dict.fromkeys(_PLAIN, Family()),
    "albert": Family(standard_attention=True),
    "bert": Family(standard_attention=True),
    "big_bird": Family(
        standard_attention=True,
        settings={"attention_type": "original_full"},
        # Up to this length transformers computes full attention, whatever the configuration says; then random blocks.
        most_tokens=lambda own: min(own.max_position_embeddings, (5 + 2 * own.num_random_blocks) * own.block_size),
    ),
    "camembert": Family(standard_attention=True, first_position=_AFTER_PADDING),
    "data2vec-text": Family(standard_attention=True, first_position=_AFTER_PADDING),
    "distilbert": Family(standard_attention=True, intermediate_size="hidden_dim"),
    "electra": Family(standard_attention=True),
    "ernie": Family(standard_attention=True, by_torch=True),
    "esm": Family(first_position=_AFTER_PADDING),
    "funnel": Family(refused=_HALVES),
    "gemma3n_text": Family(by_torch=True, refused=_SPARSE),
    "gpt2": Family(standard_attention=True, intermediate_size="n_inner"),
    "ibert": Family(standard_attention=True, first_position=_AFTER_PADDING, refused=_INTEGERS),
    "luke": Family(standard_attention=True, by_torch=True, first_position=_AFTER_PADDING),
    "longformer": Family(refused=Refusal("its windows of attention are traced for inputs of one length only")),
    "megatron-bert": Family(standard_attention=True),
    "minimax": Family(by_torch=True, refused=_BLOCKS),
    "mpt": Family(by_torch=True, intermediate_size=""),
    "mpnet": Family(standard_attention=True, first_position=2, padding_id=1),
    "nystromformer": Family(refused=_NYSTROM),  # positions count from 2, in a table that has two more
    "opt": Family(standard_attention=True, intermediate_size="ffn_dim"),
    "perceiver": Family(refused=Refusal("it reads bytes through latents: no row of it belongs to a mask alone")),
    "rembert": Family(standard_attention=True),
    "roberta": Family(standard_attention=True, first_position=_AFTER_PADDING),
    "roberta-prelayernorm": Family(standard_attention=True, by_torch=True, first_position=_AFTER_PADDING),
    "xlnet": Family(
        by_torch=True,
        intermediate_size="d_inner",
        settings={"use_mems_eval": False, "use_mems_train": False},  # a graph has no memory of earlier texts
        most_tokens=lambda _: 512,  # its positions have no limit; it was trained with so many tokens
    ),
    "xlm-roberta": Family(standard_attention=True, first_position=_AFTER_PADDING),
    "xlm-roberta-xl": Family(standard_attention=True, by_torch=True, first_position=_AFTER_PADDING),
    **dict.fromkeys(("flaubert", "xlm"), Family(by_torch=True, reads_padding=True)),
    "xmod": Family(refused=Refusal("a text takes the layers of its language, and a graph has the same for all")),
    **dict.fromkeys(("modernbert", "modernbert-decoder", "olmo3", "phi3"), Family(by_torch=True)),
    **dict.fromkeys(("eurobert", "gemma4_text", "nomic_bert"), Family(by_torch=True)),
    **dict.fromkeys(
        (
            *("olmo_hybrid", "qwen3_5_text", "qwen3_5_moe_text", "qwen3_next"),
            *("bamba", "falcon_h1", "granitemoehybrid", "mamba2", "nemotron_h", "zamba2"),
        ),
        Family(by_torch=True, most_tokens=lambda _: LONGEST_CHUNK),
    ),
    **dict.fromkeys(("gpt_oss", "mixtral", "olmoe", "qwen2_moe", "qwen3_moe"), Family(by_torch=True)),
}


def family_of(config: PretrainedConfig) -> Family:
    """The special properties of the family of a configuration."""
    return FAMILIES.get(config.model_type, Family())


def refusal_of(config: PretrainedConfig) -> str:
    """Why a configuration cannot be exported; empty if it can."""
    if str(getattr(config, "position_embedding_type", None)).startswith("relative_key"):
        return "with relative positions (position_embedding_type), transformers 5 has it no more"
    refused = family_of(config).refused
    return ", ".join(filter(None, [refused.case, refused.why])) if refused and refused.applies(config) else ""


def has_standard_attention(config: PretrainedConfig) -> bool:
    """Whether one operator computes a model's attention: positions enter with its embeddings alone, too."""
    plain = getattr(config, "position_embedding_type", None) in {None, "absolute"}
    return family_of(config).standard_attention and plain


def padding_id(config: PretrainedConfig) -> int | None:
    """The id of the padding token, where the model counts positions or texts by it: no sentence may hold it."""
    family = family_of(config)
    if family.padding_id is not None:
        return family.padding_id
    # A family without masked models has a classifier that reads the last token before the padding.
    reads = family.reads_padding or counts_after_padding(config) or type(config) not in MODEL_FOR_MASKED_LM_MAPPING
    return config.pad_token_id if reads else None


def counts_after_padding(config: PretrainedConfig) -> bool:
    """Whether positions are those of the tokens that are not padding."""
    family = family_of(config)
    return family.padding_id is not None or family.first_position == _AFTER_PADDING


def first_position(config: PretrainedConfig) -> int:
    """The position of the first token in the table of positions."""
    first = family_of(config).first_position
    return 1 + (padding_id(config) or 0) if first == _AFTER_PADDING else int(first)


def longest_input(config: PretrainedConfig) -> int:
    """The largest number of tokens that a model takes, special tokens included."""
    special = family_of(config).most_tokens
    return _positions(config) if special is None else special(config)


def _positions(config: PretrainedConfig) -> int:
    names = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")  # the last two: MPT, BLOOM
    return next((int(found) for name in names if (found := getattr(config, name, 0))), 512) - first_position(config)


def longest_of(config: PretrainedConfig, *, is_causal: bool) -> int:
    """The longest input of an export: no layer of a causal model sees less of it.

    LongRoPE has another table of rotations for long texts (Phi-3): so texts that share a beginning could not share it.
    """
    window = getattr(config, "sliding_window", None) if getattr(config, "use_sliding_window", True) else None
    rotations = getattr(config, "rope_parameters", None) or {}
    by_layer = [own for own in (rotations, *rotations.values()) if isinstance(own, dict)]  # some have one a layer type
    short = [own.get("original_max_position_embeddings") for own in by_layer if own.get("rope_type") == "longrope"]
    limits = (window, *short) if is_causal else ()
    return min(int(limit) for limit in (longest_input(config), LONGEST, *limits) if limit)


def compared_lengths(config: PretrainedConfig, longest: int, *, is_causal: bool) -> list[int]:
    """The lengths, in tokens, of the random strings on which an export of so long inputs is compared with PyTorch.

    Some up to 1,024; both sides of each length from which positions may be treated differently; and the longest input,
    where such a length limits it, and not the number of positions. A window that looks both ways turns at its half.
    """
    turns = {each for turn in _turns("", config.to_dict()) for each in ([turn] if is_causal else [turn, turn // 2])}
    reach = (0, 1) if is_causal else (0, 1, 2)  # of a window of 2n + 1 tokens, an input of n + 2 goes beyond
    sides = {turn + side for turn in turns if turn < longest for side in reach}
    ends = {longest} if longest < min(_positions(config), LONGEST) else set()
    usual = {min(length, longest) for length in _COMPARED if length <= longest or length > 150}
    return sorted(length for length in usual | sides | ends if _COMPARED[0] <= length <= longest)


def _turns(name: str, setting: object) -> Iterator[int]:
    """Each whole number of a setting, or of those inside it, whose name tells of a change."""
    if isinstance(setting, Mapping):
        for key, own in setting.items():
            yield from _turns(str(key), own)
    elif isinstance(setting, list | tuple):
        for own in setting:
            yield from _turns(name, own)
    elif type(setting) is int and _TURNS.search(name):
        yield setting


def intermediate_size(config: PretrainedConfig) -> int:
    """Width of the feed-forward blocks; 0 if the configuration does not tell."""
    return int(np.max(getattr(config, family_of(config).intermediate_size, None) or 0))  # some have one for each layer
