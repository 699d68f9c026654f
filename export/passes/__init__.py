"""The graph passes in their order. To add a pass, write a file in this folder and name the pass in a list here.

All tasks share `COMMON`; each task adds its own passes before and after it.
"""

from .attention import fix_repetitions, fuse_attention
from .context import Pass
from .cpu import convolve, use_standard_attention
from .fuse import fuse_operators, fuse_residuals
from .half import halve
from .int8 import quantize_products, quantize_vocabulary, smooth, split_outliers
from .masks import derive_segments, drop_neutral_masks, restore_segments, unify_causal_masks
from .outputs import (
    add_decision_head,
    add_token_labels,
    cut_vocabulary,
    drop_hidden,
    hoist_first_token,
    hoist_mask_row,
    keep_hidden,
)
from .rotate import fuse_rotations
from .share_prefix import find_sharing, share_beginnings, share_prefix
from .simplify import (
    drop_casts,
    fix_reshapes,
    fold_constants,
    fold_shapes,
    keep_tokens_apart,
    narrow_ids,
    slice_position_tables,
)

_UNMASKED: tuple[Pass, ...] = (fold_constants, drop_casts, drop_neutral_masks)
_FUSED: tuple[Pass, ...] = (
    slice_position_tables,
    fix_reshapes,
    fix_repetitions,
    fuse_rotations,
    keep_tokens_apart,
    narrow_ids,
    fuse_attention,
    fuse_operators,
)
COMMON: tuple[Pass, ...] = (*_UNMASKED, *_FUSED)
CAUSAL: tuple[Pass, ...] = (fold_shapes, *_UNMASKED, unify_causal_masks, *_FUSED)
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
TREES: tuple[Pass, ...] = (share_beginnings,)
VOCABULARY_ONLY: tuple[Pass, ...] = (cut_vocabulary,)
