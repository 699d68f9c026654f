"""Texts as expressions: the same as `Pattern.text`, and the same token ids as those that a run composes."""

import numpy as np
import polars as pl
import pytest
from negengine.engine.experiments.gh22.variants import ACT_SLOTS
from negengine.engine.text.composition import composer
from negengine.engine.text.pattern import SLOTS, Pattern, column, expected_verbs, sentence_texts
from negengine.engine.text.pattern_files import load_patterns

WORDS = {
    "NAME": ["anna", "Maria", "élise"],
    "PROF": ["a dancer", "an architect"],
    "ACT": ["smoke", "dance", "laugh"],
    "ACT1": ["dance", "##ing"],
    "ACT2": ["$1", "smoke"],
    "PRON": ["she", "he", "ßa"],
}
ENGLISH = ["self-contained-negation", "gh22", "gh22-connective", "gh22-coordinated"]  # others: test_bundled_languages
PATTERNS = [pattern for name in ENGLISH for pattern in load_patterns(name, (*SLOTS, *ACT_SLOTS)).all]
PATTERNS += [Pattern("first", "{MASK} is what {NAME} does."), Pattern("last", "{NAME}", "{MASK}")]


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: f"{pattern.name}: {pattern.sentence}"[:60])
def test_texts_have_the_token_ids_of_the_composed_sentences(pattern, small_tokenizer):
    random, n = np.random.default_rng(1), 40
    rows = {slot: random.integers(len(words), size=n) for slot, words in WORDS.items()}
    frame = pl.DataFrame({column(slot): [WORDS[slot][i] for i in own] for slot, own in rows.items()})
    texts = frame.select(sentence_texts(pattern, small_tokenizer.mask_token)).to_series().to_list()
    fillers = [{slot: WORDS[slot][own[row]] for slot, own in rows.items()} for row in range(n)]
    assert texts == [pattern.text(own, small_tokenizer.mask_token) for own in fillers]
    composed = {}
    for bucket in composer(small_tokenizer, pattern, WORDS, seed=0, random_combinations=10).compose(rows):
        composed |= dict(zip(bucket.rows.tolist(), bucket.ids.tolist(), strict=True))
    assert [ids.tolist() for ids in small_tokenizer.encode(texts)] == [composed[row] for row in range(n)]


def test_an_expected_verb_that_starts_a_sentence_has_a_capital():
    frame = pl.DataFrame({"verb": ["smoke", "élever"]})
    assert frame.select(expected_verbs(Pattern("first", "{MASK} is fun."))).to_series().to_list() == ["Smoke", "Élever"]
    assert frame.select(expected_verbs(Pattern("last", "I {MASK}."))).to_series().to_list() == ["smoke", "élever"]
