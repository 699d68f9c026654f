"""Layers in a form that a graph can have, where transformers computes them in another one; the sums are the same.

Mixtures of experts: every expert computes every token, and those that were not chosen get the weight 0. Where two of
eight experts are chosen, the experts take four times as long. Gated delta rule (Yang et al. 2024), the linear attention
of Qwen 3.5, and state spaces (Dao and Gu 2024), as in Mamba 2: a text is one chunk.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from transformers import PreTrainedModel
from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

from .families import LONGEST_CHUNK

_OURS = "negengine"


@contextmanager
def in_forms_of_graphs(model: PreTrainedModel) -> Iterator[None]:
    """Let a model compute its layers in the forms that a graph can have."""
    if any(hasattr(module, "_is_expert_parallel") for module in model.modules()):
        ALL_EXPERTS_FUNCTIONS.register(_OURS, _all_experts)
        model.set_experts_implementation(_OURS)
    files = {sys.modules[type(module).__module__] for module in model.modules()}
    before = [(file, name, vars(file)[name]) for file in files for name in _IN_ONE_CHUNK if hasattr(file, name)]
    try:
        for file, name, _ in before:
            setattr(file, name, _IN_ONE_CHUNK[name])
        yield
    finally:
        for file, name, own in before:
            setattr(file, name, own)


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
    strength, position, decay = beta.transpose(1, 2)[..., None], torch.arange(key.shape[2]), _decay(g)
    written = _inverse((strength * key) @ key.mT * decay, position) @ (strength * value)
    read = (query * query.shape[-1] ** -0.5) @ key.mT * decay @ written
    return read.transpose(1, 2), None


def _state_space(
    value: torch.Tensor, step: torch.Tensor, rate: torch.Tensor, key: torch.Tensor, query: torch.Tensor, **given: Any
) -> torch.Tensor:
    """What is read at each token, [B, L, heads, d], from what transformers calls x, dt, A, B, C.

    Given: values [B, L, heads, d], steps [B, L, heads], rates [heads], keys and queries [B, L, groups, n]. A token
    reads of each one up to it value × step × (query · key), which decays by exp(rate × step) at each token between.
    """
    times = value.shape[2] // key.shape[2]
    step = torch.nn.functional.softplus(step + given["dt_bias"]).clamp(*given["dt_limit"])
    query, key = (one.repeat_interleave(times, dim=2).transpose(1, 2) for one in (query, key))
    read = query @ key.mT * _decay(rate * step) @ (value * step[..., None]).transpose(1, 2)
    return (read.transpose(1, 2) + given["D"][:, None] * value).contiguous()


def _decay(logs: torch.Tensor) -> torch.Tensor:
    """From each token to each later one, [B, heads, L, L], of the logarithms of single steps, [B, L, heads]."""
    total, position = logs.transpose(1, 2).double().cumsum(-1), torch.arange(logs.shape[1])  # large, of near numbers
    later = position[None] > position[:, None]
    return (total[..., None] - total[..., None, :]).float().masked_fill(later, float("-inf")).exp()


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


_IN_ONE_CHUNK: dict[str, Any] = {"torch_chunk_gated_delta_rule": _delta_rule, "mamba2_chunk_scan": _state_space}
