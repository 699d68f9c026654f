"""Free text is encoded and grouped by length, and a bad text is told with its location."""

from types import SimpleNamespace

import numpy as np
import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.inference.free_text import encode_texts, log_softmax


def model(tokenizer, longest=20):
    return SimpleNamespace(name="tiny", max_length=longest, padding_id=tokenizer.encode(["[PAD]"])[0][1])


def test_texts_are_grouped_by_length_and_hold_their_mask(mini_tokenizer):
    texts = ["She is happy to [MASK].", "[MASK].", "He likes to [MASK]."]
    found = encode_texts(model(mini_tokenizer), mini_tokenizer, texts)
    assert [part.rows.tolist() for part in found] == [[1], [2], [0]]
    assert all((part.ids[0, part.mask_position] == mini_tokenizer.mask_id).all() for part in found)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nothing", r"facts:3: no masks, where one \[MASK\] is needed"),
        ("[MASK] [MASK]", "facts:3: 2 masks"),
        ("a " * 30 + "[MASK]", "facts:3: 33 tokens, but tiny takes at most 20: shorten it"),
        ("[PAD] [MASK]", "facts:3: contains the padding token"),
    ],
)
def test_a_bad_text_is_told_with_its_location(text, reason, mini_tokenizer):
    with pytest.raises(InputError, match=reason):
        encode_texts(model(mini_tokenizer), mini_tokenizer, ["[MASK].", text], ["facts:2", "facts:3"])


def test_log_softmax_is_that_of_the_definition():
    # exp(0), exp(ln 3): 1/4 and 3/4.
    np.testing.assert_allclose(log_softmax(np.log(np.array([[1, 3]], np.float32))), np.log([[0.25, 0.75]]), rtol=1e-7)
    assert log_softmax(np.array([[1e4, -1e4]], np.float32)).dtype == np.float64
