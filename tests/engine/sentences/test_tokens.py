import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from negengine.engine.errors import InputError
from negengine.engine.negation.grid import Coreference, subjects
from negengine.engine.sentences.lexicon import load_lexicon
from negengine.engine.sentences.patterns import Pattern, load_patterns
from negengine.engine.sentences.tokens import (
    MaskTokenizer,
    VerbConvention,
    WholeSentenceComposer,
    composer,
    mask_fillers,
)
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

PATTERNS = load_patterns()
LEXICON = load_lexicon()
BASE = {"NAME": "Jessica", "PROF": "a dancer", "ACT": "smoke", "PRON": "she"}
FILLERS = {
    "NAME": ["Anna", "Maria", "Jean-Luc", "O'Hara"],
    "PROF": ["a dancer", "an architect", "a fire fighter"],
    "ACT": ["smoke", "dance", "disagree", "x"],
    "PRON": ["she", "he"],
}

words = st.text("abnsAS é'-1漢", min_size=1, max_size=12).map(" ".join).map(str.strip) | st.sampled_from(
    ["Anna", "she", "smoke", "a dancer", "an architect", "dancing", "Zoë", "O'Hara", "C#", "isn't", "smoke."]
)
fillers_of_any_kind = st.fixed_dictionaries({slot: st.lists(words, min_size=1, max_size=6) for slot in BASE})
patterns = st.sampled_from(
    [
        *PATTERNS.all,
        Pattern("starts with a profession", "{PROF} is {NAME}.", "{PRON} likes to {MASK}."),
        Pattern("one sentence", "{NAME} is {PROF} and {PRON} likes to {ACT} or {MASK}."),
        Pattern(
            "repeated slots", "{NAME} is {PROF}, and {NAME} likes to {ACT}.", "{NAME} is happy to {MASK}, not {ACT}."
        ),
        Pattern("mask first", "{MASK} is what {NAME} likes, {PRON} says.", "{PROF} must {ACT}."),
        Pattern("nothing between", "{NAME}{PROF} {ACT}{MASK} {PRON}"),
    ]
)


def random_rows(fillers, n, seed=0):
    rng = np.random.default_rng(seed)
    return {slot: rng.integers(len(words), size=n) for slot, words in fillers.items()}


def texts_of(pattern, fillers, rows, tokenizer):
    columns = {slot: [fillers[slot][i] for i in index] for slot, index in rows.items()}
    sentences = [dict(zip(columns, words, strict=True)) for words in zip(*columns.values(), strict=True)]
    return [pattern.text(sentence, tokenizer.mask_token) for sentence in sentences]


def composed(made, rows):
    """The composed sentences in the order of their rows."""
    sentences = {}
    for part in made.compose(rows):
        sentences.update(zip(part.rows.tolist(), part.ids.tolist(), strict=True))
    return [sentences[row] for row in range(len(sentences))]


def tokenized(tokenizer, texts):
    return [ids.tolist() for ids in tokenizer.encode(texts)]


def lexicon_fillers(coreference=Coreference.PRONOUN):
    subject, _ = subjects(LEXICON, coreference, seed=0)
    return {"NAME": LEXICON.names, "PROF": LEXICON.professions, "ACT": LEXICON.verbs, "PRON": subject}


@settings(max_examples=40)
@given(pattern=patterns, fillers=fillers_of_any_kind, seed=st.integers(0, 9))
def test_composed_ids_are_tokenized_ids(small_tokenizer, pattern, fillers, seed):
    rows = random_rows(fillers, 50, seed)
    made = composer(small_tokenizer, pattern, fillers, seed=0, random_combinations=100)
    assert composed(made, rows) == tokenized(small_tokenizer, texts_of(pattern, fillers, rows, small_tokenizer))


@settings(max_examples=20)
@given(pattern=patterns, n=st.integers(1, 60), whole=st.booleans())
def test_a_slice_has_one_exact_length(small_tokenizer, pattern, n, whole):
    rows = random_rows(FILLERS, n)
    made = (WholeSentenceComposer if whole else composer)(small_tokenizer, pattern, FILLERS, *([] if whole else [0]))
    lengths = np.array(
        [len(ids) for ids in tokenized(small_tokenizer, texts_of(pattern, FILLERS, rows, small_tokenizer))]
    )
    slices = list(made.compose(rows))
    assert [part.ids.shape[1] for part in slices] == np.unique(lengths).tolist()
    assert all(np.all(lengths[part.rows] == part.ids.shape[1]) for part in slices)
    assert sorted(np.concatenate([part.rows for part in slices]).tolist()) == list(range(n))
    assert made.lengths(rows).tolist() == lengths.tolist()


