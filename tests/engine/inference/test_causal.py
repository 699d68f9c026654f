"""A causal model answers the calls of a masked one: only what stands before the mask is read."""

import numpy as np
import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.inference.causal import CausalLM, open_language_model
from negengine.engine.inference.model import MaskedLM


@pytest.fixture(scope="module")
def model(causal):
    return CausalLM(causal("gpt2"))


@pytest.fixture(scope="module")
def batch(model):
    """Ids that end in a mask, its positions, and some tokens."""
    random = np.random.default_rng(0)
    ids = random.integers(1, model.exported.vocab_size, (40, 12)).astype(np.int32)
    ids[:, -1] = model.exported.tokenizer.mask_id
    return ids, np.full(40, 11, np.int32), random.integers(1, model.exported.vocab_size, 40).astype(np.int32)


def test_either_kind_is_opened(causal, mini):
    assert isinstance(open_language_model(causal("gpt2")), CausalLM)
    assert isinstance(open_language_model(mini), MaskedLM)


def test_a_causal_model_is_not_a_masked_one(causal, mini):
    with pytest.raises(InputError, match="exported for text-generation, fill-mask is needed"):
        MaskedLM(causal("gpt2"))
    with pytest.raises(InputError, match="exported for fill-mask, text-generation is needed"):
        CausalLM(mini)


def test_what_stands_behind_the_mask_is_not_read(model, batch):
    ids, position, expected = batch
    longer = np.concatenate([ids, np.full((40, 3), model.exported.tokenizer.mask_id, np.int32)], axis=1)
    np.testing.assert_array_equal(model.logits(ids, position), model.logits(longer, position))
    found = model.decide(longer, position, expected)
    np.testing.assert_array_equal(found.ids, model.decide(ids, position, expected).ids)


def test_log_probabilities_of_tokens_are_those_of_decisions(model, batch):
    ids = batch[0][:, :-1]
    found = model.token_logprobs(ids)
    for column in range(1, ids.shape[1]):
        decided = model.decide(ids, np.full(40, column, np.int32), ids[:, column])
        np.testing.assert_allclose(found[:, column - 1], decided.expected_logprob, atol=1e-5)


def test_log_probabilities_do_not_depend_on_batches(causal, model, batch):
    ids = batch[0][:, :-1]
    small = CausalLM(causal("gpt2"), batch_tokens=16, threads=1)
    np.testing.assert_allclose(small.token_logprobs(ids), model.token_logprobs(ids), atol=1e-5)


def test_a_text_of_one_token_has_no_log_probabilities(model):
    assert model.token_logprobs(np.ones((3, 1), np.int32)).shape == (3, 0)
    assert model.token_logprobs(np.ones((0, 4), np.int32)).shape == (0, 3)


def test_no_sentences_are_decided(model):
    none = np.empty(0, np.int32)
    assert len(model.decide(np.empty((0, 4), np.int32), none, none)) == 0


def test_a_mask_with_nothing_before_it_is_refused(model, batch):
    ids, position, expected = batch
    with pytest.raises(InputError, match="nothing stands before the mask"):
        model.decide(ids, position * 0, expected)


def test_a_mask_before_the_one_that_is_asked_for_is_refused(model, batch):
    ids, position, expected = batch
    ids = ids.copy()
    ids[3, 4] = model.exported.tokenizer.mask_id
    with pytest.raises(InputError, match="outside the vocabulary of"):
        model.decide(ids, position, expected)
    with pytest.raises(InputError, match="outside the vocabulary of"):
        model.token_logprobs(ids)


def test_a_low_precision_model_has_no_log_probabilities_of_all_tokens(causal, batch):
    exported = causal("gpt2")
    low = CausalLM(exported, graph=exported.low_precision("cpu"))
    assert len(low.decide(*batch)) == 40
    with pytest.raises(ValueError, match=r"need the fp32 graph, not model\.int8\.onnx"):
        low.token_logprobs(batch[0][:, :-1])
