"""Free text: encoded, grouped by length, refused with its place; the most probable tokens are PyTorch's."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from negengine.engine.basics.errors import InputError
from negengine.engine.inference.free_text import encode_texts, predict_texts, top_tokens
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


def test_a_bad_text_is_told_with_its_location(mini, mini_tokenizer):
    for text, reason in {
        "nothing": r"no masks, where one \[MASK\] is needed",
        "[MASK] [MASK]": "2 masks",
        "a " * 600 + "[MASK]": r"\d+ tokens, but mini takes at most \d+: shorten it",
        "[PAD] [MASK]": "contains the padding token",
    }.items():
        with pytest.raises(InputError, match=f"facts:3: {reason}"):
            encode_texts(mini, mini_tokenizer, ["[MASK].", text], ["facts:2", "facts:3"])


@given(
    arrays(np.float32, st.tuples(st.integers(1, 3), st.just(30)), elements=st.integers(0, 5)),
    st.integers(0, 28),
    st.sets(st.integers(0, 29), max_size=2),
)
def test_top_tokens_are_those_of_a_stable_sort(logits, k, excluded):
    """Few and many are found in two ways; the logits here have many ties."""
    before = logits.copy()
    wanted = [[i for i in np.lexsort((range(30), -row)) if i not in excluded][:k] for row in logits]
    assert top_tokens(logits, k, sorted(excluded)).tolist() == wanted
    np.testing.assert_array_equal(logits, before)


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
