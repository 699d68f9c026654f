"""Decisions are the same whatever the batch, the queue and the neighbours, and each run counts its own.

Families: tests/export/test_families.py.
"""

from concurrent.futures import Future, ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
from answer_tables import LogitsTable, calibration, sentences
from few import few
from negengine.engine.basics.errors import InputError
from negengine.engine.inference import tally
from negengine.engine.inference.batches import Runner, finished, gathered
from negengine.engine.inference.causal import LOGPROBS, CausalLM, common_prefixes, open_language_model
from negengine.engine.inference.devices import cpu
from negengine.engine.inference.mixed import SENTENCES, Mixed
from negengine.engine.inference.model import MaskedLM
from plain_calls import token_logprobs


def random_batch(n, length, seed=0):
    random = np.random.default_rng(seed)
    ids = random.integers(5, 12_000, (n, length)).astype(np.int32)
    return ids, random.integers(1, length - 1, n).astype(np.int32), random.integers(5, 12_000, n).astype(np.int32)


@pytest.mark.parametrize("name", ["model.onnx", "model.int8.onnx"])
def test_batches_and_bytes_do_not_depend_on_the_number_of_threads(name, mini):
    """Batches hold 20 sentences of 12 tokens; 8 cores have equal work where each can have 128 tokens."""
    models = [MaskedLM(mini, graph=mini.folder / name, batch_tokens=240, threads=n) for n in (1, 20)]
    assert models[0].batch_size(12) == 8 * 20
    for n, sizes in {0: [], 1: [1], 22: [11, 11], 100: [13] * 7 + [9], 321: [14] * 22 + [13]}.items():
        done: list[int] = []
        one, other = (model.decide(*random_batch(n, 12), done.append) for model in models)
        assert (one.logits.tobytes(), one.ids.tobytes()) == (other.logits.tobytes(), other.ids.tobytes())
        assert sorted(done, reverse=True) == sorted(2 * sizes, reverse=True)


def test_the_graph_is_the_one_that_suits_the_processor(mini, monkeypatch):
    decided = []
    for wide_vectors, graph in ((True, "model.cpu.onnx"), (False, "model.onnx")):
        monkeypatch.setattr(cpu, "prefers_convolutions", lambda found=wide_vectors: found)
        model = MaskedLM(mini)
        assert model.graph == mini.folder / graph
        decided.append(model.decide(*random_batch(50, 13)))
    assert (decided[0].top1 == decided[1].top1).all()
    np.testing.assert_allclose(decided[0].logits, decided[1].logits, atol=1e-4)
    assert MaskedLM(mini, graph=mini.held("model.int8.onnx")).graph == mini.folder / "model.int8.onnx"


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


def test_the_low_precision_model_goes_on_while_close_calls_wait():
    """All sentences are close calls. Before the first of them is in the queue, all groups are there."""
    queue, logits = [], [[1, 0, 0]] * 6

    class Noting(LogitsTable):
        def deciding(self, ids, *asked):
            queue.append((self.precision, ids[:, 0].tolist()))
            return (yield from super().deciding(ids, *asked))

    mixed = Mixed(SENTENCES, Noting(logits, "int8"), Noting(logits, "fp32"), calibration(2.0))
    found = finished(gathered(mixed.deciding(*sentences([first, first + 1])) for first in (0, 2, 4)))
    groups = [[0, 1], [2, 3], [4, 5]]
    assert queue == [(precision, group) for precision in ("int8", "fp32") for group in groups]
    assert all(own.exact.all() for own in found)
    assert mixed.take_audit()[0].decided == 6


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


def test_what_cannot_be_asked_is_refused_and_of_nothing_there_is_nothing(causal):
    model = open_language_model(causal("gpt2"))
    with pytest.raises(InputError, match="exported for text-generation, fill-mask is needed"):
        MaskedLM(causal("gpt2"))
    assert token_logprobs(model, np.ones((3, 1), np.int32)).shape == (3, 0)
    assert token_logprobs(model, np.ones((0, 4), np.int32)).shape == (0, 3)
    none = np.empty(0, np.int32)
    assert len(model.decide(np.empty((0, 4), np.int32), none, none)) == 0
    random = np.random.default_rng(0)
    ids = random.integers(1, model.exported.vocab_size, (40, 12)).astype(np.int32)
    ids[:, -1] = model.exported.tokenizer.mask_id
    position, expected = np.full(40, 11, np.int32), ids[:, 0]
    with pytest.raises(InputError, match="nothing stands before the mask"):
        model.decide(ids, position * 0, expected)
    ids[3, 4] = model.exported.tokenizer.mask_id
    with pytest.raises(InputError, match="outside the vocabulary of"):
        model.decide(ids, position, expected)
    with pytest.raises(InputError, match="outside the vocabulary of"):
        token_logprobs(model, ids)


GROUPS, SIZE, SHARED, REST = 4, 30, 9, 6


