"""Small batches: captured CUDA graphs beside plain runs of the same batches."""

from ...engine.inference.cuda import attention_options
from ...engine.inference.device import CPU
from ..workload import candidates, main_job
from .deciding import OnRunner, low_precision_graph, same_top1, timed
from .runners import captured, plain
from .setting import Found, Setting


def graphs(setting: Setting) -> Found:
    """Model → points: tokens in a batch, rates of both ways, and whether both find the same."""
    found: Found = {"captured": setting.device != CPU}
    for model in setting.models:
        graph = low_precision_graph(model, setting)
        options = {} if setting.device == CPU else attention_options(half=True)
        encoded = candidates(main_job(model.exported), max(1, setting.amount.timed // 8)).encoded
        points = []
        for tokens in setting.amount.replayed_tokens:
            rates, answers = {}, {}
            for name, opening in {
                "replayed": captured(setting, options),
                "plain": plain(setting, options=options),
            }.items():
                decider = OnRunner(model.exported, setting, graph, tokens, opening)
                rates[name], answers[name] = timed(decider, encoded, setting.amount.rounds)
            same = same_top1(answers["replayed"], answers["plain"])
            points.append({"tokens a batch": tokens, **rates, "times plain": rates["replayed"] / rates["plain"],
                           "same top-1": same})  # fmt: skip
        found[model.name] = points
    return found
