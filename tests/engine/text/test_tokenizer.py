"""From texts to token ids: a model's own tokenizer, and sentences put together from the ids of their fillers."""

import numpy as np
import pytest
from causal_checkpoints import byte_level, llama_like
from few import few
from hypothesis import given, settings
from hypothesis import strategies as st
from negengine.engine.basics.choices import Coreference, VerbConvention
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.negation.grid import subjects
from negengine.engine.text.composition import WholeSentenceComposer, composer
from negengine.engine.text.keys import combine, string_keys
from negengine.engine.text.lexicon import load_lexicon
from negengine.engine.text.pattern import Pattern
from negengine.engine.text.pattern_files import load_patterns
from negengine.engine.text.tokenizer import NOT_ONE_TOKEN, CausalTokenizer, MaskTokenizer
from negengine.engine.text.verbs import mask_fillers
from negengine.engine.text.word_marks import Mark, WordClass, WordMarks
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors


def test_a_token_is_shown_as_a_person_reads_it(small_tokenizers):
    for kind, shown in {
        "WordPiece cased": {"##ing": "##ing"},
        "byte-level BPE": {"Ġsmoke": "smoke", "Ġ": "Ġ", "</s>": "</s>"},
        "Unigram": {"▁smoke": "smoke"},
    }.items():
        tokenizer = small_tokenizers[kind]
        assert {token: tokenizer.token_text(tokenizer.backend.token_to_id(token)) for token in shown} == shown
        assert tokenizer.token_text(20_000) == "#20000"


@pytest.mark.parametrize("unknown", ["<unk>", "[UNK]"])  # ALBERT's and DeBERTa's
def test_a_unigram_model_has_its_own_unknown_token(unknown):
    pieces = [("[MASK]", 0.0), ("[PAD]", 0.0), (unknown, 0.0), ("a", -1.0)]
    backend = Tokenizer(models.Unigram(pieces, unk_id=2, byte_fallback=False))
    backend.add_special_tokens(["[MASK]", "[PAD]", unknown])
    tokenizer = MaskTokenizer(backend, "[MASK]")
    assert tokenizer.unknown_id == 2
    assert tokenizer.unknown(["a", "b"]) == ["b"]
    assert tokenizer.special_token_in(["a", "b", "[PAD]"]) == [None, None, "[PAD]"]


def test_tokens_that_read_the_same_but_differ(small_tokenizers):
    """The first choice, the accepted tokens, and whether they only read the same."""
    for kind, rows in [
        ("byte-level BPE", [("like", ["Ġlike"], True), ("Ġlike", ["Ġlike"], False), ("like", ["Ġsmoke"], False)]),
        ("byte-level BPE", [("like", ["Ġsmoke", "Ġlike"], True), ("Ġsmoke", ["Ġlike", "Ġlike"], False)]),
        ("WordPiece cased", [("##er", ["s"], False), ("##s", ["s"], False)]),
    ]:
        number = small_tokenizers[kind].backend.token_to_id
        top1 = np.array([number(first) for first, _, _ in rows], np.int32)
        accepted = np.array([[number(token) for token in tokens] for _, tokens, _ in rows], np.int32)
        for expected in [accepted, accepted[:, 0]] if accepted.shape[1] == 1 else [accepted]:
            assert small_tokenizers[kind].same_text(top1, expected).tolist() == [same for *_, same in rows]


def test_a_saved_tokenizer_is_loaded_without_truncation_and_padding(small_tokenizer, tmp_path):
    saved = Tokenizer.from_str(small_tokenizer.backend.to_str())
    saved.enable_truncation(4)
    saved.enable_padding(length=99)
    saved.save(str(tmp_path / "tokenizer.json"))
    loaded = MaskTokenizer.load(tmp_path, small_tokenizer.mask_token)
    texts = [f"Anna likes to smoke and to {small_tokenizer.mask_token}."]
    assert np.array_equal(loaded.encode(texts), small_tokenizer.encode(texts))


def test_a_tokenizer_that_cannot_be_used_is_named(small_tokenizers, tmp_path):
    other = small_tokenizers["Unigram"].backend.to_str()
    for content, message in [
        (None, r"cannot be read \(No such file or directory\)"),
        ("", r"not a tokenizer \(.*\); export the model again$"),
        ('{"model": {"type": "WordPiece"}}', r"not a tokenizer \(.*\); export the model again$"),
        (other, r"the tokenizer has no token '\[MASK\]'"),
    ]:
        if content is not None:
            (tmp_path / "tokenizer.json").write_text(content, "utf-8")
        with pytest.raises(InputError, match=rf"tokenizer\.json: {message}"):
            MaskTokenizer.load(tmp_path, "[MASK]")


