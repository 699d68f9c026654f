"""What a run on a user's sentences would do, and about how long it would take."""

import time
from pathlib import Path

from ...runs.shard import Shard
from ...runs.stage import ModelOptions
from ..probe.plan import ProbePlan
from .stage import Likelihoods, Prepared

_SECONDS = 1.0  # of the measurement
_TRIED = 64  # sentences whose time is measured


def plan_of(stage: Likelihoods, options: ModelOptions, devices: int, folder: Path, shard: Shard) -> ProbePlan:
    """Count the sentences and tokens of a run, and estimate its time from a few of its sentences.

    Args:
        stage: The run.
        options: How its model would be opened.
        devices: How many devices would share the work.
        folder: Its run folder.
        shard: The share of the parts that would be done.

    Raises:
        InputError: A row is bad, or the model cannot be opened.
    """
    own = shard.parts(len(stage.tables.parts))
    sentences = tokens = copies = read = longest = 0
    skipped: dict[str, int] = {}
    tried: list[Prepared] = []
    for number in own:
        part = stage.prepare(number)
        tried = tried or [part] * bool(part.texts)
        sentences, tokens = sentences + len(part.texts), tokens + sum(len(one.scored) for one in part.sentences)
        copies += sum(len(one.scored) if stage.method else 1 for one in part.sentences)
        read += _tokens_read(stage, part)
        longest = max([longest, *(len(one.ids) for one in part.sentences)])
        part.rows.count_reasons(skipped)
    work: dict[str, int | float] = {
        "sentences": sentences,
        "tokens to score": tokens,
        "sentences that the model reads" if stage.method is None else "masked copies that the model reads": copies,
        "tokens that the model reads": read,
        "tokens of the longest sentence": longest,
        "parts of this run" if shard.is_whole else f"parts of shard {shard}": len(own),
    }
    if skipped:
        work["rows that would be skipped"] = sum(skipped.values())
    if tried:
        speed = _tokens_a_second(stage, options, tried[0]) * devices
        work |= {"tokens a second": round(speed), "minutes": read / speed / 60}
    return ProbePlan(stage.exported.name, work, skipped, folder)


def _tokens_read(stage: Likelihoods, part: Prepared) -> int:
    """How many tokens the model reads; windows of a causal model overlap, which is not counted."""
    longest = stage.exported.max_length
    if stage.method is None:
        return sum(len(one.ids) for one in part.sentences)
    return sum(len(one.scored) * min(len(one.ids), longest) for one in part.sentences)


def _tokens_a_second(stage: Likelihoods, options: ModelOptions, part: Prepared) -> float:
    """How many tokens the model reads in a second, measured on sentences of middle length, after a first try."""
    order = sorted(range(len(part.texts)), key=lambda i: len(part.sentences[i].ids))
    first = max(0, (len(order) - _TRIED) // 2)
    some = [part.sentences[i] for i in order[first : first + _TRIED]]
    tried = Prepared(part.rows, part.file, [""] * len(some), some)
    model = stage.open(options)
    stage.logprobs(model, some, lambda *_: None)
    done, start = 0, time.perf_counter()
    while (seconds := time.perf_counter() - start) < _SECONDS:
        stage.logprobs(model, some, lambda *_: None)
        done += _tokens_read(stage, tried)
    return done / seconds
