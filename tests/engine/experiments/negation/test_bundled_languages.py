"""The bundled languages: enough words, right ones by rules that are written here again, sentences that agree."""

import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from negengine.engine.basics.choices import Coreference, VerbConvention
from negengine.engine.experiments.negation.grid import pair_fillers
from negengine.engine.text.bundled import lexicon_path
from negengine.engine.text.composition import composer
from negengine.engine.text.lexicon import load_lexicon
from negengine.engine.text.pattern import VERB, column, sentence_texts
from negengine.engine.text.pattern_files import load_language
from negengine.engine.text.tokenizer import MaskTokenizer
from negengine.engine.text.verbs import mask_fillers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

OURS = ["italian", "italian-null-subject", "italian-gerund", "french", "french-gerund"]
WORDINGS = ["likes", "connective", "coordinated"]
VOWELS = "aeiou"


@pytest.mark.parametrize("name", ["french", "italian"])
@pytest.mark.parametrize("verbs", ["verbs.txt", "verbs_gerund.txt"])
def test_a_language_has_as_many_names_and_professions_as_the_paper(name, verbs):
    lexicon = load_lexicon(lexicon_path(name), verbs)
    assert (lexicon.genders.count("f"), lexicon.genders.count("m"), len(lexicon.professions)) == (100, 100, 91)
    assert len({lexicon.accepted(verb) for verb in lexicon.verbs}) == len(lexicon.verbs) > 300


@pytest.mark.parametrize("name", OURS)
def test_a_set_has_a_pattern_for_each_role_of_the_paper_in_minimal_pairs(name):
    patterns = {pattern.name: pattern for pattern in load_language(name).patterns.all}
    roles = {"CpTp": "selecting", "CpTn": "forbidden", "CnTp": "forbidden", "CnTn": "control", "CpTv": "control"}
    assert {name: str(pattern.role) for name, pattern in patterns.items()} == roles
    assert all(pattern.sentence.endswith("{MASK}.") for pattern in patterns.values())
    for begin, context in {"Cp": "CpTp", "Cn": "CnTp"}.items():
        assert {own.context for key, own in patterns.items() if key[:2] == begin} == {patterns[context].context}
    for end, target in {"Tp": "CpTp", "Tn": "CpTn"}.items():
        assert {own.target for key, own in patterns.items() if key[2:] == end} == {patterns[target].target}


def italian_article(noun, *, female):
    if female:
        return "un'" if noun[0] in VOWELS else "una "
    hard = noun.startswith(("z", "ps", "pn", "gn", "x", "y")) or re.match(rf"s[^{VOWELS}]|i[{VOWELS}]", noun)
    return "uno " if hard else "un "


def test_italian_articles_agree_with_gender_and_the_next_sound():
    forms = load_lexicon(lexicon_path("italian")).forms["PROF"]
    for gender, professions in forms.items():
        for profession in professions:
            article, noun = re.fullmatch(r"(un'|una |uno |un )(.+)", profession).groups()
            assert article == italian_article(noun, female=gender == "f"), profession
    assert {"uno psicologo", "uno studente", "uno scrittore", "uno zoologo", "un attore"} <= set(forms["m"])
    assert {"una psicologa", "una studentessa", "un'attrice", "un'architetta"} <= set(forms["f"])


WRITTEN = {
    "Bianca psicologa": "Bianca è una psicologa a cui non piace andare. Lei è contenta di [MASK].",
    "Achille psicologo": "Achille è uno psicologo a cui non piace andare. Lui è contento di [MASK].",
    "Adèle actrice": "Adèle est une actrice qui n'aime pas aller. Elle est heureuse de pouvoir [MASK].",
    "Adrien acteur": "Adrien est un acteur qui n'aime pas aller. Il est heureux de pouvoir [MASK].",
}


