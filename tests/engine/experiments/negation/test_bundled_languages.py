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
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

OURS = ["italian", "italian-null-subject", "italian-gerund", "french", "french-gerund"]
WORDINGS = ["likes", "connective", "coordinated"]
VOWELS = "aeiou"


@pytest.mark.parametrize("name", ["french", "italian"])
@pytest.mark.parametrize("verbs", ["verbs.txt", "verbs_gerund.txt"])
def test_a_language_has_as_many_names_and_professions_as_the_paper(name, verbs):
    lexicon = load_lexicon(lexicon_path(name), verbs)
    assert (lexicon.genders.count("f"), lexicon.genders.count("m"), len(lexicon.professions)) == (100, 100, 91)
    assert len(lexicon.verbs) > 300
    assert len({lexicon.accepted(verb) for verb in lexicon.verbs}) == len(lexicon.verbs)


@pytest.mark.parametrize("name", OURS)
def test_a_set_has_a_pattern_for_each_role_of_the_paper(name):
    patterns = {pattern.name: pattern for pattern in load_language(name).patterns.all}
    roles = {"CpTp": "selecting", "CpTn": "forbidden", "CnTp": "forbidden", "CnTn": "control", "CpTv": "control"}
    assert {name: str(pattern.role) for name, pattern in patterns.items()} == roles
    assert all(pattern.sentence.endswith("{MASK}.") for pattern in patterns.values())
    contexts = {name: (pattern.context, pattern.target) for name, pattern in patterns.items()}
    assert contexts["CnTn"] == (contexts["CnTp"][0], contexts["CpTn"][1])  # minimal pairs
    assert contexts["CpTp"] == (contexts["CpTn"][0], contexts["CnTp"][1])
    assert contexts["CpTv"][0] == contexts["CpTp"][0]


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


def italian_gerund(verb):
    irregular = {"bere": "bevendo", "comporre": "componendo", "sedurre": "seducendo"}
    return irregular.get(verb) or verb[:-3] + ("ando" if verb.endswith("are") else "endo")


def test_italian_gerunds_are_those_of_their_infinitives():
    infinitives = load_lexicon(lexicon_path("italian"))
    gerunds = load_lexicon(lexicon_path("italian"), "verbs_gerund.txt")
    assert gerunds.verbs == infinitives.verbs
    for verb in gerunds.verbs:
        assert gerunds.accepted(verb) == tuple(italian_gerund(form) for form in infinitives.accepted(verb))


def test_spellings_of_a_french_verb_differ_in_a_circumflex_only():
    lexicon = load_lexicon(lexicon_path("french"))
    assert lexicon.accepted("dîner") == ("dîner", "diner")
    for main, other in lexicon.at_mask.values():
        assert main.replace("î", "i").replace("û", "u") == other != main


WRITTEN = {
    "italian": (
        "Bianca è una psicologa a cui non piace andare. Lei è contenta di [MASK].",
        "Achille è uno psicologo a cui non piace andare. Lui è contento di [MASK].",
    ),
    "french": (
        "Adèle est une actrice qui n'aime pas aller. Elle est heureuse de pouvoir [MASK].",
        "Adrien est un acteur qui n'aime pas aller. Il est heureux de pouvoir [MASK].",
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_sentences_agree_with_the_person(name):
    """And the adjective with the other person, where the target is about one."""
    language = load_language(name)
    lexicon = language.lexicon
    [pattern] = (pattern for pattern in language.patterns.all if pattern.name == "CnTp")
    fillers = pair_fillers(lexicon, Coreference.PRONOUN, seed=0)
    verb = "andare" if name == "italian" else "aller"
    for written in WRITTEN[name]:
        who = lexicon.names.index(written.split()[0])
        noun = re.search(r"una? psicologa|uno psicologo|une? act\w+", written)[0]
        profession = lexicon.forms["PROF"][lexicon.genders[who]].index(noun)
        words = {slot: filler.word(who, profession) for slot, filler in fillers.items()}
        assert pattern.text({**words, VERB: verb}, "[MASK]") == written
    if name == "italian":
        others = pair_fillers(lexicon, Coreference.OTHER_GENDER, seed=0)
        assert {others["HAPPY"].word(i, 0) for i in range(100)} == {"contento"}  # of men, in women's sentences
        assert {others["PROF"].word(i, 0)[:3] for i in range(100)} == {"un'"}


# ---------------------------------------------------------------- with tokenizers of these languages


def vocabulary(language):
    """Words that a tokenizer may have as one token: every second verb and half of the others; and all letters."""
    lexicon, patterns = language.lexicon, language.patterns
    forms = [form for verb in lexicon.verbs[::2] for form in lexicon.accepted(verb)]
    professions = lexicon.forms.get("PROF", {"": lexicon.professions}).values()
    names = [word for words in (lexicon.names, *professions, *lexicon.lists.values()) for word in words]
    fixed = [piece for pattern in patterns.all for piece in pattern.pieces]
    words = re.findall(r"\w+", " ".join([*forms, *names[::2], *fixed, "lei lui elle il she he Lei Lui Elle Il She He"]))
    everything = " ".join([*lexicon.verbs, *lexicon.mask_forms, *names, *fixed, "LEI"])
    return list(dict.fromkeys(words)), sorted({*everything} - {" "})


def wordpiece(language):
    """As Italian BERT has it."""
    special, (words, letters) = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], vocabulary(language)
    pieces = dict.fromkeys([*special, *words, *letters, *(f"##{letter}" for letter in letters)])
    tokenizer = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(special)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return MaskTokenizer(tokenizer, "[MASK]")


def unigram(language):
    """As CamemBERT has it."""
    special, (words, letters) = ["<s>", "<pad>", "</s>", "<unk>"], vocabulary(language)
    pieces = [*((f"▁{word}", -4.0) for word in words), ("▁", -5.0), *((letter, -9.0) for letter in letters)]
    tokenizer = Tokenizer(
        models.Unigram([*((token, 0.0) for token in special), *pieces], unk_id=3, byte_fallback=False)
    )
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    tokenizer.add_special_tokens([*special, AddedToken("<mask>", lstrip=True)])
    return MaskTokenizer(tokenizer, "<mask>")


@pytest.mark.parametrize("name", [*OURS, *(f"self-contained-negation-{own}" for own in WORDINGS)])
@pytest.mark.parametrize("kind", [wordpiece, unigram], ids=["WordPiece", "Unigram"])
def test_sentences_are_composed_as_the_tokenizer_has_them(name, kind):
    language = load_language(name)
    if name not in OURS:  # the English words are tested with the paper's patterns
        lexicon = language.lexicon
        few = replace(
            lexicon, verbs=lexicon.verbs[:40], professions=lexicon.professions[:12], names=lexicon.names[90:110]
        )
        language = replace(language, lexicon=replace(few, genders=lexicon.genders[90:110]))
    lexicon, tokenizer = language.lexicon, kind(language)
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
        random = np.random.default_rng(1)
        rows = {slot: random.integers(len(own), size=50) for slot, own in words.items()}
        texts = [
            pattern.text({slot: words[slot][index[row]] for slot, index in rows.items()}, tokenizer.mask_token)
            for row in range(50)
        ]
        frame = pl.DataFrame({column(slot): [words[slot][i] for i in index] for slot, index in rows.items()})
        assert frame.select(sentence_texts(pattern, tokenizer.mask_token)).to_series().to_list() == texts
        expected = [ids.tolist() for ids in tokenizer.encode(texts)]
        for bucket in made.compose(rows):
            assert bucket.ids.tolist() == [expected[row] for row in bucket.rows]
        assert made.slotwise, made.reason
