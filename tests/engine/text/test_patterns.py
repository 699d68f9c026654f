"""Pattern files and languages: what is read, and errors that name file, line and value."""

import re
import shutil

import numpy as np
import polars as pl
import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.gh22.gh22_patterns import ACT_SLOTS
from negengine.engine.text.agreement import Beginnings, Elision
from negengine.engine.text.bundled import PATTERNS, lexicon_path
from negengine.engine.text.pattern import (
    SLOTS,
    Pattern,
    PatternSet,
    PublishedColumn,
    Role,
    column,
    expected_verbs,
    sentence_texts,
)
from negengine.engine.text.pattern_files import load_language, load_patterns

SELECTING = """\
name = "mine"

[[pattern]]
name = "P"
role = "selecting"
context = "{NAME} likes to {ACT}."
target = "{PRON} likes to {MASK}."
"""
SECOND = SELECTING.removeprefix('name = "mine"\n').replace('"P"', '"N"').replace("selecting", "control")


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "patterns.toml"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write


def test_the_bundled_set_spells_the_sentences_of_the_paper():
    fillers = {"NAME": "Jessica", "PROF": "a dancer", "ACT": "smoke", "PRON": "she"}
    patterns = load_patterns()
    assert [(pattern.name, str(pattern.role), pattern.text(fillers, "[MASK]")) for pattern in patterns.all] == [
        ("CpTp", "selecting", "Jessica is a dancer who likes to smoke. She is happy to [MASK]."),
        ("CpTn", "forbidden", "Jessica is a dancer who likes to smoke. She isn't happy to [MASK]."),
        ("CnTp", "forbidden", "Jessica is a dancer who doesn't like to smoke. She is happy to [MASK]."),
        ("CnTn", "control", "Jessica is a dancer who doesn't like to smoke. She isn't happy to [MASK]."),
        ("CpTv", "control", "Jessica is a dancer who likes to smoke. She is very happy to [MASK]."),
    ]
    assert patterns.selecting.slots == ("NAME", "PROF", "ACT", "PRON")


def test_the_selecting_pattern_comes_first_and_a_set_lists_the_slots_of_all(write):
    text = 'name = "mine"\n' + SECOND.replace("{ACT}", "{CITY}, {ACT2}") + SELECTING.removeprefix('name = "mine"\n')
    patterns = load_patterns(str(write(text)), slots=("NAME", "ACT", "CITY", "ACT2", "PRON", "MASK"))
    assert [pattern.name for pattern in patterns.all] == ["P", "N"]
    assert patterns.slots == ("NAME", "ACT", "PRON", "CITY", "ACT2")


def test_the_digest_is_of_the_patterns_not_of_the_bytes(write):
    two = SELECTING + SECOND
    before = load_patterns(write(two))
    assert load_patterns(write(b"\xef\xbb\xbf" + two.encode())) == before
    assert load_patterns(write("# mine\n" + two.replace('"mine"', '"ours"'))).sha256 == before.sha256
    for old, new in (('"P"', '"Q"'), ("likes", "wants"), ("{PRON}", "{NAME}"), ('"control"', '"forbidden"')):
        assert load_patterns(write(two.replace(old, new))).sha256 != before.sha256


def test_a_set_is_a_file_or_the_name_of_a_bundled_one(tmp_path):
    assert load_patterns("gh22-connective").name == "GH22 connective"
    said = f"'gh22-conective': did you mean 'gh22-connective'? The bundled sets are {', '.join(PATTERNS)}; or give a"
    with pytest.raises(InputError, match=re.escape(said)):
        load_patterns("gh22-conective")
    with pytest.raises(InputError, match=re.escape(f"{tmp_path}/none.toml: cannot be read (No such file")):
        load_patterns(tmp_path / "none.toml")


