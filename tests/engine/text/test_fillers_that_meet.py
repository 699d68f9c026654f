"""Tokenizers whose pieces reach over words: composed ids are those of each sentence, and so are verbs."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from negengine.engine.basics.choices import VerbConvention
from negengine.engine.experiments.negation.select import Selection
from negengine.engine.text.composition import composer
from negengine.engine.text.lexicon import Lexicon
from negengine.engine.text.pattern import Pattern
from negengine.engine.text.pattern_files import load_patterns
from negengine.engine.text.tokenizer import MaskTokenizer
from negengine.engine.text.verbs import beside_mask, mask_fillers, other_sentences
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, trainers

NAMES = [f"{one}{two}a" for one, two in itertools.product(("An", "Mar", "Le", "Jo", "Ka"), ("n", "i", "l", "r"))]
JOBS = ["an actor", "a dancer", "a baker", "an usher", "a clerk"]
ENGLISH = Pattern("P", "{NAME} is {PROF} who likes to {ACT}.", "{PRON} is happy to {MASK}.")
WORDS = {"NAME": NAMES, "PROF": JOBS, "ACT": ["smoke", "dance", "sing"], "PRON": ["she", "he"]}
CHINESE = Pattern("C", "{NAME}{PROF}喜欢{ACT}。", "{PRON}很喜欢{MASK}。")
CHINESE_WORDS = {
    "NAME": ["王芳", "李娜", "张伟", "王秀英", "刘演", "陈歌"],
    "PROF": ["演员", "歌手", "手工艺人", "员工"],
    "ACT": ["唱歌", "跳舞", "抽烟"],
    "PRON": ["她", "他"],
}
THAI = Pattern("T", "{NAME}เป็น{PROF}ชอบ{ACT}", "{PRON}ชอบ{MASK}")
THAI_WORDS = {
    "NAME": ["มาลี", "สมชาย", "นภา", "วิภา"],
    "PROF": ["นักร้อง", "ครู", "หมอ"],
    "ACT": ["ร้องเพลง", "เต้น"],
    "PRON": ["เธอ", "เขา"],
}


def texts_of(pattern, words, mask="[MASK]"):
    rows = itertools.product(*(words[slot] for slot in pattern.slots))
    return [pattern.text(dict(zip(pattern.slots, row, strict=True)), mask) for row in rows]


def superbpe(corpus):
    """Byte-level BPE without a split at white space, as in the second stage of SuperBPE."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    trainer = trainers.BpeTrainer(vocab_size=420, special_tokens=["[MASK]"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())  # fmt: skip
    made.train_from_iterator(corpus, trainer)
    return MaskTokenizer(made, "[MASK]")


def unigram(corpus):
    """Unigram as in XLM-R: a sentence without spaces is one word."""
    made = Tokenizer(models.Unigram())
    made.normalizer, made.pre_tokenizer = normalizers.NFKC(), pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=120, special_tokens=["[MASK]", "<unk>"], unk_token="<unk>", show_progress=False
    )
    made.train_from_iterator(corpus, trainer)
    return MaskTokenizer(made, "[MASK]")


