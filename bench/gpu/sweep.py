"""How fast the low-precision graph and the reference are, by tokens in a batch and by streams."""

from ...engine.inference.cuda import attention_options
from ...engine.inference.device import CPU
from ..workload import candidates, main_job
from .deciding import OnRunner, best, graphs_of, timed
from .runners import plain
from .setting import Found, Setting


def sweep(setting: Setting) -> Found:
    """Model → precision → points with their rates, and the fastest of them."""
    found: Found = {}
    for model in setting.models:
        encoded = candidates(main_job(model.exported), setting.amount.timed).encoded
        for precision, graph in graphs_of(model, setting).items():
            options = {} if setting.device == CPU else attention_options(half=precision == "fp16")
            points = []
            for tokens in setting.amount.batch_tokens:
                for streams in setting.amount.streams:
                    runner = plain(setting, streams=streams, options=options)
                    decider = OnRunner(model.exported, setting, graph, tokens, runner)
                    rate, _ = timed(decider, encoded, setting.amount.rounds)
                    points.append({"tokens a batch": tokens, "streams": streams, "sentences/s": rate})
            found.setdefault(model.name, {})[precision] = {"points": points, "fastest": best(points)}
    return found