HIDDEN = '"""\n[[pattern]]\nrole = "x"\n"""'  # lines that look like others, in a string
BAD_FILES = [
    (SELECTING.replace("{ACT}", "{VERB}"), "6: unknown slot 'VERB' in '{NAME} likes to {VERB}.'; known are NAME, PROF"),
    (SELECTING.replace("{MASK}", "{ACT}"), "3: P has 0 masks; it needs exactly one {MASK}"),
    (SELECTING.replace("{ACT}", "{ACT"), "6: stray brace in '{NAME} likes to {ACT.'"),
    (SELECTING.replace("selecting", "control"), "1: no selecting pattern"),
    (SELECTING + SECOND.replace("control", "selecting"), "11: N is a second selecting pattern beside P ({path}:5)"),
    (SELECTING + SECOND.replace('"N"', '"P"'), "10: the name 'P' is also in {path}:4"),
    (SELECTING + SECOND.replace("context", "# context"), "9: this [[pattern]] has no 'context'"),
    (SELECTING + "tarket = 'x'\n", "8: unknown key 'tarket'; known are name, role, context, target"),
    (SELECTING.removeprefix('name = "mine"'), "1: the set needs a name"),
    ('name = "mine"\n', "1: no pattern; each is a table [[pattern]]"),
    (SELECTING.replace('"P"', "7"), "4: name is 7; it must be a string"),
    (SELECTING.replace("likes to {ACT}", "likes\\nto {ACT}"), "6: white space in '{NAME} likes\\nto {ACT}"),
    (SELECTING.replace('"P"', HIDDEN).replace("selecting", "select"), "8: unknown role 'select'; known are selecting,"),
    (SELECTING.replace('"selecting"', "selecting"), "5: not valid TOML: Invalid value"),
    (f"{SELECTING}{'.'.join(['a'] * 5_000)} = 1", "8: more than 50 words with dots between them"),
    (f"{SELECTING}x = {'[' * 2_000}", " not valid TOML: nested too deeply"),
]


@pytest.mark.parametrize(("text", "message"), BAD_FILES, ids=range(len(BAD_FILES)))
def test_an_error_names_file_line_and_value_in_one_line(write, text, message):
    path = write(text)
    with pytest.raises(InputError, match=f"^{path}:{re.escape(message.replace('{path}', str(path)))}[^\n]*$"):
        load_patterns(path)


FILES = {
    "pronouns.txt": "female = elle\nmale = il\n",
    "articles.txt": "un\nune\n",
    "names_female.txt": "Anne\nMarie\n",
    "names_male.txt": "Paul\n",
    "professions_female.txt": "une actrice\n",
    "professions_male.txt": "un acteur\n",
    "verbs.txt": "dîner = dîner, diner\nfumer\n",
    "verbs_gerund.txt": "dîner = dînant, dinant\nfumer = fumant\n",
    "agreement.toml": '[[elision]]\nwords = { que = "qu\'" }\nbefore = ["a", "e", "i"]\n',
}
TOP = """\
name = "French"
lexicon = "words"

[slots]
HAPPY = { female = "heureuse", male = "heureux" }
CITY = ["Lyon", "Nantes"]
"""
PATTERN = """
[[pattern]]
name = "CpTp"
role = "selecting"
context = "{NAME} de {CITY} est {PROF} qui aime {ACT}."
target = "On dit que {PRON} est {HAPPY} de {MASK}."
"""
SCORED = PATTERN.replace("CpTp", "CnTp").replace("selecting", "forbidden").replace("aime", "n'aime pas")
PUBLISHED = '\n[[published]]\nmodels = ["camembert-base", "org/camembert"]\ndrops = { CnTp = 12.5 }\ntriplets = 7\n'


@pytest.fixture
def language(write, tmp_path):
    """The language of a pattern file and of the word lists beside it."""
    (tmp_path / "words").mkdir()
    for name, text in FILES.items():
        (tmp_path / "words" / name).write_text(text, "utf-8")
    return lambda text, *lexicon: load_language(write(text), *lexicon)


def test_a_language_has_its_words_beside_the_pattern_file(language, tmp_path):
    words = {"NAME": "Paul", "CITY": "Lyon", "PROF": "un acteur", "ACT": "fumer", "HAPPY": "heureux"}
    found = language(TOP + PATTERN)
    assert (found.folder, found.lexicon.pronouns) == (tmp_path / "words", {"f": "elle", "m": "il"})
    assert [found.lexicon.accepted(verb) for verb in ("dîner", "fumer")] == [("dîner", "diner"), ("fumer",)]
    # The rules of the words reach the patterns, and slots of the patterns' own are words of the lexicon.
    assert "dit qu'il est" in found.patterns.selecting.text({**words, "PRON": "il"}, "x")
    assert "dit que Paul est" in found.patterns.selecting.text({**words, "PRON": "Paul"}, "x")
    assert found.lexicon.forms["HAPPY"] == {"f": ("heureuse",), "m": ("heureux",)}
    assert found.lexicon.lists["CITY"] == ("Lyon", "Nantes")
    gerund = language('verbs = "verbs_gerund.txt"\n' + TOP + PATTERN).lexicon
    assert gerund.at_mask == {"dîner": ("dînant", "dinant"), "fumer": ("fumant",)}
    assert gerund.mask_forms == {"dînant", "dinant", "fumant"}
    other = language(TOP.replace("Nantes", "Brest") + PATTERN).lexicon
    assert len({found.lexicon.sha256, gerund.sha256, other.sha256}) == 3
    shutil.copytree(tmp_path / "words", tmp_path, dirs_exist_ok=True)
    assert language(TOP.replace('"words"', '"."') + PATTERN).folder == tmp_path


