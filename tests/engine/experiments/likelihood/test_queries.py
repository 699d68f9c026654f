"""The masked copies of sentences are those of the papers, token by token."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from negengine.engine.experiments.likelihood.likelihood_scores import Encoder, queries
from negengine.engine.experiments.likelihood.likelihood_tables import Method

WORDS = ["Anna", "smoker", "isn't", "happying", "to", "Maria's", "dance.", "like"]


def plain(sentence, method, mask):
    """The copies as the definition has them: masked ids, position, token."""
    for position in sentence.scored.tolist():
        ids = sentence.ids.tolist()
        for later in range(position + 1, len(ids)):
            if method is Method.WITHIN_WORD and sentence.word[later] == sentence.word[position]:
                ids[later] = mask
        token, ids[position] = ids[position], mask
        yield tuple(ids), position, token


@pytest.mark.parametrize("method", list(Method))
@given(
    texts=st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=5), min_size=1, max_size=5),
    at_once=st.integers(1, 9),
)
def test_copies_are_those_of_the_definition(small_tokenizers, method, texts, at_once):
    for tokenizer in small_tokenizers.values():
        encoder = Encoder(tokenizer)
        sentences = encoder.encode([" ".join(words) for words in texts])
        found = {}
        for group in encoder.groups(sentences, longest=999):
            for asked in queries(group, method, tokenizer.mask_id, at_once):
                assert len(asked.ids) <= at_once
                rows = zip(asked.ids, asked.position, asked.expected, asked.slot, strict=True)
                found |= {int(slot): (tuple(ids.tolist()), int(at), int(token)) for ids, at, token, slot in rows}
        wanted = [copy for sentence in sentences for copy in plain(sentence, method, tokenizer.mask_id)]
        assert [found[slot] for slot in range(len(found))] == wanted


def test_the_rows_of_a_group_are_not_changed(small_tokenizer):
    encoder = Encoder(small_tokenizer)
    [group] = encoder.groups(encoder.encode(["Anna likes to smoke."]), longest=99)
    before = group.ids.copy()
    list(queries(group, Method.WITHIN_WORD, small_tokenizer.mask_id, 3))
    assert np.array_equal(group.ids, before)
