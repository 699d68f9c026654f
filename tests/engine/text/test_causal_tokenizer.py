"""The tokenizer of a causal model: a sentence is what stands before its mask, and the mask."""

import numpy as np
import pytest
from causal_checkpoints import byte_level, llama_like
from negengine.engine.errors import InputError
from negengine.engine.text.composition import composer
from negengine.engine.text.pattern import Pattern
from negengine.engine.text.tokenizer import NOT_ONE_TOKEN, CausalTokenizer
from tokenizers import processors

KINDS = {"GPT-2": byte_level, "OPT": lambda: byte_level("</s>"), "Llama": llama_like}
PATTERN = Pattern("CpTp", "{NAME} is {PROF} who likes to {ACT}.", "{PRON} is happy to {MASK}.")
FILLERS = {
    "NAME": ["Jessica", "John", "Zoë"],
    "PROF": ["a dancer", "an architect"],
    "ACT": ["smoke", "dance", "quarrel"],
    "PRON": ["she", "he"],
}


@pytest.fixture(params=KINDS)
def tokenizer(request):
    return CausalTokenizer(KINDS[request.param]().backend_tokenizer, 430)


def texts_of(tokenizer, ids):
    return [tokenizer.token_text(token) for token in ids.tolist()]


def test_a_sentence_ends_in_a_mask_outside_the_vocabulary(tokenizer):
    [ids] = tokenizer.encode_masked(["She is happy to [MASK]."])
    assert ids[-1] == tokenizer.mask_id == 430
    assert texts_of(tokenizer, ids)[-5:] == ["She", "is", "happy", "to", "[MASK]"]


def test_the_space_before_the_mask_belongs_to_the_next_token(tokenizer):
    first, second = tokenizer.encode(["She is happy to [MASK].", "She is happy to[MASK]"])
    assert first.tolist() == second.tolist()


def test_a_text_without_a_mask_is_encoded_whole(tokenizer):
    [ids] = tokenizer.encode(["She is happy to smoke."])
    assert ids.tolist()[: len(tokenizer.prefix)] == tokenizer.prefix.tolist()
    assert texts_of(tokenizer, ids)[-2:] == ["smoke", "."]


def test_what_stands_before_every_text_is_kept():
    assert CausalTokenizer(byte_level().backend_tokenizer, 9).prefix.tolist() == []
    assert CausalTokenizer(byte_level("</s>").backend_tokenizer, 9).prefix.tolist() == [2]
    assert CausalTokenizer(llama_like().backend_tokenizer, 9).prefix.tolist() == [1]


def test_what_stands_behind_every_text_is_dropped():
    backend = llama_like().backend_tokenizer
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    [ids] = CausalTokenizer(backend, 430).encode(["She is happy to [MASK]."])
    assert 2 not in ids


def test_words_behind_the_mask_are_refused(tokenizer):
    assert tokenizer.reads("Paris is [MASK].")
    assert not tokenizer.reads("[MASK] is the capital of France.")
    with pytest.raises(InputError, match=r"words follow the mask in 'Paris is \[MASK\] 3'"):
        tokenizer.encode(["Paris is [MASK] 3"])


def test_a_mask_with_nothing_before_it_is_refused():
    with pytest.raises(InputError, match=r"nothing stands before the mask in '\[MASK\]'.*--bos"):
        CausalTokenizer(byte_level().backend_tokenizer, 430).encode(["[MASK]"])
    [ids] = CausalTokenizer(llama_like().backend_tokenizer, 430).encode(["[MASK]"])
    assert ids.tolist() == [1, 430]


def test_two_masks_are_refused(tokenizer):
    with pytest.raises(InputError, match="2 mask tokens"):
        tokenizer.encode_masked(["She is [MASK] [MASK]."])


def test_the_token_of_a_word_has_the_leading_space(tokenizer):
    contexts = [("She is happy to ", ".")] * 3
    smoke, unknown, two = tokenizer.word_tokens(contexts, ["smoke", "qwxz", "smoke dance"]).tolist()
    [ids] = tokenizer.encode(["She is happy to smoke"])
    assert smoke == ids[-1]
    assert (unknown, two) == (NOT_ONE_TOKEN, NOT_ONE_TOKEN)


def test_without_a_space_before_the_mask_the_word_is_another_token(tokenizer):
    assert tokenizer.word_tokens([("She is happy to", ".")], ["smoke"]).tolist() == [NOT_ONE_TOKEN]


def test_sentences_are_composed_as_the_tokenizer_encodes_them(tokenizer):
    made = composer(tokenizer, PATTERN, FILLERS, seed=0, random_combinations=50)
    assert made.slotwise
    rows = {slot: np.array([0, 1, len(words) - 1]) for slot, words in FILLERS.items()}
    texts = [
        PATTERN.text({slot: FILLERS[slot][rows[slot][row]] for slot in FILLERS}, tokenizer.mask_token)
        for row in range(3)
    ]
    wanted = tokenizer.encode_masked(texts)
    for bucket in made.compose(rows):
        for row, ids, mask in zip(bucket.rows, bucket.ids, bucket.mask_position, strict=True):
            assert ids.tolist() == wanted[row].tolist()
            assert mask == len(ids) - 1
            assert len(ids) <= made.longest()
