"""How many times as fast the low-precision model is as the reference model, on this kind of processor.

It is measured once for a model and kept (`measured`), as it decides with `--precision auto` how a run decides.
"""

import statistics
import time
from collections.abc import Callable

from ..sentences.spans import Bucket, EncodedSentences
from .measured import Measured, Say
from .model import Decider, LanguageModel
from .processor import processor

NAME = "speed of the low-precision model over fp32"
_ROUNDS = (3, 7)  # fewest and most
_SECONDS = 3.0  # after these, the fewest rounds are enough
_TICK = 1e-9  # seconds; a clock can be too coarse for a small batch


def kept_speed_ratio(
    low_precision: LanguageModel, reference: LanguageModel, sample: EncodedSentences, say: Say
) -> float:
    """The number that was measured for this model and processor before, or else now.

    Args:
        low_precision: The low-precision model.
        reference: The reference model, on the same device.
        sample: Sentences of the run, for the case that it is measured now.
        say: Receives one line where a file is damaged, or where the number cannot be kept.
    """
    conditions = {
        **processor(reference.device, reference.at_a_time),
        "batch tokens": reference.batch_tokens,
        "graphs": {
            model.graph.name: model.exported.info["files"].get(model.graph.name) for model in (low_precision, reference)
        },
    }
    kept = Measured.beside(reference.exported.folder, conditions)
    size = reference.occupying(_most_frequent(sample).ids.shape[1])  # work for all threads
    return kept.number(NAME, lambda: speed_ratio(low_precision, reference, sample, size), say)


def speed_ratio(
    low_precision: Decider,
    reference: Decider,
    sample: EncodedSentences,
    size: int,
    *,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Measure it: the median over rounds, each of which times both models on the same sentences.

    Args:
        low_precision: The low-precision model.
        reference: The reference model.
        sample: Sentences of the run; the first ones of the most frequent length are timed.
        size: How many sentences a round has.
        clock: Gives seconds.
    """
    largest = _most_frequent(sample)
    ids, position = largest.ids[:size], largest.mask_position[:size]
    expected = sample.expected[largest.rows[:size]]
    for decider in (low_precision, reference):
        decider.decide(ids, position, expected)  # not timed: warm-up
    ratios: list[float] = []
    fewest, most = _ROUNDS
    begun = clock()
    while len(ratios) < fewest or (len(ratios) < most and clock() - begun < _SECONDS):
        seconds = []
        for decider in (low_precision, reference):
            started = clock()
            decider.decide(ids, position, expected)
            seconds.append(max(clock() - started, _TICK))
        ratios.append(seconds[1] / seconds[0])
    return statistics.median(ratios)


def _most_frequent(sample: EncodedSentences) -> Bucket:
    """The sentences of the most frequent length."""
    return max(sample.buckets, key=lambda bucket: len(bucket.rows))