@pytest.mark.parametrize("whole", [False, True])
def test_a_slice_is_ready_for_the_model(small_tokenizer, whole):
    made = composer(small_tokenizer, PATTERNS.selecting, FILLERS, seed=0)
    if whole:
        made = WholeSentenceComposer(small_tokenizer, PATTERNS.selecting, FILLERS)
    for part in made.compose(random_rows(FILLERS, 40)):
        assert part.ids.flags.c_contiguous
        assert (part.rows.dtype, part.ids.dtype, part.mask_position.dtype) == (np.int64, np.int32, np.int32)
        assert np.all(part.ids[np.arange(len(part.ids)), part.mask_position] == small_tokenizer.mask_id)


def test_no_rows_make_no_slices(small_tokenizer):
    made = composer(small_tokenizer, PATTERNS.selecting, FILLERS, seed=0)
    assert list(made.compose(random_rows(FILLERS, 0))) == []


def test_fillers_that_a_pattern_does_not_use_do_not_matter(small_tokenizer):
    pattern = Pattern("P", "I like to {MASK}.")
    made = composer(small_tokenizer, pattern, FILLERS, seed=0)
    rows = random_rows(FILLERS, 3)
    assert composed(made, rows) == tokenized(small_tokenizer, texts_of(pattern, FILLERS, rows, small_tokenizer))


@pytest.mark.parametrize("pattern", PATTERNS.all, ids=lambda pattern: pattern.name)
@pytest.mark.parametrize("coreference", [Coreference.PRONOUN, Coreference.SAME_NAME])
def test_the_bundled_lexicon_composes_slotwise(small_tokenizer, pattern, coreference):
    assert composer(small_tokenizer, pattern, lexicon_fillers(coreference), seed=0).slotwise


@pytest.mark.parametrize("name", ["bert-base-cased", "bert-base-uncased", "roberta-base"])
@pytest.mark.parametrize("pattern", PATTERNS.all, ids=lambda pattern: pattern.name)
def test_published_models_compose_slotwise(published_tokenizer, name, pattern):
    tokenizer = published_tokenizer(name)
    made = composer(tokenizer, pattern, lexicon_fillers(), seed=0)
    rows = random_rows(lexicon_fillers(), 2000, seed=1)
    assert made.slotwise
    assert composed(made, rows) == tokenized(tokenizer, texts_of(pattern, lexicon_fillers(), rows, tokenizer))


def test_the_bundled_model_composes_slotwise(mini_tokenizer):
    assert all(composer(mini_tokenizer, pattern, lexicon_fillers(), seed=0).slotwise for pattern in PATTERNS.all)


def test_the_proof_covers_every_filler(small_tokenizers, monkeypatch):
    tokenizer, compared = small_tokenizers["Unigram"], []
    monkeypatch.setattr(WholeSentenceComposer, "texts", recording(WholeSentenceComposer.texts, compared))
    made = composer(tokenizer, PATTERNS.selecting, FILLERS, seed=0, random_combinations=0)
    covered = {slot: set(index) for slot, index in compared[0].items()}
    assert covered == {slot: set(range(len(words))) for slot, words in FILLERS.items()}
    assert made.proved == 4


def recording(function, arguments):
    def recorded(self, argument):
        arguments.append(argument)
        return function(self, argument)

    return recorded


def with_replacement(old, new):
    """A tokenizer of words that replaces a piece of text first, and whose mask is a word like any other."""
    sentence = "[UNK] [MASK] Anna Maria John is a dancer who likes to smoke dance . , She He happy star"
    vocabulary = {word: number for number, word in enumerate(sentence.split())}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Replace(old, new)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r" |(?=[.,])"), "removed")
    return MaskTokenizer(tokenizer, "[MASK]")


WORDS = {"NAME": ["Anna", "Maria"], "PROF": ["a dancer", "a star"], "ACT": ["smoke", "dance"], "PRON": ["she", "he"]}
NOT_SLOTWISE = {
    "Anna is a dancer": "NAME and PROF share tokens in 'Anna is a dancer who likes to smoke. She is happy to [MASK].'",
    "Maria is a star": "change each other's tokens",
    "dance. He": "change each other's tokens",
}


@pytest.mark.parametrize(("together", "reason"), NOT_SLOTWISE.items())
def test_fillers_that_change_each_others_tokens_are_tokenized_whole(together, reason):
    tokenizer = with_replacement(together, "happy")
    made = composer(tokenizer, PATTERNS.selecting, WORDS, seed=0)
    rows = random_rows(WORDS, 30)
    assert not made.slotwise
    assert reason in made.reason
    assert composed(made, rows) == tokenized(tokenizer, texts_of(PATTERNS.selecting, WORDS, rows, tokenizer))


