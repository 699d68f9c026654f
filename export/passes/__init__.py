"""The graph passes in their order. To add a pass, write a file in this folder and name the pass in a list here.

Every pass has the signature of `context.Pass`. All tasks share `COMMON`; each task adds its own passes before and after
it.
"""

from .attend import fuse_attention
from .casts import drop_casts
from .causal_masks import unify_causal_masks
from .context import Context, Pass, run_passes
from .convolve import convolve
from .first_token import hoist_first_token
from .fold import fold_constants, fold_shapes
from .fuse import fuse_operators
from .grouped import fix_repetitions
from .half import halve
from .head import add_decision_head
from .hidden import cut_vocabulary, drop_hidden, keep_hidden
from .leaders import quantize_vocabulary
from .mask_row import hoist_mask_row
from .masks import drop_neutral_masks
from .narrow import narrow_ids
from .outliers import split_outliers
from .positions import slice_position_tables
from .quantize import quantize_products
from .reshapes import fix_reshapes
from .residual import fuse_residuals
from .rotate import fuse_rotations
from .segments import derive_segments, restore_segments
from .share_prefix import share_prefix
from .sharing import find_sharing
from .smooth import smooth
from .standard_attention import use_standard_attention
from .token_labels import add_token_labels
from .unflatten import keep_tokens_apart

COMMON: tuple[Pass, ...] = (
    fold_constants,
    drop_neutral_masks,
    slice_position_tables,
    fix_reshapes,
    narrow_ids,
    fuse_attention,
    fuse_operators,
)
CAUSAL: tuple[Pass, ...] = (
    fold_shapes,
    fold_constants,
    drop_casts,
    drop_neutral_masks,
    unify_causal_masks,
    slice_position_tables,
    fix_reshapes,
    fix_repetitions,
    fuse_rotations,
    keep_tokens_apart,
    narrow_ids,
    fuse_attention,
    fuse_operators,
)
FILL_MASK = (*COMMON, hoist_mask_row, add_decision_head)
TEXT_CLASSIFICATION = (derive_segments, *COMMON, hoist_first_token, restore_segments)
TOKEN_CLASSIFICATION = (*COMMON, add_token_labels)
TEXT_GENERATION = (*CAUSAL, keep_hidden, hoist_mask_row, add_decision_head, find_sharing)

# From the finished fp32 graph:
CPU: tuple[Pass, ...] = (use_standard_attention, convolve)
# For classifiers INT8, for language models LANGUAGE_INT8.
INT8: tuple[Pass, ...] = (split_outliers, smooth, quantize_products, use_standard_attention)
LANGUAGE_INT8: tuple[Pass, ...] = (*INT8, quantize_vocabulary)
FP16: tuple[Pass, ...] = (fuse_residuals, halve)
CAUSAL_INT8: tuple[Pass, ...] = (drop_hidden, *LANGUAGE_INT8)
CAUSAL_FP16: tuple[Pass, ...] = (drop_hidden, *FP16)
SHARING: tuple[Pass, ...] = (share_prefix,)
VOCABULARY_ONLY: tuple[Pass, ...] = (cut_vocabulary,)

__all__ = [
    "CAUSAL_FP16",
    "CAUSAL_INT8",
    "CPU",
    "FILL_MASK",
    "FP16",
    "INT8",
    "LANGUAGE_INT8",
    "SHARING",
    "TEXT_CLASSIFICATION",
    "TEXT_GENERATION",
    "TOKEN_CLASSIFICATION",
    "VOCABULARY_ONLY",
    "Context",
    "Pass",
    "run_passes",
]
