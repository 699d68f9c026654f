"""Mixtures of experts in a form that a graph can have. transformers 5 lets us give this form; transformers 4 does not.

transformers chooses a token's experts and computes these alone, in a loop or by indices that depend on the tokens. Here
every expert computes every token, and those that were not chosen get the weight 0. The sums are the same. Where two of
eight experts are chosen, the experts take four times as long.
"""

import torch
from transformers import PreTrainedModel

try:
    from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS
except ImportError:  # transformers 4
    ALL_EXPERTS_FUNCTIONS = None

_OURS = "negengine"


def use_all_experts(model: PreTrainedModel) -> None:
    """Let a model's mixtures compute all of their experts, where it has mixtures."""
    if ALL_EXPERTS_FUNCTIONS is not None and any(hasattr(module, "_is_expert_parallel") for module in model.modules()):
        ALL_EXPERTS_FUNCTIONS.register(_OURS, _all_experts)
        model.set_experts_implementation(_OURS)


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
