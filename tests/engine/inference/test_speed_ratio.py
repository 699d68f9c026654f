"""The speed of the low-precision model over fp32, by a clock that the test holds."""

import json
from typing import ClassVar

import numpy as np
import pytest
from margin_decider import MarginDecider, sample
from negengine.engine.choices import Precision
from negengine.engine.inference.device import CPU
from negengine.engine.inference.precision import open_models
from negengine.engine.inference.processor import processor
from negengine.engine.inference.speed_ratio import deciding, kept_speed_ratio, some_of, speed_ratio
from negengine.engine.text.spans import Bucket, EncodedSentences


class Clock:
    """Seconds go by while a model decides."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Timed(MarginDecider):
    """Takes as many seconds as it is told to, one number a call, the last one for ever."""

    def __init__(self, clock, seconds):
        super().__init__(np.zeros(100))
        self.clock, self.seconds, self.sizes = clock, list(seconds), []

    def decide(self, ids, mask_position, expected, advance=lambda _: None):
        self.clock.now += self.seconds.pop(0) if len(self.seconds) > 1 else self.seconds[0]
        self.sizes.append(len(ids))
        return super().decide(ids, mask_position, expected, advance)


def test_it_is_the_median_over_rounds_without_the_warm_up():
    clock = Clock()
    low, reference = Timed(clock, [50, 1, 1, 10]), Timed(clock, [90, 2, 3, 4])
    assert speed_ratio(low, reference, some_of(sample(20), 8), clock=clock) == 2.0
    assert set(low.sizes) == set(reference.sizes) == {8}
    assert len(low.sizes) == 4  # slow models: no more rounds than needed


def test_quick_models_have_more_rounds():
    clock = Clock()
    low, reference = Timed(clock, [0.001]), Timed(clock, [0.003])
    assert speed_ratio(low, reference, some_of(sample(20), 8), clock=clock) == pytest.approx(3.0)
    assert len(low.sizes) == 1 + 7


def test_a_clock_that_stands_still_is_not_an_error():
    clock = Clock()
    assert speed_ratio(Timed(clock, [0]), Timed(clock, [0]), some_of(sample(20), 8), clock=clock) == 1.0


def test_the_most_frequent_length_is_timed():
    few, many = (
        Bucket(rows, np.zeros((len(rows), 4), np.int32), np.ones(len(rows), np.int32))
        for rows in (np.arange(3), np.arange(3, 20))
    )
    clock = Clock()
    low = Timed(clock, [1])
    both = some_of(EncodedSentences([few, many], np.zeros(20, np.int32)), 8)
    speed_ratio(low, Timed(clock, [1]), both, clock=clock)
    assert set(low.sizes) == {8}


def test_a_models_number_is_measured_once(mini, tmp_path):
    import shutil
    from dataclasses import replace

    folder = tmp_path / "mini"
    shutil.copytree(mini.folder, folder, ignore=shutil.ignore_patterns(".measured*"))  # of other tests
    models = open_models(replace(mini, folder=folder), CPU, Precision.MIXED)
    ids = np.full((50, 8), 103, np.int32)
    some = EncodedSentences([Bucket(np.arange(50), ids, np.full(50, 3, np.int32))], np.full(50, 200, np.int32))
    said, timed = [], lambda: deciding(some, models.reference)
    first = kept_speed_ratio(models.low_precision, models.reference, timed, said.append)
    assert first > 0
    assert kept_speed_ratio(models.low_precision, models.reference, timed, said.append) == first
    assert said == []
    (entry,) = json.loads((folder / ".measured.json").read_bytes())["kept"]
    conditions, reference = entry["conditions"], models.reference
    assert (conditions["threads"], conditions["batch tokens"]) == (reference.at_a_time, reference.batch_tokens)
    assert conditions["graphs"] == {name: mini.info["files"][name] for name in ("model.int8.onnx", "model.cpu.onnx")}
    assert conditions.items() > processor(CPU).items()


@pytest.mark.parametrize(("seconds", "rounds"), [(0.5, 3), (0.375, 4), (0.25, 6), (0.125, 7)])
def test_rounds_go_on_for_three_seconds(seconds, rounds):
    """A round times both models. Three rounds of a second are enough, and more than seven never are needed."""
    clock = Clock()
    clock.now = 1_000.0
    low = Timed(clock, [9, seconds])
    assert speed_ratio(low, Timed(clock, [seconds]), some_of(sample(20), 8), clock=clock) == 1.0
    assert len(low.sizes) == 1 + rounds


def test_sentences_of_the_most_frequent_length_that_occupy_the_device_are_timed():
    class Reference:
        asked: ClassVar[list[int]] = []

        def occupying(self, length):
            self.asked.append(length)
            return 6

    timed = Timed(Clock(), [0])
    deciding(sample(20), Reference())(timed)
    assert (Reference.asked, timed.sizes, timed.decided) == ([3], [6], [0, 1, 2, 3, 4, 5])
