"""How many times as fast the low-precision model is as the reference model, on this kind of processor.

It is measured once for a model and kept (`measured`), as it decides with `--precision auto` how a run decides.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

from ..text.spans import Bucket, EncodedSentences
from .device import CPU
from .measured import Measured, Say
from .model import Decider, LanguageModel
from .opened import OpenedModel
from .processor import processor

NAME = "speed of the low-precision model over fp32"
_ROUNDS = (3, 7)  # fewest and most
_SECONDS = 3.0  # after these, the fewest rounds are enough
_TICK = 1e-9  # seconds; a clock can be too coarse for a small batch


def kept_speed_ratio(
    low_precision: OpenedModel, reference: OpenedModel, timed: Callable[[], Callable[[Any], object]], say: Say
) -> float:
    """The number that was measured for this model and processor before, or else now.

    Args:
        low_precision: The low-precision model.
        reference: The reference model, on the same device.
        timed: Gives what is timed, for the case that it is measured now; see `speed_ratio`.
        say: Receives one line where a file is damaged, or where the number cannot be kept.
    """
    conditions = {
        **processor(reference.device),
        **({"threads": reference.at_a_time} if reference.device == CPU else {}),
        "batch tokens": reference.batch_tokens,
        "graphs": {
            model.graph.name: model.exported.info["files"].get(model.graph.name) for model in (low_precision, reference)
        },
    }
    kept = Measured.beside(reference.exported.folder, conditions)
    return kept.number(NAME, lambda: speed_ratio(low_precision, reference, timed()), say)


def speed_ratio(
    low_precision: object,
    reference: object,
    decide: Callable[[Any], object],
    *,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Measure it: the median over rounds, each of which times both models on the same sentences.

    Args:
        low_precision: The low-precision model.
        reference: The reference model.
        decide: Takes a model, and lets it decide the sentences of a round.
        clock: Gives seconds.
    """
    for model in (low_precision, reference):
        decide(model)  # not timed: warm-up
    ratios: list[float] = []
    fewest, most = _ROUNDS
    begun = clock()
    while len(ratios) < fewest or (len(ratios) < most and clock() - begun < _SECONDS):
        seconds = []
        for model in (low_precision, reference):
            started = clock()
            decide(model)
            seconds.append(max(clock() - started, _TICK))
        ratios.append(seconds[1] / seconds[0])
    return statistics.median(ratios)


def deciding(sample: EncodedSentences, reference: LanguageModel) -> Callable[[Decider], object]:
    """What is timed of sentences with a mask: enough of the most frequent length to occupy all threads.

    Args:
        sample: Sentences of the run.
        reference: The reference model.
    """
    return some_of(sample, reference.occupying(_most_frequent(sample).ids.shape[1]))


def some_of(sample: EncodedSentences, size: int) -> Callable[[Decider], object]:
    """Lets a decider decide at most `size` sentences of the most frequent length."""
    largest = _most_frequent(sample)
    ids, position = largest.ids[:size], largest.mask_position[:size]
    expected = sample.expected[largest.rows[:size]]
    return lambda decider: decider.decide(ids, position, expected)


def _most_frequent(sample: EncodedSentences) -> Bucket:
    """The sentences of the most frequent length."""
    return max(sample.buckets, key=lambda bucket: len(bucket.rows))
