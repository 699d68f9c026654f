"""Free text: the most probable tokens are PyTorch's, in the order of the texts given."""

from pathlib import Path

import numpy as np
import pytest
import torch
from negengine.engine.basics.errors import InputError
from negengine.engine.inference.free_text import predict_texts
from negengine.engine.inference.model import MaskedLM
from transformers import AutoModelForMaskedLM, AutoTokenizer

MINI = Path(__file__).parents[3] / "export" / "mini"
TEXTS = [
    "Jessica is a dancer who likes to smoke. She is happy to [MASK].",
    "A robin is not a [MASK].",
    "[MASK] is a doctor.",
    "Peter is an architect who doesn't like to swim, and he said so to everybody at the [MASK] last week.",
]


@pytest.fixture(scope="module")
def model(mini):
    return MaskedLM(mini)


def test_tokens_and_probabilities_are_pytorchs(model, mini_tokenizer):
    tokenizer, reference = AutoTokenizer.from_pretrained(MINI), AutoModelForMaskedLM.from_pretrained(MINI).eval()
    found = predict_texts(model, mini_tokenizer, TEXTS, top=4)
    assert [(row["text"], row["rank"]) for row in found] == [(text, rank) for text in TEXTS for rank in (1, 2, 3, 4)]
    for number, text in enumerate(TEXTS):
        encoded = tokenizer(text, return_tensors="pt")
        with torch.inference_mode():
            logits = reference(**encoded).logits[0, encoded["input_ids"][0].tolist().index(tokenizer.mask_token_id)]
        best, own = logits.topk(4), found[4 * number : 4 * number + 4]
        assert [row["token"] for row in own] == [mini_tokenizer.token_text(int(token)) for token in best.indices]
        np.testing.assert_allclose([row["logit"] for row in own], best.values, atol=1e-4)
        np.testing.assert_allclose([row["probability"] for row in own], logits.softmax(0)[best.indices], atol=1e-5)


def test_more_tokens_than_the_vocabulary_has_give_the_whole_vocabulary(model, mini_tokenizer):
    rows = predict_texts(model, mini_tokenizer, TEXTS[:1], top=model.exported.vocab_size + 1)
    assert len(rows) == model.exported.vocab_size
    assert sum(row["probability"] for row in rows) == pytest.approx(1)


def test_no_texts_give_no_predictions(model, mini_tokenizer):
    assert predict_texts(model, mini_tokenizer, []) == []


@pytest.mark.parametrize("text", ["no mask", "[MASK] two [MASK]", ""])
def test_a_text_without_exactly_one_mask_is_refused(text, model, mini_tokenizer):
    with pytest.raises(InputError, match=r"masks, where one \[MASK\] is needed"):
        predict_texts(model, mini_tokenizer, [TEXTS[0], text])


def test_a_text_that_is_too_long_is_refused(model, mini_tokenizer):
    with pytest.raises(InputError, match="tokens, but mini takes at most"):
        predict_texts(model, mini_tokenizer, ["word " * 600 + "[MASK]"])
