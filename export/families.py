"""Everything in an export that is special to a family of models (`model_type` in transformers).

A family that is not listed is exported with the defaults: positions count from zero, the padding id comes from the
configuration, and attention keeps its plain operators. To add a family, add its line here.
"""

from dataclasses import dataclass

from transformers import PretrainedConfig

_AFTER_PADDING = "after padding"


@dataclass(frozen=True)
class Family:
    """The special properties of a family.

    Attributes:
        standard_attention: its attention has the standard form, so that one fused operator computes it in every layer:
            anything else is an error. The others (rotary or disentangled positions) may keep plain operators.
        first_position: the position that its first token has in the table of positions: a number, or "after padding",
            the number after the padding id. The table's entries before it are lost to sentences.
        padding_id: the padding id, where the model takes a fixed one whatever its configuration says.
        intermediate_size: what its configuration calls the width of the feed-forward blocks.
    """

    standard_attention: bool = False
    first_position: int | str = 0
    padding_id: int | None = None
    intermediate_size: str = "intermediate_size"


FAMILIES = {
    "albert": Family(standard_attention=True),
    "bert": Family(standard_attention=True),
    "camembert": Family(standard_attention=True, first_position=_AFTER_PADDING),
    "data2vec-text": Family(first_position=_AFTER_PADDING),
    "distilbert": Family(standard_attention=True, intermediate_size="hidden_dim"),
    "electra": Family(standard_attention=True),
    "esm": Family(first_position=_AFTER_PADDING),
    "ibert": Family(first_position=_AFTER_PADDING),
    "longformer": Family(first_position=_AFTER_PADDING),
    "luke": Family(first_position=_AFTER_PADDING),
    "mpnet": Family(standard_attention=True, first_position=2, padding_id=1),
    "roberta": Family(standard_attention=True, first_position=_AFTER_PADDING),
    "roberta-prelayernorm": Family(first_position=_AFTER_PADDING),
    "xlm-roberta": Family(standard_attention=True, first_position=_AFTER_PADDING),
    "xlm-roberta-xl": Family(first_position=_AFTER_PADDING),
    "xmod": Family(first_position=_AFTER_PADDING),
}


def family_of(config: PretrainedConfig) -> Family:
    """The special properties of the family of a configuration."""
    return FAMILIES.get(config.model_type, Family())


def padding_id(config: PretrainedConfig) -> int | None:
    """The id of the padding token. No sentence may hold it, as the model ignores it."""
    fixed = family_of(config).padding_id
    own: int | None = config.pad_token_id
    return own if fixed is None else fixed


def longest_input(config: PretrainedConfig) -> int:
    """The largest number of tokens that a model takes, special tokens included."""
    positions = int(getattr(config, "max_position_embeddings", 0) or 512)
    first = family_of(config).first_position
    if first == _AFTER_PADDING:
        padding = padding_id(config)
        return positions - 1 - (0 if padding is None else padding)
    return positions - int(first)


def intermediate_size(config: PretrainedConfig) -> int:
    """Width of the feed-forward blocks; 0 if the configuration does not tell."""
    return int(getattr(config, family_of(config).intermediate_size, 0) or 0)
