"""A pattern file that brings its words along: its lexicon, its own slots, its verbs, its published figures."""

import shutil

import pytest
from negengine.engine.errors import InputError
from negengine.engine.text.bundled import lexicon_path
from negengine.engine.text.pattern import PatternSet
from negengine.engine.text.pattern_files import load_language

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
def write(tmp_path):
    (tmp_path / "words").mkdir()
    for name, text in FILES.items():
        (tmp_path / "words" / name).write_text(text, "utf-8")

    def write(text):
        (tmp_path / "french.toml").write_text(text, "utf-8")
        return tmp_path / "french.toml"

    return write


def test_the_words_are_in_a_folder_beside_the_pattern_file(write, tmp_path):
    language = load_language(write(TOP + PATTERN))
    assert language.folder == tmp_path / "words"
    assert language.lexicon.pronouns == {"f": "elle", "m": "il"}
    assert language.lexicon.accepted("dîner") == ("dîner", "diner")
    assert language.lexicon.accepted("fumer") == ("fumer",)


def test_the_rules_of_the_words_reach_the_patterns(write):
    pattern = load_language(write(TOP + PATTERN)).patterns.selecting
    words = {"NAME": "Paul", "CITY": "Lyon", "PROF": "un acteur", "ACT": "fumer", "HAPPY": "heureux"}
    assert "dit qu'il est" in pattern.text({**words, "PRON": "il"}, "x")
    assert "dit que Paul est" in pattern.text({**words, "PRON": "Paul"}, "x")


def test_slots_of_the_patterns_own_are_words_of_the_lexicon(write):
    lexicon = load_language(write(TOP + PATTERN)).lexicon
    assert lexicon.forms["HAPPY"] == {"f": ("heureuse",), "m": ("heureux",)}
    assert lexicon.lists["CITY"] == ("Lyon", "Nantes")
    assert lexicon.sha256 != load_language(write(TOP.replace("Nantes", "Brest") + PATTERN)).lexicon.sha256


def test_the_patterns_choose_the_file_of_verbs(write):
    lexicon = load_language(write('verbs = "verbs_gerund.txt"\n' + TOP + PATTERN)).lexicon
    assert lexicon.at_mask == {"dîner": ("dînant", "dinant"), "fumer": ("fumant",)}
    assert lexicon.mask_forms == {"dînant", "dinant", "fumant"}
    assert lexicon.sha256 != load_language(write(TOP + PATTERN)).lexicon.sha256


def test_a_lexicon_that_is_given_is_taken_instead(write):
    text = TOP.replace("heureuse", "felice").replace("heureux", "felice") + PATTERN
    assert load_language(write(text), "italian").folder == lexicon_path("italian")


def test_published_figures_are_kept_with_the_patterns_but_decide_nothing(write):
    with_them, without = (load_language(write(TOP + PATTERN + SCORED + more)).patterns for more in (PUBLISHED, ""))
    assert with_them.sha256 == without.sha256
    [column] = PatternSet.from_json(with_them.to_json()).published
    assert (column.models, dict(column.drops), column.triplets) == (
        ("camembert-base", "org/camembert"),
        {"CnTp": 12.5},
        7,
    )
    assert str(column.coreference) == "pronoun"


def test_the_figures_of_bundled_sets_are_not_kept_in_runs():
    patterns = load_language().patterns
    assert len(patterns.published) == 16
    assert set(patterns.to_json()) == {"name", "patterns"}


BAD = [
    ('lexicon = ""\n', 2, "lexicon is ''"),
    ("lexicon = 3\n", 2, "lexicon is 3"),
    ('verbs = "../verbs.txt"\n', 2, "verbs is '../verbs.txt'"),
    ("[slots]\nCITY = []\n", 3, "CITY must be a list of words"),
    ('[slots]\nCITY = "Rome"\n', 3, "CITY must be a list of words"),
    ('[slots]\ncity = ["Rome"]\n', 3, "'city' cannot be the name"),
    ('[slots]\nNAME = ["Rome"]\n', 3, "'NAME' cannot be the name"),
    ('[slots]\nCITY = ["Rome", "Rome"]\n', 3, "'Rome' is there twice"),
    ('[slots]\nCITY = ["Ro\\u0000me"]\n', 3, "the character U+0000"),
    ('[slots]\nCITY = [" "]\n', 3, "an empty word"),
    ('[slots]\nHAPPY = { female = "heureuse" }\n', 3, "HAPPY must have a word for each of female, male"),
    ("slots = 3\n", 2, "slots must be a table"),
    ("[[published]]\ndrops = {}\n", 2, "this [[published]] has no 'models'; it needs models"),
    ('[[published]]\nmodels = ["x"]\nfrom = "1"\n', 4, "unknown key 'from'; known are models, drops"),
    ('[[published]]\nmodels = ["x"]\ndrops = { CnTp = "1" }\n', 4, "[[published]] drops: Expected `float`, got `str`"),
    ('[[published]]\nmodels = ["x"]\ndrops = { CnTp = 101 }\n', 4, "[[published]] drops: Expected `float` <= 100"),
    ('[[published]]\nmodels = ["x"]\ndrops = { CnTp = nan }\n', 4, "[[published]] drops"),
    (
        '[[published]]\nmodels = ["x"]\ndrops = { Other = 1 }\n',
        4,
        "a drop of 'Other', but the scored patterns are CnTp",
    ),
    ('[[published]]\nmodels = ["x"]\ncoreference = "x"\n', 4, "unknown coreference 'x'; known are pronoun, same-name"),
]