@pytest.mark.parametrize("words", WRITTEN)
def test_sentences_agree_with_the_person(words):
    name, profession = words.split()
    language, verb = ("italian", "andare") if profession.startswith("psi") else ("french", "aller")
    lexicon, patterns = (own := load_language(language)).lexicon, own.patterns
    who = lexicon.names.index(name)
    what = [form.endswith(profession) for form in lexicon.forms["PROF"][lexicon.genders[who]]].index(True)
    fillers = pair_fillers(lexicon, Coreference.PRONOUN, seed=0)
    slots = {VERB: verb, **{slot: filler.word(who, what) for slot, filler in fillers.items()}}
    assert {pattern.name: pattern.text(slots, "[MASK]") for pattern in patterns.all}["CnTp"] == WRITTEN[words]


def wordpiece(language):
    """As Italian BERT has it; one token are every second verb, half of the other words, and each letter."""
    lexicon, patterns = language.lexicon, language.patterns
    verbs = [form for verb in lexicon.verbs[::2] for form in lexicon.accepted(verb)]
    professions = lexicon.forms.get("PROF", {"": lexicon.professions}).values()
    names = [word for words in (lexicon.names, *professions, *lexicon.lists.values()) for word in words]
    fixed = [piece for pattern in patterns.all for piece in pattern.pieces]
    words = re.findall(r"\w+", " ".join([*verbs, *names[::2], *fixed, "lei lui elle il she he Lei Lui Elle Il She He"]))
    letters = sorted({*" ".join([*lexicon.verbs, *lexicon.mask_forms, *names, *fixed, "LEI"])} - {" "})
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = dict.fromkeys([*special, *words, *letters, *(f"##{letter}" for letter in letters)])
    tokenizer = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(special)
    ends = {"single": "[CLS] $A [SEP]", "special_tokens": [("[CLS]", 2), ("[SEP]", 3)]}
    tokenizer.post_processor = processors.TemplateProcessing(**ends)
    return MaskTokenizer(tokenizer, "[MASK]")


@pytest.mark.parametrize("name", [*OURS, *(f"self-contained-negation-{own}" for own in WORDINGS)])
def test_sentences_are_composed_as_a_tokenizer_has_them(name):
    language = load_language(name)
    if name not in OURS:  # the English words are tested with the paper's patterns
        own, names = language.lexicon, slice(90, 110)
        few = {"names": own.names[names], "genders": own.genders[names], "professions": own.professions[:12]}
        language = replace(language, lexicon=replace(own, verbs=own.verbs[:40], **few))
    lexicon, tokenizer, random = language.lexicon, wordpiece(language), np.random.default_rng(1)
    fillers = pair_fillers(lexicon, Coreference.PRONOUN, seed=0)
    words = {VERB: lexicon.verbs, **{slot: filler.words for slot, filler in fillers.items()}}
    main, further = zip(*((forms[0], forms[1:]) for forms in map(lexicon.accepted, lexicon.verbs)), strict=True)
    for pattern in language.patterns.all:
        base = {slot: words[slot][0] for slot in pattern.slots}
        verb, token = mask_fillers(tokenizer, pattern, main, base, VerbConvention.IN_CONTEXT, further)
        assert set(range(0, len(lexicon.verbs), 2)) <= set(verb.tolist())
        for number, own in zip(verb.tolist(), token.reshape(len(token), -1), strict=True):
            assert {tokenizer.token_text(i) for i in own.tolist()} <= set(lexicon.accepted(lexicon.verbs[number]))
        made = composer(tokenizer, pattern, words, seed=0, random_combinations=200)
        assert made.slotwise, made.reason
        rows = {slot: random.integers(len(own), size=50) for slot, own in words.items()}
        chosen = pl.DataFrame({column(slot): [words[slot][i] for i in index] for slot, index in rows.items()})
        texts = chosen.select(sentence_texts(pattern, tokenizer.mask_token)).to_series().to_list()
        slots = [{slot: row[column(slot)] for slot in words} for row in chosen.iter_rows(named=True)]
        assert texts == [pattern.text(own, tokenizer.mask_token) for own in slots]
        expected = [ids.tolist() for ids in tokenizer.encode(texts)]
        for bucket in made.compose(rows):
            assert bucket.ids.tolist() == [expected[row] for row in bucket.rows]