def test_a_filler_that_changes_tokens_around_the_mask_is_tokenized_whole():
    tokenizer = with_replacement("Maria likes to [MASK].", "Maria [MASK] star.")
    pattern = Pattern("P", "{NAME} likes to {MASK}.")
    made = composer(tokenizer, pattern, {"NAME": ["Anna", "Maria"]}, seed=0)
    assert not made.slotwise
    assert made.reason == "NAME changes tokens on both sides of the mask in 'Anna likes to [MASK].'"


def test_a_filler_with_a_mask_of_its_own_is_refused(small_tokenizer):
    fillers = {**FILLERS, "ACT": ["smoke", small_tokenizer.mask_token]}
    with pytest.raises(InputError, match=r"(?i)the word '(.mask.)' for \{ACT\} holds the special token '\1' of"):
        composer(small_tokenizer, PATTERNS.selecting, fillers, seed=0)


def test_the_ids_do_not_depend_on_the_seed(small_tokenizer):
    rows = random_rows(FILLERS, 40)
    one, other = (composer(small_tokenizer, PATTERNS.selecting, FILLERS, seed) for seed in (0, 1))
    assert composed(one, rows) == composed(other, rows)


COUNTS = [
    ("bert-base-cased", VerbConvention.IN_CONTEXT, 632),
    ("bert-base-cased", VerbConvention.BARE, 632),
    ("bert-base-uncased", VerbConvention.IN_CONTEXT, 763),
    ("roberta-base", VerbConvention.IN_CONTEXT, 792),
    ("roberta-base", VerbConvention.BARE, 297),
]


@pytest.mark.parametrize(("name", "convention", "count"), COUNTS)
def test_mono_token_verbs_of_published_models(published_tokenizer, name, convention, count):
    # Counted in another way, from the vocabularies alone: see the README of the lexicon.
    index, _ = mask_fillers(published_tokenizer(name), PATTERNS.selecting, LEXICON.verbs, BASE, convention)
    assert len(index) == count


def test_the_expected_token_is_the_one_within_the_sentence(published_tokenizer):
    tokenizer = published_tokenizer("roberta-base")
    _, token = mask_fillers(tokenizer, PATTERNS.selecting, ["say"], BASE, VerbConvention.BARE)
    assert token.tolist() == [224]  # "Ġsay" in RoBERTa's vocabulary; "say" is 28357


def test_only_verbs_of_one_token_count(small_tokenizer):
    verbs = ["smoke", "disagree", "dance", "oversleep"]
    index, token = mask_fillers(small_tokenizer, PATTERNS.selecting, verbs, BASE, VerbConvention.IN_CONTEXT)
    assert index.tolist() == [0, 2]
    assert [small_tokenizer.token_text(i) for i in token.tolist()] == ["smoke", "dance"]


def test_a_verb_in_the_masks_place_gives_the_expected_token(small_tokenizer):
    text = PATTERNS.selecting.text(BASE, small_tokenizer.mask_token)
    [masked] = small_tokenizer.encode([text])
    [filled] = small_tokenizer.encode([PATTERNS.selecting.text(BASE, "dance")])
    _, token = mask_fillers(small_tokenizer, PATTERNS.selecting, ["dance"], BASE, VerbConvention.IN_CONTEXT)
    assert filled[masked.tolist().index(small_tokenizer.mask_id)] == token[0]


def test_bare_verbs_must_be_one_token_alone_too(small_tokenizers):
    tokenizer = small_tokenizers["byte-level BPE"]
    verbs = ["smoke", "like"]  # its entries: "Ġsmoke", "Ġlike" and "like", but not "smoke"
    index, _ = mask_fillers(tokenizer, PATTERNS.selecting, verbs, BASE, VerbConvention.BARE)
    assert index.tolist() == [1]


@pytest.mark.parametrize("verb", ["漢", "[UNK]", "[SEP]"])
def test_special_and_unknown_tokens_are_no_verbs(small_tokenizers, verb):
    tokenizer = small_tokenizers["WordPiece cased"]
    index, _ = mask_fillers(tokenizer, PATTERNS.selecting, [verb, "smoke"], BASE, VerbConvention.IN_CONTEXT)
    assert index.tolist() == [1]


def test_an_unknown_token_that_is_not_marked_as_special_is_no_verb():
    tokenizer = with_replacement("never", "")
    index, _ = mask_fillers(tokenizer, PATTERNS.selecting, ["fly", "smoke"], BASE, VerbConvention.IN_CONTEXT)
    assert index.tolist() == [1]


