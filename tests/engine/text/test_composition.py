"""Sentences put together from the token ids of their fillers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from negengine.engine.basics.choices import Coreference
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.negation.grid import subjects
from negengine.engine.text.composition import WholeSentenceComposer, composer
from negengine.engine.text.keys import combine, string_keys
from negengine.engine.text.lexicon import load_lexicon
from negengine.engine.text.pattern import Pattern
from negengine.engine.text.pattern_files import load_patterns
from negengine.engine.text.tokenizer import MaskTokenizer
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

PATTERNS, LEXICON = load_patterns(), load_lexicon()
FILLERS = {
    "NAME": ["Anna", "Maria", "Jean-Luc", "O'Hara"],
    "PROF": ["a dancer", "an architect", "a fire fighter"],
    "ACT": ["smoke", "dance", "disagree", "x"],
    "PRON": ["she", "he"],
}
words = st.text("abnsAS é'-1漢", min_size=1, max_size=12).map(" ".join).map(str.strip) | st.sampled_from(
    ["Anna", "she", "smoke", "a dancer", "an architect", "dancing", "Zoë", "O'Hara", "C#", "isn't", "smoke."]
)
fillers_of_any_kind = st.fixed_dictionaries({slot: st.lists(words, min_size=1, max_size=6) for slot in FILLERS})
patterns = st.sampled_from(
    [
        *PATTERNS.all,
        Pattern("starts with a profession", "{PROF} is {NAME}.", "{PRON} likes to {MASK}."),
        Pattern("one sentence", "{NAME} is {PROF} and {PRON} likes to {ACT} or {MASK}."),
        Pattern("repeated slots", "{NAME} is {PROF}, and {NAME} likes to {ACT}.", "{NAME} can {MASK}, not {ACT}."),
        Pattern("mask first", "{MASK} is what {NAME} likes, {PRON} says.", "{PROF} must {ACT}."),
        Pattern("only the mask", "People like to {MASK}."),
        Pattern("nothing between", "{NAME}{PROF} {ACT}{MASK} {PRON}"),
    ]
)


def random_rows(fillers, n, seed=0):
    rng = np.random.default_rng(seed)
    return {slot: rng.integers(len(words), size=n) for slot, words in fillers.items()}


def composed(made, rows):
    """The composed sentences in the order of their rows."""
    parts = [zip(part.rows.tolist(), part.ids.tolist(), strict=True) for part in made.compose(rows)]
    return [ids for _, ids in sorted(pair for part in parts for pair in part)]


def tokenized(tokenizer, pattern, fillers, rows):
    columns = {slot: [fillers[slot][i] for i in index] for slot, index in rows.items()}
    sentences = [dict(zip(columns, words, strict=True)) for words in zip(*columns.values(), strict=True)]
    texts = [pattern.text(sentence, tokenizer.mask_token) for sentence in sentences]
    return [ids.tolist() for ids in tokenizer.encode_masked(texts)]


@settings(max_examples=50)
@given(patterns, fillers_of_any_kind, st.integers(0, 50), st.integers(0, 9), st.booleans())
def test_composed_ids_are_tokenized_ids_in_slices_of_one_length(small_tokenizer, pattern, fillers, n, seed, whole):
    rows = random_rows(fillers, n, seed)
    made = composer(small_tokenizer, pattern, fillers, seed=0, random_combinations=100)
    if whole and n:
        made = WholeSentenceComposer(small_tokenizer, pattern, fillers)
    wanted = tokenized(small_tokenizer, pattern, fillers, rows) if n else []
    lengths, buckets = np.array([len(ids) for ids in wanted]), list(made.compose(rows))
    assert made.lengths(rows).tolist() == lengths.tolist()
    assert [part.ids.shape[1] for part in buckets] == np.unique(lengths).tolist()
    assert sorted(row for part in buckets for row in part.rows.tolist()) == list(range(n))
    for part in buckets:
        assert part.ids.tolist() == [wanted[row] for row in part.rows]
        assert part.ids.flags.c_contiguous
        assert (part.rows.dtype, part.ids.dtype, part.mask_position.dtype) == (np.int64, np.int32, np.int32)
        assert (part.ids[np.arange(len(part.ids)), part.mask_position] == small_tokenizer.mask_id).all()


@settings(max_examples=20)
@given(pattern=patterns, fillers=fillers_of_any_kind)
def test_the_longest_sentence_is_that_of_all_combinations(small_tokenizer, pattern, fillers):
    made = composer(small_tokenizer, pattern, fillers, seed=0, random_combinations=100)
    grid = np.meshgrid(*(np.arange(len(words)) for words in fillers.values()), indexing="ij")
    longest = made.lengths({slot: index.ravel() for slot, index in zip(fillers, grid, strict=True)}).max()
    assert made.longest() == longest if made.slotwise else made.longest() >= longest
    assert WholeSentenceComposer(small_tokenizer, pattern, fillers).longest() >= longest


@pytest.mark.parametrize("name", ["mini", "bert-base-cased", "bert-base-uncased", "roberta-base"])
@pytest.mark.parametrize("pattern", PATTERNS.all, ids=lambda pattern: pattern.name)
def test_published_models_compose_slotwise(published_tokenizer, mini_tokenizer, name, pattern):
    subject, _ = subjects(LEXICON, Coreference.PRONOUN, seed=0)
    fillers = {"NAME": LEXICON.names, "PROF": LEXICON.professions, "ACT": LEXICON.verbs, "PRON": subject}
    tokenizer = mini_tokenizer if name == "mini" else published_tokenizer(name)
    made, rows = composer(tokenizer, pattern, fillers, seed=0), random_rows(fillers, 500, seed=1)
    assert made.slotwise
    assert composed(made, rows) == tokenized(tokenizer, pattern, fillers, rows)


def test_the_proof_covers_every_filler_or_all_sentences_of_a_short_run(small_tokenizers):
    for n, proved in {0: 10, 9: 9, 10: 10, 11: 10}.items():  # 4 sentences cover every filler, 6 are random
        given = PATTERNS.selecting, FILLERS, 0, 6, random_rows(FILLERS, n)
        made = composer(small_tokenizers["Unigram"], *given)
        assert (made.slotwise, made.proved) == (True, proved)


def with_replacement(old, new):
    """A tokenizer of words that replaces a piece of text first, and whose mask is a word like any other."""
    sentence = "[UNK] [MASK] Anna Maria John is a dancer who likes to smoke dance . , She He happy star"
    vocabulary = {word: number for number, word in enumerate(sentence.split())}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Replace(old, new)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r" |(?=[.,])"), "removed")
    return MaskTokenizer(tokenizer, "[MASK]")


WORDS = {"NAME": ["Anna", "Maria"], "PROF": ["a dancer", "a star"], "ACT": ["smoke", "dance"], "PRON": ["she", "he"]}
ALONE = {slot: np.array([1]) for slot in WORDS}  # a short run of one sentence
LIKES = Pattern("P", "{NAME} likes to {MASK}.")
NOT_SLOTWISE = [
    ("Anna is a dancer", None, "NAME and PROF share tokens in 'Anna is a dancer who likes to smoke. She is happy to"),
    ("Maria is a star", None, "the fillers of 'Maria is a star who likes to "),
    ("dance. He", None, "change each other's tokens"),
    ("dance. He", ALONE, "the fillers of 'Maria is a star who likes to dance. He is happy to [MASK].' change each"),
    ("Maria likes to [MASK].", None, "NAME changes tokens on both sides of the mask in 'Anna likes to [MASK].'"),
]


def test_fillers_that_change_each_others_tokens_are_tokenized_whole(small_tokenizers):
    for together, run, reason in NOT_SLOTWISE:
        pattern, new = (LIKES, "Maria [MASK] star.") if "[MASK]" in together else (PATTERNS.selecting, "happy")
        tokenizer, rows = with_replacement(together, new), run or random_rows(WORDS, 30)
        made = composer(tokenizer, pattern, WORDS, seed=0, sentences=run)
        assert not made.slotwise
        assert reason in made.reason
        assert composed(made, rows) == tokenized(tokenizer, pattern, WORDS, rows)
    with pytest.raises(InputError, match=r"the word 'a \[SEP\]' for \{PROF\} holds the special token '\[SEP\]' of the"):
        composer(small_tokenizers["WordPiece cased"], PATTERNS.selecting, {**FILLERS, "PROF": ["a [SEP]"]}, seed=0)


def test_a_key_is_the_same_on_every_machine_and_in_every_version():
    assert string_keys(["smoke", "dance"], "seed 0").tolist() == [0x714173501914F1E, 0xE5C492543C3C294B]
    assert string_keys([], "k").shape == (0,)
    assert string_keys(["smoke"], "k" * 1000) != string_keys(["smoke"], "k" * 1001)  # longer than the hash allows

    assert combine(np.uint64(0)) == 0xE220A8397B1DCDAF  # the published test vector: splitmix64 seeded with 0