def test_a_word_says_why_it_has_no_tokens(small_tokenizers):
    tokenizer = small_tokenizers["WordPiece cased"]
    plain = ("She is happy to ", ".")
    contexts = [plain, plain, ("She is happy to ", "e."), ("She is happy to danc", ".")]
    assert tokenizer.word_sequences(contexts, ["é", "[SEP]", "smok", "e"]) == [
        "'é' holds the token [UNK]",
        "'[SEP]' holds the token [SEP]",
        "the tokens of 'smok' hold more than the word",
        "'e' changes the tokens before it",
    ]
    # A character of several tokens is covered whole; more spaces are one, and the mask takes it.
    tokenizer = small_tokenizers["byte-level BPE"]
    one, more = tokenizer.word_sequences([("She is happy to ", "."), ("She is happy to   ", ".")], ["smoke"] * 2)
    assert one == more
    [own] = tokenizer.word_sequences([plain], ["é"])
    assert (tokenizer.backend.decode(list(own)), len(own) > 1) == (" é", True)


# What makes the tokenizer of a causal model, and what that puts before every text
KINDS = {"GPT-2": (byte_level, []), "OPT": (lambda: byte_level("</s>"), [2]), "Llama": (llama_like, [1])}


@pytest.fixture(params=KINDS)
def tokenizer(request):
    make, prefix = KINDS[request.param]
    made = CausalTokenizer(make().backend_tokenizer, 430)
    assert made.prefix.tolist() == prefix
    return made


def test_a_sentence_ends_in_a_mask_outside_the_vocabulary(tokenizer):
    # The space before the mask belongs to the next token.
    for ids in tokenizer.encode_masked(["She is happy to [MASK].", "She is happy to[MASK]"]):
        assert ids[-1] == tokenizer.mask_id == 430
        shown = [tokenizer.token_text(token) for token in ids.tolist()]
        assert shown[-5:] == ["She", "is", "happy", "to", "[MASK]"]
    contexts = [("She is happy to ", ".")] * 3 + [("She is happy to", ".")]
    found = tokenizer.word_tokens(contexts, ["smoke", "qwxz", "smoke dance", "smoke"]).tolist()
    assert found == [tokenizer.encode(["She is happy to smoke"])[0][-1], *[NOT_ONE_TOKEN] * 3]
    [whole] = tokenizer.encode(["She is happy to smoke."])
    assert whole.tolist()[: len(tokenizer.prefix)] == tokenizer.prefix.tolist()
    backend, special = llama_like().backend_tokenizer, [("<s>", 1), ("</s>", 2)]
    backend.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=special)
    assert 2 not in CausalTokenizer(backend, 430).encode(["She is happy to [MASK]."])[0]  # what stands behind a text


def test_a_text_that_a_causal_model_cannot_be_asked_about_is_refused(tokenizer):
    assert tokenizer.reads("Paris is [MASK].")
    assert not tokenizer.reads("[MASK] is the capital of France.")
    with pytest.raises(InputError, match=r"words follow the mask in 'Paris is \[MASK\] 3'"):
        tokenizer.encode(["Paris is [MASK] 3"])
    with pytest.raises(InputError, match="2 mask tokens"):
        tokenizer.encode_masked(["She is [MASK] [MASK]."])
    if len(tokenizer.prefix):
        assert tokenizer.encode(["[MASK]"])[0].tolist() == [*tokenizer.prefix, 430]
        return
    with pytest.raises(InputError, match=r"nothing stands before the mask in '\[MASK\]'.*--bos"):
        tokenizer.encode(["[MASK]"])


PATTERNS, LEXICON = load_patterns(), load_lexicon()
BASE = {"NAME": "Jessica", "PROF": "a dancer", "ACT": "smoke", "PRON": "she"}

# Counted in another way, from the vocabularies alone: see the README of the lexicon.
COUNTS = [("bert-base-cased", 632, 632), ("bert-base-uncased", 763, 763), ("roberta-base", 792, 297)]


@pytest.mark.parametrize(("name", "in_context", "bare"), COUNTS)
def test_mono_token_verbs_of_published_models(published_tokenizer, name, in_context, bare):
    for convention, count in ((VerbConvention.IN_CONTEXT, in_context), (VerbConvention.BARE, bare)):
        given = published_tokenizer(name), PATTERNS.selecting, [*LEXICON.verbs, "say"], BASE, convention
        index, tokens = mask_fillers(*given)
        assert len(index) == count + 1
    assert name != "roberta-base" or tokens[-1] == 224  # within a sentence, "Ġsay"; "say" is 28357


