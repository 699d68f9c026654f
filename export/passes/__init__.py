"""The graph passes in their order. To add a pass, write a file in this folder and name the pass in a list here.

All tasks share `COMMON`; each task adds its own passes before and after it.
"""

from . import attention, cpu, fuse, gpu, half, int8, masks, outputs, rotate, share_prefix, simplify, tables
from .context import Pass

_UNMASKED: tuple[Pass, ...] = (simplify.fold_constants, simplify.drop_casts, masks.drop_neutral_masks)
_SIZED: tuple[Pass, ...] = (simplify.slice_position_tables, simplify.fix_shapes)
_FUSED: tuple[Pass, ...] = (
    rotate.fuse_rotations,
    simplify.keep_tokens_apart,
    simplify.narrow_ids,
    attention.fuse_attention,
    fuse.fuse_operators,
)
_DECIDED: tuple[Pass, ...] = (outputs.hoist_mask_row, outputs.add_decision_head)
COMMON: tuple[Pass, ...] = (*_UNMASKED, *_SIZED, tables.tabulate_shapes, *_FUSED)
CAUSAL: tuple[Pass, ...] = (simplify.fold_shapes, *_UNMASKED, masks.unify_causal_masks, *_SIZED, *_FUSED)
FILL_MASK = (*COMMON, *_DECIDED)
TEXT_CLASSIFICATION = (masks.derive_segments, *COMMON, outputs.hoist_first_token, masks.restore_segments)
TOKEN_CLASSIFICATION = (*COMMON, outputs.add_token_labels)
TEXT_GENERATION = (*CAUSAL, outputs.keep_hidden, *_DECIDED, share_prefix.find_sharing)

# From the finished fp32 graph:
CPU: tuple[Pass, ...] = (cpu.use_standard_attention, cpu.multiply_by_rows, cpu.convolve)
# For classifiers INT8 and FP16, for language models LANGUAGE_INT8 and LANGUAGE_FP16.
INT8: tuple[Pass, ...] = (int8.split_outliers, int8.smooth, int8.quantize_products, cpu.use_standard_attention)
LANGUAGE_INT8: tuple[Pass, ...] = (*INT8, int8.quantize_vocabulary)
FP16: tuple[Pass, ...] = (fuse.fuse_residuals, half.halve)
LANGUAGE_FP16: tuple[Pass, ...] = (gpu.fill_vocabulary, *FP16)
CAUSAL_INT8: tuple[Pass, ...] = (outputs.drop_hidden, *LANGUAGE_INT8)
CAUSAL_FP16: tuple[Pass, ...] = (outputs.drop_hidden, *LANGUAGE_FP16)
SHARING: tuple[Pass, ...] = (share_prefix.share_prefix,)
TREES: tuple[Pass, ...] = (share_prefix.share_beginnings,)
VOCABULARY_ONLY: tuple[Pass, ...] = (outputs.cut_vocabulary,)