def beginnings_shared(vocabulary=300):
    random = np.random.default_rng(0)
    first = random.integers(5, vocabulary, (GROUPS, SHARED)).repeat(SIZE, axis=0)
    return np.concatenate([first, random.integers(5, vocabulary, (GROUPS * SIZE, REST))], axis=1).astype(np.int32)


def test_sentences_are_grouped_by_what_they_share_where_that_is_worth_it():
    ids = beginnings_shared()
    assert common_prefixes(ids) == (SHARED, [0, 30, 60, 90, 120])
    small_groups = np.concatenate([ids[i::SIZE].repeat(3, axis=0) for i in range(10)])
    in_no_order = np.random.default_rng(1).permutation(ids)
    for own in (ids[:, SHARED:], in_no_order, ids[:1], ids[::SIZE], small_groups):
        assert common_prefixes(own) is None


SHARING = ["gpt2", "opt", "gpt_neox", "llama", "mistral", "qwen2", "phi3"]


@pytest.mark.parametrize("family", few([*SHARING, "olmo3"], *SHARING))
@pytest.mark.parametrize("name", ["model.onnx", "model.cpu.onnx", "model.int8.onnx"])
def test_decisions_are_those_of_single_sentences(causal, family, name):
    exported = causal(family)
    graph = exported.folder / name
    assert exported.held(name.replace(".onnx", ".prefix.onnx")) is not None
    ids = np.pad(beginnings_shared(), [(0, 0), (0, 1)], constant_values=exported.tokenizer.mask_id).astype(np.int32)
    position, expected = np.full(len(ids), ids.shape[1] - 1, np.int32), ids[:, SHARED]
    done = []
    model = CausalLM(exported, graph=graph, batch_tokens=64)
    found = model.decide(ids, position, expected, done.append)
    alone = [model.decide(ids[row : row + 1], position[:1], expected[row : row + 1]) for row in range(len(ids))]
    assert sum(done) == len(ids)
    logits = np.concatenate([decisions.logits for decisions in alone])
    if name == "model.int8.onnx":  # its scales depend on the batch
        assert np.abs(found.logits - logits).mean() < 0.3
        return
    np.testing.assert_array_equal(found.top1, np.concatenate([decisions.top1 for decisions in alone]))
    np.testing.assert_allclose(found.logits, logits, atol=1e-4)


@pytest.mark.parametrize("family", few([*SHARING, "bloom"], "gpt2", "llama"))
@pytest.mark.parametrize("name", ["model.onnx", "model.cpu.onnx"])
def test_what_texts_share_is_computed_once_and_gives_the_same(causal, family, name):
    """One text stands twice, one is the beginning of another, and one is long."""
    a, b, c = np.random.default_rng(0).integers(5, 300, (3, 40)).astype(np.int32)
    ids = [a[:12], a[:12], a[:7], np.append(a[:4], b[4:9]), np.append(a[:4], c[4:12]), b[:2], c[:12], b]
    counts = [len(own) - 1 for own in ids]
    owner, place = np.repeat(np.arange(len(ids)), counts), np.concatenate([np.arange(n) for n in counts])
    asked, found = (owner, place, np.concatenate([own[1:] for own in ids])), np.empty((2, len(owner)), np.float32)
    for own, threads in zip(found, (1, 3), strict=True):
        model = CausalLM(causal(family), graph=causal(family).folder / name, batch_tokens=64, threads=threads)

        def put(question, at, logprobs, own=own):
            own[question] = logprobs[at]

        tally.take()
        finished(model.following([text[:-1] for text in ids], asked, [LOGPROBS], put))
        read = tally.take()
        beginnings = {tuple(text[:end]) for text in ids for end in range(1, len(text))}
        assert read.sentences == len(ids) - 1
        assert family == "bloom" or len(beginnings) <= read.tokens <= len(owner) - 20
    np.testing.assert_array_equal(*found)
    alone = np.concatenate([token_logprobs(model, text[None])[0] for text in ids])
    np.testing.assert_allclose(found[0], alone, atol=1e-5)


class Counting(Runner):
    """A device whose jobs count, and say, what they are given."""

    def __init__(self):
        self._queue = ThreadPoolExecutor(2)


def test_each_run_has_its_own_counts_and_listener():
    runner, together = Counting(), Barrier(3, timeout=30)

    def run(sentences):
        told = []

        def job(_):
            tally.count(sentences, 7)
            tally.say(f"{sentences}")

        with tally.own(told.append):
            together.wait()
            for _ in range(20):
                finished(runner.working([job] * 3))
            return tally.take(), set(told), len(told)

    tally.take()
    with ThreadPoolExecutor(3) as threads:
        for sentences, found in zip((1, 10, 100), threads.map(run, (1, 10, 100)), strict=True):
            assert found == (tally.Tally(60 * sentences, 420 * sentences), {f"{sentences}"}, 60)
    assert tally.take() == tally.Tally()