@pytest.mark.parametrize(("text", "line", "message"), BAD, ids=[f"{line}: {said[:40]}" for _, line, said in BAD])
def test_an_error_names_file_line_and_value(write, text, line, message):
    head = 'name = "French"\n'
    path = write(head + text + "\n" + (PATTERN + SCORED).replace("de {CITY} ", "").replace("{HAPPY} ", ""))
    with pytest.raises(InputError) as caught:
        load_language(path)
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert message in str(caught.value)


def test_a_slot_that_the_lexicon_has_too_is_refused(write, tmp_path):
    (tmp_path / "words" / "slot_CITY.txt").write_text("Lyon\n")
    with pytest.raises(InputError, match=r"french.toml:6: CITY is also in .*slot_CITY.txt"):
        load_language(write(TOP + PATTERN))


def test_a_lexicon_that_is_not_there_is_named(write):
    with pytest.raises(InputError, match="no lexicon is named 'italain': did you mean 'italian'"):
        load_language(write(TOP.replace("words", "italain") + PATTERN))


BAD_VERBS = [
    ("dîner = \n", "is not of the form"),
    ("= dîner\n", "is not of the form"),
    ("dîner = dîner,\n", "is not of the form"),
    ("dîner = a = b\n", "is not of the form"),
    ("dîner = diner, diner\n", "has a form twice"),
    ("dîner = diner\ndîner\n", "'dîner' is also in"),
]


@pytest.mark.parametrize(("text", "message"), BAD_VERBS)
def test_a_line_of_verbs_that_is_wrong_is_named(write, tmp_path, text, message):
    (tmp_path / "words" / "verbs.txt").write_text("fumer\n" + text, "utf-8")
    with pytest.raises(InputError) as caught:
        load_language(write(TOP + PATTERN))
    line = 1 + len(text.splitlines())
    assert str(caught.value).startswith(f"{tmp_path / 'words' / 'verbs.txt'}:{line}: ")
    assert message in str(caught.value)


BAD_RULES = [
    ("[[elision]]\nbefore = ['a']\n", 1, "this [[elision]] has no 'words'; it needs words, before"),
    ('[[elision]]\nwords = { de = "d\'" }\n', 1, "this [[elision]] has no 'before'"),
    ("[[elision]]\nwords = { De = \"d'\" }\nbefore = ['a']\n", 2, "must be one word in lower case"),
    ("[[elision]]\nwords = { 'de la' = \"d'\" }\nbefore = ['a']\n", 2, "must be one word in lower case"),
    ("[[elision]]\nwords = { de = \"d'\" }\nbefore = 'a'\n", 3, "before: Expected `array`, got `str`"),
    ("[[article]]\nform = 'un'\ngender = 'neuter'\n", 3, "pronouns.txt has no gender 'neuter'"),
    ("[[article]]\nfrom = 'un'\n", 2, "unknown key 'from'; known are form, gender"),
    ("[[endings]]\nfemale = 'a'\n", 1, "[[endings]] must have an ending for each of female, male"),
    ("[[verbs]]\ncontext = []\n", 2, "[[verbs]] context"),
    ("[[rules]]\nx = 1\n", 1, "unknown key 'rules'"),
    ("elision = 3\n", 1, "elision must be tables [[elision]]"),
    ("[[elision]\n", 1, "not valid TOML"),
]


@pytest.mark.parametrize(("text", "line", "message"), BAD_RULES)
def test_a_rule_that_is_wrong_is_named(write, tmp_path, text, line, message):
    (tmp_path / "words" / "agreement.toml").write_text(text, "utf-8")
    with pytest.raises(InputError) as caught:
        load_language(write(TOP + PATTERN))
    assert str(caught.value).startswith(f"{tmp_path / 'words' / 'agreement.toml'}:{line}: ")
    assert message in str(caught.value)


def test_a_folder_may_hold_patterns_and_words_together(write, tmp_path):
    path = write(TOP.replace('"words"', '"."') + PATTERN)
    for file in (tmp_path / "words").iterdir():
        shutil.copy(file, tmp_path)
    assert load_language(path).folder == tmp_path