def test_a_verb_that_merges_with_what_follows_is_not_one_token():
    vocabulary = [("<unk>", 0.0), ("▁smoke.", -1.0), ("▁smoke", -1.0), ("▁dance", -1.0), ("▁to", -1.0), ("▁", -1.0)]
    letters = [(letter, -9.0) for letter in "abcdefghijklmnopqrstuvwxyzSJ."]
    tokenizer = Tokenizer(models.Unigram([*vocabulary, *letters], unk_id=0, byte_fallback=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    merging = MaskTokenizer(tokenizer, "<mask>")
    index, _ = mask_fillers(merging, PATTERNS.selecting, ["smoke", "dance"], BASE, VerbConvention.IN_CONTEXT)
    assert index.tolist() == [1]


def test_a_verb_of_several_bytes_of_one_character_is_not_one_token(small_tokenizers):
    # Each byte of the character is a token, and each of these tokens covers the whole character.
    with pytest.raises(InputError):
        mask_fillers(small_tokenizers["byte-level BPE"], PATTERNS.selecting, ["é"], BASE, VerbConvention.IN_CONTEXT)


def test_a_lexicon_without_mono_token_verbs_is_refused(small_tokenizer):
    with pytest.raises(InputError, match=r"none of 2 verbs is one token \(in-context\) in place of the mask in 'Jess"):
        mask_fillers(small_tokenizer, PATTERNS.selecting, ["disagree", "xyz"], BASE, VerbConvention.IN_CONTEXT)


READABLE = [
    ("WordPiece cased", "##ing", "##ing"),
    ("WordPiece cased", "smoke", "smoke"),
    ("WordPiece cased", "[SEP]", "[SEP]"),
    ("byte-level BPE", "Ġsmoke", "smoke"),
    ("byte-level BPE", "Ġ", "Ġ"),
    ("byte-level BPE", "Ã", "Ã"),
    ("byte-level BPE", "</s>", "</s>"),
    ("Unigram", "▁smoke", "smoke"),
    ("Unigram", "ing", "ing"),
    ("Unigram", "▁", "▁"),
]


@pytest.mark.parametrize(("kind", "token", "text"), READABLE)
def test_a_token_is_shown_as_a_person_reads_it(small_tokenizers, kind, token, text):
    tokenizer = small_tokenizers[kind]
    assert tokenizer.token_text(tokenizer._tokenizer.token_to_id(token)) == text


def test_an_id_without_a_token_is_shown_by_its_number(mini_tokenizer):
    assert mini_tokenizer.token_text(20_000) == "#20000"


def test_a_word_that_looks_like_a_mark_is_shown(published_tokenizer):
    tokenizer = published_tokenizer("roberta-base")
    assert tokenizer.token_text(tokenizer._tokenizer.token_to_id("##")) == "##"


def test_the_size_of_the_vocabulary_counts_added_tokens(mini_tokenizer):
    assert mini_tokenizer.vocab_size == 12_704


def test_truncation_and_padding_are_switched_off(small_tokenizers):
    tokenizer = Tokenizer.from_str(small_tokenizers["WordPiece cased"]._tokenizer.to_str())
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=99)
    [ids] = MaskTokenizer(tokenizer, "[MASK]").encode(["Anna likes to smoke and to dance."])
    assert 4 < len(ids) < 99


def test_a_saved_tokenizer_is_loaded(small_tokenizer, tmp_path):
    small_tokenizer._tokenizer.save(str(tmp_path / "tokenizer.json"))
    loaded = MaskTokenizer.load(tmp_path, small_tokenizer.mask_token)
    text = PATTERNS.selecting.text(BASE, small_tokenizer.mask_token)
    assert tokenized(loaded, [text]) == tokenized(small_tokenizer, [text])


def test_a_missing_tokenizer_is_named(tmp_path):
    with pytest.raises(InputError, match=r"tokenizer\.json: cannot be read \(No such file or directory\)"):
        MaskTokenizer.load(tmp_path, "[MASK]")


@pytest.mark.parametrize("content", ["", "{", "{}", '{"model": {"type": "WordPiece"}}'])
def test_a_damaged_tokenizer_is_named(tmp_path, content):
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(InputError, match=r"tokenizer\.json: not a tokenizer \(.*\); export the model again$"):
        MaskTokenizer.load(tmp_path, "[MASK]")


def test_an_unknown_mask_token_is_named(small_tokenizers, tmp_path):
    small_tokenizers["Unigram"]._tokenizer.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(InputError, match=r"tokenizer\.json: the tokenizer has no token '\[MASK\]'"):
        MaskTokenizer.load(tmp_path, "[MASK]")
