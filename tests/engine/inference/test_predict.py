"""Free text: the most probable tokens are PyTorch's, in the order of the texts given."""

from pathlib import Path

import numpy as np
import pytest
import torch
from negengine.engine.errors import InputError
from negengine.engine.inference.predict import predict, predictions_table
from transformers import AutoModelForMaskedLM, AutoTokenizer

MINI = Path(__file__).parents[3] / "export" / "mini"
TEXTS = [
    "Jessica is a dancer who likes to smoke. She is happy to [MASK].",
    "A robin is not a [MASK].",
    "[MASK] is a doctor.",
    "Peter is an architect who doesn't like to swim, and he said so to everybody at the [MASK] last week.",
]


def test_tokens_and_probabilities_are_pytorchs(mini):
    tokenizer, model = AutoTokenizer.from_pretrained(MINI), AutoModelForMaskedLM.from_pretrained(MINI).eval()
    for text, found in zip(TEXTS, predict(mini.folder, TEXTS, top=4), strict=True):
        encoded = tokenizer(text, return_tensors="pt")
        with torch.inference_mode():
            logits = model(**encoded).logits[0, encoded["input_ids"][0].tolist().index(tokenizer.mask_token_id)]
        best = logits.topk(4)
        assert found["text"] == text
        assert [item["token"] for item in found["top"]] == [
            word.removeprefix("##") for word in tokenizer.convert_ids_to_tokens(best.indices)
        ]
        np.testing.assert_allclose([item["logit"] for item in found["top"]], best.values, atol=1e-4)
        wanted = logits.softmax(0)[best.indices]
        np.testing.assert_allclose([item["probability"] for item in found["top"]], wanted, rtol=1e-3)


def test_the_table_has_a_row_for_each_token(mini):
    (prediction,) = predict(mini.folder, TEXTS[:1], top=7)
    table = predictions_table(prediction)
    assert (table.title, table.row_count) == (TEXTS[0], 7)


@pytest.mark.parametrize("text", ["no mask", "[MASK] two [MASK]", ""])
def test_a_text_without_exactly_one_mask_is_refused(mini, text):
    with pytest.raises(InputError):
        predict(mini.folder, [TEXTS[0], text])


def test_a_text_that_is_too_long_is_refused(mini):
    with pytest.raises(InputError, match="token"):
        predict(mini.folder, ["word " * 600 + "[MASK]"])
