"""A causal model answers the calls of a masked one; what neighbouring sentences share is computed once."""

import numpy as np
import pytest
from few import few
from negengine.engine.basics.errors import InputError
from negengine.engine.inference import tally
from negengine.engine.inference.batches import finished
from negengine.engine.inference.causal import LOGPROBS, CausalLM, common_prefixes, open_language_model
from negengine.engine.inference.model import MaskedLM


@pytest.fixture(scope="module")
def model(causal):
    return open_language_model(causal("gpt2"))


@pytest.fixture(scope="module")
def batch(model):
    """Ids that end in a mask, its positions, and some tokens."""
    random = np.random.default_rng(0)
    ids = random.integers(1, model.exported.vocab_size, (40, 12)).astype(np.int32)
    ids[:, -1] = model.exported.tokenizer.mask_id
    return ids, np.full(40, 11, np.int32), random.integers(1, model.exported.vocab_size, 40).astype(np.int32)


def test_each_kind_is_opened_as_what_it_is(model, causal, mini):
    assert isinstance(model, CausalLM)
    with pytest.raises(InputError, match="exported for text-generation, fill-mask is needed"):
        MaskedLM(causal("gpt2"))
    with pytest.raises(InputError, match="exported for fill-mask, text-generation is needed"):
        CausalLM(mini)


def test_of_nothing_there_are_no_decisions_nor_log_probabilities(model):
    assert model.token_logprobs(np.ones((3, 1), np.int32)).shape == (3, 0)
    assert model.token_logprobs(np.ones((0, 4), np.int32)).shape == (0, 3)
    none = np.empty(0, np.int32)
    assert len(model.decide(np.empty((0, 4), np.int32), none, none)) == 0


def test_a_mask_that_cannot_be_asked_for_is_refused(model, batch):
    ids, position, expected = batch
    with pytest.raises(InputError, match="nothing stands before the mask"):
        model.decide(ids, position * 0, expected)
    ids = ids.copy()
    ids[3, 4] = model.exported.tokenizer.mask_id
    with pytest.raises(InputError, match="outside the vocabulary of"):
        model.decide(ids, position, expected)
    with pytest.raises(InputError, match="outside the vocabulary of"):
        model.token_logprobs(ids)


# ---------------------------------------------------------------- shared beginnings

GROUPS, SIZE, SHARED, REST = 4, 30, 9, 6


def sentences(vocabulary=300):
    random = np.random.default_rng(0)
    first = random.integers(5, vocabulary, (GROUPS, SHARED)).repeat(SIZE, axis=0)
    return np.concatenate([first, random.integers(5, vocabulary, (GROUPS * SIZE, REST))], axis=1).astype(np.int32)


def test_sentences_are_grouped_by_what_they_share_where_that_is_worth_it():
    ids = sentences()
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
    ids = np.pad(sentences(), [(0, 0), (0, 1)], constant_values=exported.tokenizer.mask_id).astype(np.int32)
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
    alone = np.concatenate([model.token_logprobs(text[None])[0] for text in ids])
    np.testing.assert_allclose(found[0], alone, atol=1e-5)
