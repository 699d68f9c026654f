"""Decisions are the same whatever the batch; tests/export/test_families.py compares them with those of PyTorch."""

import shutil

import numpy as np
import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.inference import cpu
from negengine.engine.inference.exported import load_exported
from negengine.engine.inference.model import MaskedLM


def random_batch(n, length, seed=0):
    random = np.random.default_rng(seed)
    ids = random.integers(5, 12_000, (n, length)).astype(np.int32)
    return ids, random.integers(1, length - 1, n).astype(np.int32), random.integers(5, 12_000, n).astype(np.int32)


@pytest.mark.parametrize("threads", [1, 20])
def test_batches_are_the_same_for_any_number_of_threads(threads, mini):
    """Batches hold 20 sentences of 12 tokens; 8 cores have equal work where each can have 128 tokens."""
    model = MaskedLM(mini, batch_tokens=240, threads=threads)
    assert model.batch_size(12) == 8 * 20
    for n, sizes in {0: [], 1: [1], 22: [11, 11], 100: [13] * 7 + [9], 321: [14] * 22 + [13]}.items():
        done: list[int] = []
        assert len(model.decide(*random_batch(n, 12), done.append)) == n
        assert sorted(done, reverse=True) == sizes


@pytest.mark.parametrize("name", ["model.onnx", "model.int8.onnx"])
def test_the_bytes_do_not_depend_on_the_number_of_threads(name, mini):
    batch = random_batch(300, 12)
    one, other = (MaskedLM(mini, graph=mini.folder / name, threads=n, batch_tokens=240).decide(*batch) for n in (1, 3))
    assert (one.logits.tobytes(), one.ids.tobytes()) == (other.logits.tobytes(), other.ids.tobytes())


def test_the_graph_is_the_one_that_suits_the_processor(mini, monkeypatch):
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
    with pytest.raises(InputError, match=rf"{name} is damaged .*--force"):
        MaskedLM(load_exported(folder))


def test_groups_of_several_lengths_are_decided_as_one_by_one(mini):
    model = MaskedLM(mini, batch_tokens=64, threads=2)
    groups = [random_batch(n, length) for n, length in ((3, 5), (40, 9), (0, 4), (1, 12))]
    told = []
    together = model.decide_each(groups, told.append)
    assert sum(told) == 44
    for group, found in zip(groups, together, strict=True):
        alone = model.decide(*group)
        np.testing.assert_array_equal(found.ids, alone.ids)
        np.testing.assert_allclose(found.logits, alone.logits, atol=1e-4)
        assert found.exact.all()


def test_small_groups_make_large_batches(mini):
    model = MaskedLM(mini, threads=1)
    for shapes, sizes in (
        ([(60, 12), (400, 10)], [[30] * 2, [50] * 8]),  # full batches of the same size in each group
        ([(100, 12), (60, 10)], [[17] * 5 + [15], [20] * 3]),  # few: about 8 batches, so that cores have equal work
        ([(20, 12), (2, 64)], [[10] * 2, [2]]),  # fewer still: batches of 128 tokens, as smaller ones are not efficient
    ):
        divided = zip(shapes, model.divide_together(shapes), strict=True)
        assert [[min(part.stop, n) - part.start for part in parts] for (n, _), parts in divided] == sizes
