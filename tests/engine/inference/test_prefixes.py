"""Neighbouring sentences that begin alike: their groups, and the decisions of the graph that shares their prefixes."""

import numpy as np
import pytest
from causal_checkpoints import FAMILIES
from negengine.engine.inference.causal import CausalLM, common_prefixes

SHARING = [name for name, family in FAMILIES.items() if family.fused]
GROUPS, SIZE, SHARED, REST = 4, 30, 9, 6


def sentences(vocabulary=300):
    random = np.random.default_rng(0)
    first = random.integers(5, vocabulary, (GROUPS, SHARED)).repeat(SIZE, axis=0)
    return np.concatenate([first, random.integers(5, vocabulary, (GROUPS * SIZE, REST))], axis=1).astype(np.int32)


def test_sentences_are_grouped_by_what_they_share():
    found = common_prefixes(sentences())
    assert found.length == SHARED
    assert found.bounds.tolist() == [0, 30, 60, 90, 120]


def test_sentences_that_share_too_little_are_not_grouped():
    ids = sentences()
    assert common_prefixes(ids[:, SHARED:]) is None
    assert common_prefixes(np.random.default_rng(1).permutation(ids)) is None
    assert common_prefixes(ids[:1]) is None
    assert common_prefixes(ids[::SIZE]) is None


def test_small_groups_are_not_worth_it():
    pairs = np.concatenate([sentences()[i::SIZE].repeat(3, axis=0) for i in range(10)])
    assert common_prefixes(pairs) is None


@pytest.mark.parametrize("family", SHARING)
@pytest.mark.parametrize("name", ["model.onnx", "model.cpu.onnx", "model.int8.onnx"])
def test_decisions_are_those_of_single_sentences(causal, family, name):
    exported = causal(family)
    graph = exported.folder / name
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


@pytest.mark.parametrize("family", SHARING)
def test_every_family_of_the_table_has_the_graph(family, causal):
    exported = causal(family)
    assert exported.sharing_prefixes(exported.graph) is not None
