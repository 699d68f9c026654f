"""Decisions are the same whatever the batch; tests/export/test_families.py compares them with those of PyTorch."""

import shutil
import threading

import numpy as np
import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.inference import cpu, tally
from negengine.engine.inference.batches import finished
from negengine.engine.inference.exported import load_exported
from negengine.engine.inference.model import Decisions, MaskedLM


@pytest.fixture(scope="module")
def engine(mini):
    return MaskedLM(mini)


def random_batch(n, length, seed=0):
    random = np.random.default_rng(seed)
    ids = random.integers(5, 12_000, (n, length)).astype(np.int32)
    return ids, random.integers(1, length - 1, n).astype(np.int32), random.integers(5, 12_000, n).astype(np.int32)


@pytest.mark.parametrize("threads", [1, 20])
def test_batches_are_the_same_for_any_number_of_threads(threads, mini):
    """Batches hold 20 sentences of 12 tokens; 8 cores have equal work where each can have 128 tokens."""
    model = MaskedLM(mini, batch_tokens=240, threads=threads)
    assert model.batch_size(12) == 8 * 20
    for n, sizes in {
        0: [],
        1: [1],
        22: [11, 11],
        100: [13] * 7 + [9],
        320: [20] * 16,
        321: [14] * 22 + [13],
    }.items():
        done: list[int] = []
        assert len(model.decide(*random_batch(n, 12), done.append)) == n
        assert sorted(done, reverse=True) == sizes


@pytest.mark.parametrize("name", ["model.onnx", "model.int8.onnx"])
def test_the_bytes_do_not_depend_on_the_number_of_threads(name, mini):
    batch = random_batch(300, 12)
    one, other = (MaskedLM(mini, graph=mini.folder / name, threads=n, batch_tokens=240).decide(*batch) for n in (1, 3))
    assert (one.logits.tobytes(), one.ids.tobytes()) == (other.logits.tobytes(), other.ids.tobytes())


def test_what_is_reduced_are_the_logits_of_each_batch_in_its_order(mini, engine):
    """Batches of one and of two lengths; each is reduced where it ran, and all of its sentences are counted."""
    short, long = random_batch(9, 8), random_batch(5, 13)
    batches = [[short[:2], long[:2]], [long[:2]], [short[:2]]]
    threads = set()

    def reduce(number, logits):
        threads.add(threading.current_thread().name)
        return number, [own.copy() for own in logits]

    tally.take()
    found = finished(MaskedLM(mini, threads=2).reduce_logits(batches, reduce))
    assert tally.take().sentences == 14 + 5 + 9
    assert [number for number, _ in found] == [0, 1, 2]
    for (_, logits), batch in zip(found, batches, strict=True):
        for own, asked in zip(logits, batch, strict=True):
            np.testing.assert_allclose(own, engine.logits(*asked), atol=1e-4)
    assert threading.current_thread().name not in threads


def test_the_graph_is_the_one_that_suits_the_processor(mini, engine, monkeypatch):
    decided = []
    for wide_vectors, graph in ((True, "model.cpu.onnx"), (False, "model.onnx")):
        monkeypatch.setattr(cpu, "prefers_convolutions", lambda found=wide_vectors: found)
        model = MaskedLM(mini)
        assert model.graph == mini.folder / graph
        decided.append(model.decide(*random_batch(50, 13)))
    assert (decided[0].top1 == decided[1].top1).all()
    np.testing.assert_allclose(decided[0].logits, decided[1].logits, atol=1e-4)
    assert MaskedLM(mini, graph=mini.low_precision("cpu")).graph == mini.folder / "model.int8.onnx"


@pytest.mark.parametrize("name", ["model.onnx", "model.cpu.onnx"])
def test_a_damaged_file_is_refused_before_any_decision(name, mini, tmp_path):
    folder = shutil.copytree(mini.folder, tmp_path / "copy")
    content = bytearray((folder / name).read_bytes())
    content[-1] ^= 1
    (folder / name).write_bytes(content)
    damaged = load_exported(folder)
    with pytest.raises(InputError, match=rf"{name} is damaged .*--force"):
        MaskedLM(damaged)


def test_margin_is_against_the_runner_up_if_repeated_and_against_the_top1_if_not(engine):
    found = Decisions(
        np.array([[3, 1], [3, 2]]), np.array([[5, 4, 5, 6], [5, 4, 4, 6]], np.float32), np.zeros(2, np.int8)
    )
    np.testing.assert_allclose(found.margin(np.array([3, 8], np.int32)), [1, -1])
    ids, position, _ = random_batch(40, 11)
    best = engine.decide(ids, position, np.zeros(40, np.int32)).top1
    expected = np.where(np.arange(40) % 2 == 0, best, best + 1).astype(np.int32)
    decisions = engine.decide(ids, position, expected)
    assert ((decisions.margin(expected) > 0) == decisions.repeated(expected)).all()
    assert (decisions.repeated(expected) == (np.arange(40) % 2 == 0)).all()


def groups_of(mini, shapes):
    """Random sentences of several lengths: ids, positions of the masks, expected tokens."""
    random = np.random.default_rng(0)
    for n, length in shapes:
        ids = random.integers(5, mini.vocab_size, (n, length)).astype(np.int32)
        yield ids, random.integers(0, length, n).astype(np.int32), random.integers(5, 900, n).astype(np.int32)


def test_groups_of_several_lengths_are_decided_as_one_by_one(mini):
    model = MaskedLM(mini, batch_tokens=64, threads=2)
    groups = list(groups_of(mini, [(3, 5), (40, 9), (0, 4), (1, 12)]))
    told = []
    together = model.decide_each(groups, told.append)
    assert sum(told) == 44
    for group, found in zip(groups, together, strict=True):
        alone = model.decide(*group)
        np.testing.assert_array_equal(found.ids, alone.ids)
        np.testing.assert_allclose(found.logits, alone.logits, atol=1e-4)
        assert found.exact.all()


@pytest.mark.parametrize(
    ("shapes", "batches"),
    [
        # A group makes full batches of the same size; longer ones first.
        ([(60, 12), (400, 10)], [50] * 8 + [30, 30]),
        # Few sentences in all: about 8 batches, so that cores have equal work.
        ([(100, 12), (60, 10)], [17] * 5 + [15, 20, 20, 20]),
        # Fewer still: batches of 128 tokens, as smaller ones are not efficient.
        ([(20, 12), (2, 64)], [2, 10, 10]),
    ],
)
def test_small_groups_make_large_batches(mini, monkeypatch, shapes, batches):
    model, seen = MaskedLM(mini, threads=1), []
    run = model._runner.running
    monkeypatch.setattr(
        model._runner, "running", lambda own, advance: (seen.extend(map(len, own)), run(own, advance))[1]
    )
    model.decide_each(list(groups_of(mini, shapes)))
    assert sorted(seen) == sorted(batches)
    assert sum(seen) == sum(n for n, _ in shapes)
