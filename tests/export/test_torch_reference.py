"""The yardstick of `verify --torch`: where a mask leaves the space before it, it stands for the word's own token."""

import numpy as np
import pytest
import torch
from negengine.export.reference import Outsider
from tokenizers import Tokenizer, models
from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast


@pytest.mark.parametrize("lstrip", ["true", "false"])
def test_a_mask_has_the_logits_of_the_word_with_its_space(small_tokenizers, lstrip):
    text = small_tokenizers["byte-level BPE"].backend.to_str().replace('"lstrip":true', f'"lstrip":{lstrip}')
    words = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(text), mask_token="<mask>")
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    model = BertForMaskedLM(BertConfig(vocab_size=len(words), max_position_embeddings=32, **sizes)).eval()
    reference = Outsider(model, words, 32)
    ids = words("she likes to smoke.")["input_ids"]
    (place,) = [i for i, token in enumerate(ids) if words.decode([token]) == " smoke"]
    ids[place] = words.mask_token_id
    with torch.inference_mode():
        wanted = model(input_ids=torch.tensor([ids])).logits[0, place].numpy()
    for asked in ("she likes to <mask>.", "she likes to  <mask>.", "she likes to<mask>."):
        np.testing.assert_allclose(reference.masked(asked), wanted, rtol=0, atol=1e-5)


def test_a_mask_leaves_the_space_where_no_token_of_a_word_has_it():
    signs = Tokenizer(models.BPE({sign: i for i, sign in enumerate("ais k.")}, []))
    words = PreTrainedTokenizerFast(tokenizer_object=signs, mask_token="<mask>")
    reference = Outsider(None, words, 32)
    assert list(reference.words("a <mask> k.", ["is"])) == [tuple(words("is")["input_ids"])]
