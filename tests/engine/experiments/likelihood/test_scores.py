"""Texts that are longer than the model takes, token by token against plain PyTorch."""

import numpy as np
import pytest
import torch
from negengine.engine.inference import spans
from negengine.engine.inference.causal import CausalLM
from negengine.engine.inference.model import MaskedLM
from negengine.engine.inference.spans import Encoder, Method, causal_logprobs, pseudo_logprobs
from plain_calls import token_logprobs
from transformers import AutoModelForMaskedLM

from .conftest import SENTENCES

CLOSE = 1e-4


@torch.inference_mode()
def plain(network, sentences, method, mask_id, longest):
    """Each token in a run of its own; long sentences in the window around it."""
    room = longest - 2
    for sentence in sentences:
        n = len(sentence.scored)
        for token, position in enumerate(sentence.scored.tolist()):
            ids, word = sentence.ids.tolist(), sentence.word.tolist()
            expected, ids[position] = ids[position], mask_id
            if method is Method.WITHIN_WORD:
                ids = [mask_id if at > position and word[at] == word[position] else id_ for at, id_ in enumerate(ids)]
            if n > room:
                start = min(max(token - room // 2, 0), n - room)
                ids, position = [ids[0], *ids[1 + start : 1 + start + room], ids[-1]], position - start  # noqa: PLW2901
            logits = network(input_ids=torch.tensor([ids])).logits[0, position]
            yield logits.double().log_softmax(-1)[expected].item()


@pytest.mark.parametrize("method", list(Method))
@pytest.mark.parametrize(("longest", "at_once"), [(9, 60), (6, 5)])
def test_pseudo_log_likelihoods_are_those_of_the_definition(model, request, monkeypatch, method, longest, at_once):
    monkeypatch.setattr(spans, "TOKENS_AT_ONCE", at_once)
    masked, done = MaskedLM(model.exported, threads=1), []
    encoder = Encoder(model.exported.tokenizer)
    sentences = encoder.encode(SENTENCES)
    found = pseudo_logprobs(masked, encoder, sentences, method, longest, done.append)
    assert sum(done) == len(found) == sum(len(sentence.scored) for sentence in sentences)
    network = AutoModelForMaskedLM.from_pretrained(request.config.rootpath / "export" / "mini").eval()
    wanted = list(plain(network, sentences, method, model.exported.tokenizer.mask_id, longest))
    np.testing.assert_allclose(found, wanted, atol=CLOSE)


@pytest.mark.parametrize("longest", [10, 9, 5])
def test_long_sentences_of_causal_models_have_at_least_half_a_window_before_each_token(causal_model, longest):
    model = CausalLM(causal_model.exported, threads=1)
    encoder = Encoder(model.exported.tokenizer, is_causal=True)
    [sentence] = sentences = encoder.encode([SENTENCES[1]])
    found = causal_logprobs(model, encoder, sentences, longest, lambda _: None)
    content, room = sentence.tokens, longest - 2
    for token in range(len(content)):
        start = next(start for start in range(0, len(content), room // 2) if start + room > token)
        ids = np.array([[sentence.ids[0], *content[start : token + 1]]], np.int32)
        assert found[token] == pytest.approx(token_logprobs(model, ids)[0, -1], abs=CLOSE)
        assert start == 0 or token - start >= room // 2
