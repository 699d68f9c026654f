"""The old home of `tokenizer`, `verbs` and `composition`."""

from .composition import Composer, WholeSentenceComposer, composer
from .spans import Slice, SlotwiseComposer
from .tokenizer import MaskTokenizer
from .verbs import VerbConvention, mask_fillers

__all__ = [
    "Composer",
    "MaskTokenizer",
    "Slice",
    "SlotwiseComposer",
    "VerbConvention",
    "WholeSentenceComposer",
    "composer",
    "mask_fillers",
]
