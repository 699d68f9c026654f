"""The simulation of many cores plays what was noted; the notes are those of the engine's own scheduler."""

import pytest
from negengine.bench import cores
from negengine.bench.cores import Notes, busy
from negengine.engine.inference.batches import finished, gathered


def test_two_cores_take_batches_from_the_queue_when_they_are_free():
    """On two cores: two batches until 2, a third until 3; the program waits for all and takes 1; then one until 8."""
    noted = [("program", 0.0), ("batch", 2.0), ("batch", 2.0), ("batch", 1.0)]
    noted += [*(("wait", number) for number in range(3)), ("program", 1.0), ("batch", 4.0)]
    assert busy(noted, 1) == pytest.approx(9 / 10)
    assert busy(noted, 2) == pytest.approx(9 / (2 * 8))
    assert busy(noted, 9) == pytest.approx(9 / (9 * 7))


def test_what_is_noted_is_the_order_of_the_tasks():
    notes, ran = Notes(), []

    def task(number):
        for step in range(2):
            yield [notes.submit(ran.append, (number, step))]

    finished(gathered(task(number) for number in range(3)))
    assert ran == [(number, step) for step in range(2) for number in range(3)]
    order = [(what, value if what == "wait" else None) for what, value in notes.ended() if what != "program"]
    turns = [own for number in range(3) for own in (("wait", number), ("batch", None))]
    assert order == [("batch", None)] * 3 + turns + [("wait", n) for n in (3, 4, 5)]
    assert 0 < busy(notes.ended(), 2) <= 1


@pytest.mark.everything
def test_parts_of_selections_and_likelihoods_are_played(cache):
    found = cores.measure(["bert-base-shape", "gpt2-shape"], cache=cache, say=[].append)
    assert [own["part"] for own in found["parts"]] == ["select, fp32", "likelihood"]
    for own in found["parts"]:
        shares = list(own["busy"].values())
        assert shares == sorted(shares, reverse=True)
        assert own["batches"] > 50
    assert len(cores.table(found).frame) == 2