def test_a_lexicon_that_is_given_is_taken_instead_and_has_none_of_the_slots(language, tmp_path):
    text = TOP.replace("heureuse", "felice").replace("heureux", "felice") + PATTERN
    assert language(text, "italian").folder == lexicon_path("italian")
    with pytest.raises(InputError, match="no lexicon is named 'italain': did you mean 'italian'"):
        language(TOP.replace("words", "italain") + PATTERN)
    (tmp_path / "words" / "slot_CITY.txt").write_text("Lyon\n")
    with pytest.raises(InputError, match=r"patterns.toml:6: CITY is also in .*slot_CITY.txt"):
        language(TOP + PATTERN)


def test_published_figures_decide_nothing_and_those_of_bundled_sets_are_not_kept_in_runs(language):
    with_them, without = (language(TOP + PATTERN + SCORED + more).patterns for more in (PUBLISHED, ""))
    assert with_them.sha256 == without.sha256
    [column] = PatternSet.from_json(with_them.to_json()).published
    assert column == PublishedColumn(("camembert-base", "org/camembert"), {"CnTp": 12.5}, triplets=7)
    bundled = load_patterns()
    assert (len(bundled.published), set(bundled.to_json())) == (16, {"name", "patterns"})


SET, AGREEMENT, VERBS = "patterns.toml", "words/agreement.toml", "words/verbs.txt"
BAD = [  # file, text of the file or what stands below the name of the set, line, message
    (SET, 'lexicon = ""\n', 2, "lexicon is ''"),
    (SET, 'verbs = "../verbs.txt"\n', 2, "verbs is '../verbs.txt'"),
    (SET, '[slots]\ncity = ["Rome"]\n', 3, "'city' cannot be the name"),
    (SET, '[slots]\nCITY = ["Rome", "Rome"]\n', 3, "'Rome' is there twice"),
    (SET, '[slots]\nHAPPY = { female = "heureuse" }\n', 3, "HAPPY must have a word for each of female, male"),
    (SET, "[[published]]\ndrops = {}\n", 2, "this [[published]] has no 'models'; it needs models"),
    (SET, '[[published]]\nmodels = ["x"]\ndrops = { CnTp = "1" }\n', 4, "[[published]] drops: Expected `float`, got"),
    (SET, '[[published]]\nmodels = ["x"]\ndrops = { No = 1 }\n', 4, "a drop of 'No', but the scored patterns are CnTp"),
    (VERBS, "fumer\ndîner = \n", 2, "is not of the form"),
    (VERBS, "dîner = diner, diner\n", 1, "has a form twice"),
    (VERBS, "dîner = diner\ndîner\n", 2, "'dîner' is also in"),
    (AGREEMENT, "[[elision]]\nwords = { De = \"d'\" }\nbefore = ['a']\n", 2, "must be one word in lower case"),
    (AGREEMENT, "[[elision]]\nwords = { de = \"d'\" }\nbefore = 'a'\n", 3, "before: Expected `array`, got `str`"),
    (AGREEMENT, "[[article]]\nform = 'un'\ngender = 'neuter'\n", 3, "pronouns.txt has no gender 'neuter'"),
    (AGREEMENT, "[[endings]]\nfemale = 'a'\n", 1, "must have an ending for each of female, male"),
    (AGREEMENT, "[[rules]]\nx = 1\n", 1, "unknown key 'rules'"),
]


@pytest.mark.parametrize(("file", "text", "line", "message"), BAD, ids=range(len(BAD)))
def test_an_error_of_the_files_of_a_language(language, tmp_path, file, text, line, message):
    (tmp_path / file).write_text(text, "utf-8")
    plain = (PATTERN + SCORED).replace("de {CITY} ", "").replace("{HAPPY} ", "")
    with pytest.raises(InputError, match=f"^{tmp_path}/{file}:{line}.*{re.escape(message)}"):
        language(f'name = "French"\n{text}\n{plain}' if file == SET else TOP + PATTERN)


