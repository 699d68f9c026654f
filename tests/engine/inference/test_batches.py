"""Tasks share one queue: while one waits, batches of others run; a failure leaves nothing behind in the queue."""

from concurrent.futures import Future

import numpy as np
import pytest
from answer_tables import LogitsTable, calibration, sentences
from negengine.engine.inference.batches import finished, gathered
from negengine.engine.inference.mixed import SENTENCES, Mixed
from negengine.engine.inference.model import MaskedLM


class Noting(LogitsTable):
    """Notes which model is given which sentences, when they come into the queue."""

    def __init__(self, logits, precision, queue):
        super().__init__(logits, precision)
        self.queue = queue

    def deciding(self, ids, *asked):
        self.queue.append((self.precision, ids[:, 0].tolist()))
        return (yield from super().deciding(ids, *asked))


def test_the_low_precision_model_goes_on_while_close_calls_wait():
    """All sentences are close calls. Before the first of them is in the queue, all groups are there."""
    queue, logits = [], [[1, 0, 0]] * 6
    mixed = Mixed(SENTENCES, Noting(logits, "int8", queue), Noting(logits, "fp32", queue), calibration(2.0))
    found = finished(gathered(mixed.deciding(*sentences([first, first + 1])) for first in (0, 2, 4)))
    groups = [[0, 1], [2, 3], [4, 5]]
    assert queue == [(precision, group) for precision in ("int8", "fp32") for group in groups]
    assert all(own.exact.all() for own in found)
    assert mixed.take_audit()[0].decided == 6


def test_the_results_are_in_the_order_of_the_tasks_whichever_ends_first():
    def task(steps):
        for _ in range(steps):
            yield ()
        return steps

    steps = [5, 0, 3, 1, *range(40)]
    assert finished(gathered(map(task, steps))) == steps
    assert finished(gathered([])) == []


def test_a_batch_that_fails_ends_all_tasks_and_what_has_not_begun_never_runs():
    failed, waiting = Future(), [Future() for _ in range(9)]
    failed.set_exception(ValueError("no memory"))

    def task(number):
        yield [failed if number == 1 else done, *waiting[3 * number : 3 * number + 3]]

    (done := Future()).set_result(None)
    for batch in waiting[:3]:
        batch.set_result(None)
    with pytest.raises(ValueError, match="no memory"):
        finished(gathered(map(task, range(3))))
    assert [batch.cancelled() for batch in waiting] == [False] * 3 + [True] * 6


def test_the_models_of_a_device_share_its_cores(mini):
    reference, low = MaskedLM(mini, threads=3), MaskedLM(mini, graph=mini.low_precision("cpu"), threads=3)
    assert reference._runner._queue is low._runner._queue
    assert MaskedLM(mini, threads=4)._runner._queue is not low._runner._queue
    ids = np.full((40, 9), 7, np.int32)
    both = gathered(model.deciding(ids, ids[:, 0], ids[:, 1]) for model in (reference, low))
    assert [own.exact.all() for own in finished(both)] == [True, False]
