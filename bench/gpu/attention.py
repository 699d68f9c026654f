"""The kernels of attention that ONNX Runtime has for CUDA, one after the other."""

from typing import Any

from ..workload import candidates, main_job
from .deciding import OnRunner, low_precision_graph, same_top1, timed
from .runners import plain
from .setting import Found, Setting

_TOKENS = 16_384
_KERNELS = {
    "unfused": 16,
    "its choice": 0,
    "flash": 1,
    "memory-efficient": 2,
    "flash or memory-efficient": 3,
    "cuDNN": 8,
}
"""Name → ONNX Runtime's option `sdpa_kernel`. The first one is what the others are compared with."""


def attention(setting: Setting) -> Found:
    """Model → kernel → rate of the low-precision graph, and the share of equal top-1; or why it does not run."""
    found: Found = {}
    for model in setting.models:
        graph = low_precision_graph(model, setting)
        encoded = candidates(main_job(model.exported), setting.amount.timed).encoded
        tokens = min(_TOKENS, max(setting.amount.batch_tokens))
        rows: dict[str, dict[str, Any]] = {}
        reference = None
        for name, number in _KERNELS.items():
            try:
                opening = plain(setting, options={"sdpa_kernel": str(number)})
                decider = OnRunner(model.exported, setting, graph, tokens, opening)
                rate, answers = timed(decider, encoded, setting.amount.rounds)
            except Exception as error:  # noqa: BLE001 - a kernel that does not run is a result
                rows[name] = {"why": str(error).strip().partition("\n")[0]}
                continue
            reference = reference or answers
            rows[name] = {"sentences/s": rate, "same top-1": same_top1(answers, reference)}
        found[model.name] = rows
    return found