def test_a_verb_is_one_token_by_either_convention_and_so_are_further_forms(small_tokenizers):
    """The entries are "Ġsmoke", "Ġlike" and "like", but not "smoke"."""
    given = small_tokenizers["byte-level BPE"], PATTERNS.selecting, ["smoke", "oversleep", "like"], BASE
    assert mask_fillers(*given, VerbConvention.IN_CONTEXT)[0].tolist() == [0, 2]
    assert mask_fillers(*given, VerbConvention.BARE)[0].tolist() == [2]
    with pytest.raises(InputError, match=r"none of 2 verbs is one token \(bare\) in place of the mask in 'Jessica"):
        mask_fillers(*given[:2], ["disagree", "xyz"], BASE, VerbConvention.BARE)
    tokenizer = small_tokenizers["WordPiece cased"]
    main, further = ["smoke", "dance", "unheardof", "like"], [("dance", "unheardof"), ("unheardof",), ("smoke",), ()]
    index, token = mask_fillers(tokenizer, PATTERNS.selecting, main, BASE, VerbConvention.IN_CONTEXT, further)
    smoke, dance, like = (tokenizer.backend.token_to_id(word) for word in ("smoke", "dance", "like"))
    assert index.tolist() == [0, 1, 3]  # the main form of the third is several tokens
    assert [set(row) for row in token.tolist()] == [{smoke, dance}, {dance}, {like}]
    assert token[:, 0].tolist() == [smoke, dance, like]


BEGINS, CONTINUES, OTHER, SPECIAL = WordClass.BEGINS, WordClass.CONTINUES, WordClass.OTHER, WordClass.SPECIAL

CLASSES = {
    "WordPiece cased": {"smoke": BEGINS, "##er": CONTINUES, ".": BEGINS, "[MASK]": SPECIAL, "[UNK]": SPECIAL},
    "byte-level BPE": {"Ġsmoke": BEGINS, "a": CONTINUES, "7": CONTINUES, "Ã": CONTINUES, ".": OTHER, "<s>": SPECIAL},
    "Unigram": {"▁smoke": BEGINS, "er": CONTINUES, ".": OTHER, "▁": BEGINS, "</s>": SPECIAL},
}


def test_each_token_has_its_class(small_tokenizers):
    for kind, classes in CLASSES.items():
        tokenizer = small_tokenizers[kind]
        marks = WordMarks.of(tokenizer, tokenizer.vocab_size + 5)
        assert (marks.classes[-5:] == WordClass.UNUSED).all()  # outputs without a token
        found = {token: WordClass(marks.classes[tokenizer.backend.token_to_id(token)]) for token in classes}
        assert found == classes
        assert marks.mark is (Mark.CONTINUATION if kind.startswith("WordPiece") else Mark.BEGINNING)


def test_ends_of_words_single_bytes_and_a_vocabulary_without_marks():
    ends = Tokenizer(models.BPE({"a": 0, "b": 1, "a</w>": 2, "[MASK]": 3}, [], end_of_word_suffix="</w>"))
    bytes_too = [("<unk>", 0.0), ("▁a", -1.0), ("<0xC3>", -2.0), ("[MASK]", -9.0)]
    pieces = Tokenizer(models.Unigram(bytes_too, unk_id=0, byte_fallback=False))
    for made, mark, classes in [
        (ends, Mark.END, [BEGINS, BEGINS, OTHER, SPECIAL]),
        (pieces, Mark.BEGINNING, [SPECIAL, BEGINS, CONTINUES, SPECIAL]),
    ]:
        made.add_special_tokens(["[MASK]"])
        marks = WordMarks.of(MaskTokenizer(made, "[MASK]"), 4)
        assert (marks.mark, marks.classes.tolist()) == (mark, classes)
    words = Tokenizer(models.WordLevel({"a": 0, "b": 1, "[MASK]": 2, "[UNK]": 3}, unk_token="[UNK]"))
    with pytest.raises(InputError, match="does not mark where words begin or end"):
        WordMarks.of(MaskTokenizer(words, "[MASK]"), 4)


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
    longest = max(map(len, composed(made, {slot: own.ravel() for slot, own in zip(fillers, grid, strict=True)})))
    assert made.longest() == longest if made.slotwise else made.longest() >= longest
    assert WholeSentenceComposer(small_tokenizer, pattern, fillers).longest() >= longest


@pytest.mark.parametrize("name", ["mini", "bert-base-cased", "bert-base-uncased", "roberta-base"])
@pytest.mark.parametrize("pattern", few(PATTERNS.all, PATTERNS.scored[-2]), ids=lambda pattern: pattern.name)
def test_published_models_compose_slotwise(published_tokenizer, mini_tokenizer, name, pattern):
    subject, _ = subjects(LEXICON, Coreference.PRONOUN, seed=0)
    fillers = {"NAME": LEXICON.names, "PROF": LEXICON.professions, "ACT": LEXICON.verbs, "PRON": subject}
    tokenizer = mini_tokenizer if name == "mini" else published_tokenizer(name)
    made, rows = composer(tokenizer, pattern, fillers, seed=0), random_rows(fillers, 500, seed=1)
    assert made.slotwise
    assert composed(made, rows) == tokenized(tokenizer, pattern, fillers, rows)


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