KINDS = {
    "SuperBPE": (superbpe, ENGLISH, WORDS),
    "Chinese": (unigram, CHINESE, CHINESE_WORDS),
    "Chinese BPE": (superbpe, CHINESE, CHINESE_WORDS),
    "Thai": (unigram, THAI, THAI_WORDS),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_composed_ids_are_the_tokenizers_for_every_sentence(kind, seed):
    make, pattern, words = KINDS[kind]
    corpus = np.random.default_rng(seed).choice(texts_of(pattern, words, words["ACT"][0]), 30).tolist()
    tokenizer = make(corpus)
    made = composer(tokenizer, pattern, words, seed=0, random_combinations=10)
    sizes = [len(words[slot]) for slot in pattern.slots]
    rows = dict(zip(pattern.slots, map(np.ravel, np.indices(sizes)), strict=True))
    wanted = [ids.tolist() for ids in tokenizer.encode(texts_of(pattern, words))]
    found = {
        row: ids
        for bucket in made.compose(rows)
        for row, ids in zip(bucket.rows.tolist(), bucket.ids.tolist(), strict=True)
    }
    assert [found[row] for row in range(len(wanted))] == wanted
    if made.slotwise:  # each pair of neighbours that can meet, not the sample alone
        assert made.proved >= len(words["NAME"]) * len(words["PROF"])


def joined(pieces):
    """A tokenizer of letters, and of one piece that reaches from the end of a name into a profession."""
    letters = sorted({letter for text in texts_of(ENGLISH, WORDS, "") for letter in text})
    scores = [("<unk>", -20.0), *((letter, -3.0) for letter in letters), *((piece, -1.0) for piece in pieces)]
    made = Tokenizer(models.Unigram(scores, unk_id=0, byte_fallback=False))
    made.add_special_tokens([AddedToken("[MASK]", lstrip=True, special=True)])
    return MaskTokenizer(made, "[MASK]")


def test_one_pair_in_a_hundred_that_shares_a_token_is_found_whatever_the_sample():
    tokenizer = joined(["ria is an us"])  # Maria and an usher
    made = composer(tokenizer, ENGLISH, WORDS, seed=0, random_combinations=0)
    assert not made.slotwise
    assert "an usher who likes to" in made.reason
    random = np.random.default_rng(0)
    rows = {slot: random.integers(len(words), size=300) for slot, words in WORDS.items()}
    wrong = [row for row in range(300) if NAMES[rows["NAME"][row]].endswith("ria") and rows["PROF"][row] == 3]
    few = {slot: own[:4] for slot, own in rows.items()}
    assert not set(range(4)) & set(wrong)
    assert composer(tokenizer, ENGLISH, WORDS, seed=0, sentences=few).proved == 4  # a short run: all its sentences


def test_a_pre_tokenizer_that_keeps_words_apart_needs_no_pairs(small_tokenizers):
    for tokenizer in small_tokenizers.values():
        made = composer(tokenizer, ENGLISH, WORDS, seed=0, random_combinations=7)
        assert (made.slotwise, made.proved) == (True, len(NAMES) + 7)
        assert beside_mask(tokenizer, ENGLISH, WORDS, "smoke") == {}  # nor are verbs looked at for each pronoun


def test_a_verb_is_one_token_in_each_sentence_that_it_is_asked_in():
    """A piece of a pronoun and a verb: by the rule of the first pronoun alone, "sing" would be usable or not."""
    pattern = Pattern("P", "{NAME} is {PROF} who likes to {ACT}.", "{PRON} {MASK}.")
    tokenizer = joined(["smoke", "dance", "sing", " smoke", " dance", " sing", "He sing"])
    found = []
    for pronouns in (["she", "he"], ["he", "she"]):
        words = {**WORDS, "PRON": pronouns}
        base = {slot: words[slot][0] for slot in pattern.slots}
        others = other_sentences(pattern, words, beside_mask(tokenizer, pattern, words, "smoke"))
        assert [own["PRON"] for own in others] == pronouns[1:]
        index, _ = mask_fillers(
            tokenizer, pattern, WORDS["ACT"], base, VerbConvention.IN_CONTEXT, (), WORDS["ACT"], others
        )
        found.append([WORDS["ACT"][i] for i in index])
    assert found == [["smoke", "dance"]] * 2


SCORED = 'name = "own"\n' + "".join(
    f'[[pattern]]\nname = "{name}"\nrole = "{role}"\n'
    f'context = "{{NAME}} is {{PROF}} who likes to {{ACT}}."\ntarget = "{target}"\n'
    for name, role, target in (
        ("Last", "selecting", "{PRON} is happy to {MASK}."),
        ("First", "control", "{MASK} is what {PRON} likes."),
        ("Inside", "forbidden", "{PRON} re{MASK}s."),
    )
)


def test_a_selection_names_what_a_scoring_would_refuse_and_verbs_that_are_one_token(mini, tmp_path):
    (tmp_path / "own.toml").write_text(SCORED)
    patterns, tokenizer = load_patterns(tmp_path / "own.toml"), mini.tokenizer
    verbs = ("smoke", "march", "March", "act", "run", "ride", "walk", "qwxz")
    lexicon = Lexicon(("Anna", "John"), ("f", "m"), ("a dancer",), verbs)

    def is_one_token(before, verb, after):  # each text by itself
        masked, [own] = (
            tokenizer.encode([f"{before}[MASK]{after}"])[0].tolist(),
            tokenizer.encode([before + verb + after]),
        )
        place = masked.index(tokenizer.mask_id)
        text = tokenizer.token_text(int(own[place])).removeprefix("##")
        return own.tolist()[:place] == masked[:place] and text == verb.lower()

    places = [("He is happy to ", "."), ("", " is what he likes."), ("He re", "s.")]
    wanted = [[verb for verb in verbs if is_one_token(before, verb, after)] for before, after in places]
    kept = [verb for verb in wanted[0] if verb in wanted[1] and verb in wanted[2]]
    made = Selection.plan(mini, lexicon, replace(patterns, scored=patterns.scored[:1]))
    assert [verbs[i] for i in made.verbs.index] == [verb for verb in wanted[0] if verb in wanted[1]]
    assert any("the same tokens of this model, which count apart: march = March" in note for note in made.notes)
    lost = [verb for verb in wanted[0] if verb in wanted[1] and verb not in wanted[2]]
    assert (kept, lost) == (["run", "ride", "walk"], ["smoke", "march", "March", "act"])
    made = Selection.plan(mini, lexicon, patterns)
    assert [verbs[i] for i in made.verbs.index] == kept
    [said] = [note for note in made.notes if "for the mask of Inside alone" in note]
    assert all(repr(verb) in said for verb in lost)
