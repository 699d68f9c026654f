"""Layers in a form that a graph can have, where transformers computes them in another one; the sums are the same.

Mixtures of experts: every expert computes every token, and those that were not chosen get the weight 0. Where two of
eight experts are chosen, the experts take four times as long. Gated delta rule (Yang et al. 2024), the linear attention
of Qwen 3.5: a text is one chunk.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from transformers import PreTrainedModel
from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

from .families import LONGEST_CHUNK

_OURS, _DELTA_RULE = "negengine", "torch_chunk_gated_delta_rule"


@contextmanager
def in_forms_of_graphs(model: PreTrainedModel) -> Iterator[None]:
    """Let a model compute its layers in the forms that a graph can have."""
    if any(hasattr(module, "_is_expert_parallel") for module in model.modules()):
        ALL_EXPERTS_FUNCTIONS.register(_OURS, _all_experts)
        model.set_experts_implementation(_OURS)
    files = {sys.modules[type(module).__module__] for module in model.modules()}
    before = {file: vars(file)[_DELTA_RULE] for file in files if hasattr(file, _DELTA_RULE)}
    try:
        for file in before:
            setattr(file, _DELTA_RULE, _delta_rule)
        yield
    finally:
        for file, own in before.items():
            setattr(file, _DELTA_RULE, own)


def _all_experts(
    self: torch.nn.Module, hidden: torch.Tensor, chosen: torch.Tensor, weights: torch.Tensor
) -> torch.Tensor:
    """Of the rows [T, H] and the experts chosen for each, [T, k], with their weights: rows [T, H]."""

    def product(rows: torch.Tensor, name: str) -> torch.Tensor:  # of each expert, [experts, T, ·]
        matrix = getattr(self, name)
        result = torch.matmul(rows, matrix if self.is_transposed else matrix.transpose(1, 2))
        return result + getattr(self, f"{name}_bias")[:, None] if self.has_bias else result

    inner = product(hidden[None], "gate_up_proj" if self.has_gate else "up_proj")
    found = product(self._apply_gate(inner) if self.has_gate else self.act_fn(inner), "down_proj")
    if self.has_post_expert_norm:
        found = self.post_expert_norm(found)
    is_chosen = chosen[:, :, None] == torch.arange(found.shape[0])
    share = (is_chosen * weights[:, :, None]).sum(dim=1)  # [T, experts]
    return (found * share.T[:, :, None]).sum(dim=0).to(hidden.dtype)


def _delta_rule(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, g: torch.Tensor, beta: torch.Tensor, **given: object
) -> tuple[torch.Tensor, None]:
    """What is read at each token, [B, L, heads × n, e].

    Given: queries and keys [B, L, heads, d], values [B, L, heads × n, e], log-decays and strengths [B, L, heads × n].
    A token writes what its value has beyond what is read with its key. So the values that are written solve a system
    of equations whose matrix is triangular, with ones on its diagonal: each depends on those before it.
    """
    times = value.shape[2] // key.shape[2]
    query, key = (one.repeat_interleave(times, dim=2) if times > 1 else one for one in (query, key))
    query, key, value = (one.transpose(1, 2) for one in (query, key, value))
    if given.get("use_qk_l2norm_in_kernel"):
        query, key = (one * torch.rsqrt((one * one).sum(-1, keepdim=True) + 1e-6) for one in (query, key))
    total, strength = g.transpose(1, 2).double().cumsum(-1), beta.transpose(1, 2)[..., None]  # large, of near numbers
    position = torch.arange(key.shape[2])
    later = position[None] > position[:, None]
    decay = (total[..., None] - total[..., None, :]).float().masked_fill(later, float("-inf")).exp()
    written = _inverse((strength * key) @ key.mT * decay, position) @ (strength * value)
    read = (query * query.shape[-1] ** -0.5) @ key.mT * decay @ written
    return read.transpose(1, 2), None


def _inverse(below: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
    """The inverse of matrices with ones on the diagonal and these numbers below it, [B, heads, L, L].

    Of two neighbouring blocks on the diagonal whose inverses are known, the inverse of both together has - second
    inverse × what stands below the first block × first inverse in the corner. So the blocks' size doubles in each step.
    """
    inverse = (position[:, None] == position).to(below.dtype)
    for step in range((LONGEST_CHUNK - 1).bit_length()):
        block = position // 2**step
        is_corner = (block[:, None] == block + 1) & (block[:, None] % 2 == 1)
        inverse = inverse - inverse @ (below * is_corner) @ inverse
    return inverse