# ---------------------------------------------------------------- sentences
TEXT_WORDS = {
    "NAME": ["anna", "Maria", "élise"],
    "PROF": ["a dancer", "an architect"],
    "ACT": ["smoke", "dance", "laugh"],
    "ACT1": ["dance", "##ing"],
    "ACT2": ["$1", "smoke"],
    "PRON": ["she", "he", "ßa"],
}
ENGLISH = ["self-contained-negation", "gh22", "gh22-connective", "gh22-coordinated"]  # others: test_bundled_languages
SENTENCES = [pattern for name in ENGLISH for pattern in load_patterns(name, (*SLOTS, *ACT_SLOTS)).all]
ELIDED = Elision("to", (("t'", Beginnings(("d",))),))
SENTENCES += [Pattern("elided", "{NAME} likes to {ACT}.", "{PRON} likes to {MASK}.", Role.SELECTING, (ELIDED,))]
SENTENCES += [Pattern("first", "{MASK} is what {NAME} does."), Pattern("last", "{NAME}", "{MASK}")]


@pytest.mark.parametrize("pattern", SENTENCES, ids=lambda pattern: f"{pattern.name}: {pattern.sentence}"[:60])
def test_texts_over_columns_are_those_of_one_sentence_each(pattern):
    random, n = np.random.default_rng(1), 40
    rows = {slot: random.integers(len(words), size=n) for slot, words in TEXT_WORDS.items()}
    frame = pl.DataFrame({column(slot): [TEXT_WORDS[slot][i] for i in own] for slot, own in rows.items()})
    texts = frame.select(sentence_texts(pattern, "[MASK]")).to_series().to_list()
    fillers = [{slot: TEXT_WORDS[slot][own[row]] for slot, own in rows.items()} for row in range(n)]
    assert texts == [pattern.text(own, "[MASK]") for own in fillers]


def test_a_filler_and_an_expected_verb_have_a_capital_where_a_sentence_starts():
    words = {"NAME": "Jessica", "PROF": "a dancer", "ACT": "smoke", "PRON": "she", "ODD": "{ACT}\\1"}
    for context, target, text in (
        ("{PROF} is {NAME}.", "{PRON} likes to {MASK}.", "A dancer is Jessica. She likes to <mask>."),
        ("", "a {ACT} likes to {MASK}.", "a smoke likes to <mask>."),
        ("{NAME}, {NAME} likes {ODD} and {MASK}.", "", "Jessica, Jessica likes {ACT}\\1 and <mask>."),
    ):
        assert Pattern("P", context, target).text(words, "<mask>") == text
    frame = pl.DataFrame({"verb": ["smoke", "élever"]})
    for sentence, verbs in {"{MASK} is fun.": ["Smoke", "Élever"], "I {MASK}.": ["smoke", "élever"]}.items():
        assert frame.select(expected_verbs(Pattern("P", sentence))).to_series().to_list() == verbs


SILENT = Beginnings(("a", "e", "h", "huî"), ("hurl", "hu"))
DE = Elision("de", (("d'", SILENT),))
IL = Elision("il", (("lo", Beginnings(("st", "z"))), ("l'", Beginnings(("a", "o")))))
SPELLED = [(DE, text) for text in ("d'aimer", "de fumer", "d'habiter", "de hurler", "d'huîtres", "d'Aimer")]
SPELLED += [(IL, text) for text in ("lo studente", "l'amico", "il cane")]  # the first form that fits


@pytest.mark.parametrize(("rule", "spelled"), SPELLED)
def test_the_word_before_a_filler_takes_its_form_in_a_text_and_over_a_column(rule, spelled):
    filler, word = spelled.replace("'", " ").split()[1], rule.word.title()
    pattern = Pattern("P", f"x {word} {{ACT}}. {word} {{ACT}}", f"{word} {{MASK}}", Role.SELECTING, (rule,))
    [written] = pl.DataFrame({"verb": [filler]}).select(sentence_texts(pattern, "[MASK]")).to_series()
    capital = spelled[0].upper() + spelled[1:]  # the word before the mask stays
    assert written == pattern.text({"ACT": filler}, "[MASK]") == f"x {capital}. {capital} {word} [MASK]"


def test_rules_that_apply_are_part_of_the_digest_and_kept_in_run_json():
    def one(*rules):
        return PatternSet("own", Pattern("P", "{NAME} dort de {ACT}.", "{MASK}.", Role.SELECTING, rules), ())

    assert one(IL).sha256 == one().sha256 != one(DE).sha256  # there is no `il` in it
    again = PatternSet.from_json(one(IL, DE).to_json())
    assert again.sha256 == one(DE).sha256
    assert again.selecting.text({"NAME": "Anne", "ACT": "aimer"}, "x") == "Anne dort d'aimer. x."
    assert "elisions" not in one(IL).to_json()
    with pytest.raises(InputError, match="holds no pattern set"):
        PatternSet.from_json({"name": "own"})
