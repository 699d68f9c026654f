"""Sentences as a speaker writes them: first letters, spaces between, articles, and what is found of them."""
# ruff: noqa: E501 - a sentence is read as a whole

import re
import shutil

import polars as pl
import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.diagnostics.contexts import complete
from negengine.engine.experiments.negation.reading import reading
from negengine.engine.text.agreement import title
from negengine.engine.text.bundled import PATTERNS
from negengine.engine.text.language_check import Kind, Rules
from negengine.engine.text.pattern import ACT_SLOTS, Pattern, PatternSet, sentence_texts
from negengine.engine.text.pattern_files import load_language, load_patterns

TURKISH, DUTCH = (("i", "İ"),), (("ij", "IJ"), ("'s ", "'s "))
LITHUANIAN = (("i\u0307", "I"),)
FIRST = [  # of the Unicode standard, chapters 4.2 and 5.18, and of the languages' own orthographies
    ("işçi", "Işçi", ()), ("işçi", "İşçi", TURKISH), ("ılık", "Ilık", TURKISH),
    ("ijs", "IJs", DUTCH), ("'s avonds", "'s Avonds", DUTCH), ("i\u0307\u0301 x", "I\u0301 x", LITHUANIAN),
    ("ßa", "Ssa", ()), ("ﬁnn", "Finn", ()), ("ǆep", "ǅep", ()), ("ანა", "ანა", ()), ("ᾳ", "ᾼ", ()), ("άννας", "Άννας", ()),
    ("élise", "Élise", ()), ("علي", "علي", ()), ("דנה", "דנה", ()), ("王芳", "王芳", ()), ("18th", "18th", ()),
    ("«anna»", "«Anna»", ()), ("ʻokina", "ʻOkina", ()), ("iPhone", "iPhone", ()), ("", "", ()),
]  # fmt: skip


def test_a_first_letter_is_unicodes_title_case_or_the_languages_own():
    for word, wanted, capitals in FIRST:
        assert title(word, capitals) == wanted
        pattern = Pattern("P", "{ACT} x.", "y {MASK}", capitals=capitals)
        [written] = pl.DataFrame({"verb": [word]}).select(sentence_texts(pattern, "m")).to_series()
        assert written == pattern.text({"ACT": word}, "m") == f"{wanted} x. y m"


STARTS = [  # what stands before a filler in lower case, and whether it begins a sentence
    ("{NAME} smokes. ", True), ("{NAME} smokes! ", True), ("Smokes {NAME}? ", True), ("¿", True), ("¡", True), ("“", True),
    ("{NAME} says: “", True), ("Il dit\u00a0: «\u00a0", True), ("({NAME} smokes.) ", True), ("“{NAME} smokes.” ", True),
    ("{NAME} smokes. — ", True), ("{NAME} smokes — ", False), ("{NAME} is a “", False), ("{NAME}, ¿", False),
    ("{NAME} smokes and ", False), ("{NAME} met Dr. ", False), ("{NAME} smokes, e.g. ", False), ("In 1990. ", True),
    ("Πού είναι η {NAME}; ", True), ("{NAME} smokes; ", False), ("{NAME} धूम्रपान करती है। ", True), ("{NAME} smokes… ", False),
]  # fmt: skip


def test_a_filler_has_a_capital_behind_each_full_stop_and_opening_mark():
    for before, capital in STARTS:
        pattern = Pattern("P", before + "{PRON} likes {MASK}")
        wanted = before.replace("{NAME}", "Anna") + ("She" if capital else "she") + " likes m"
        assert pattern.text({"NAME": "Anna", "PRON": "she"}, "m") == wanted
    goes_on = Pattern("P", "Because {NAME} smokes,", "{PRON} {MASK}")
    assert goes_on.text({"NAME": "A", "PRON": "she"}, "m").endswith("she m")


BETWEEN = [
    ("{NAME}是{PROF}。", ""), ("{NAME}は{PROF}です。", ""), ("{NAME}是{PROF}！”", ""), ("{NAME}是{PROF}", ""),
    ("{NAME}는 {PROF}이다.", " "), ("{NAME}เป็น{PROF}", " "), ("{NAME} is {PROF}.", " "), ("«{NAME} est là.»", " "),
]  # fmt: skip


def test_what_stands_between_two_sentences_is_that_of_the_script_or_a_key():
    for context, space in BETWEEN:
        pattern = Pattern("P", context, "x{MASK}")
        assert pattern.sentence == f"{context}{space}x{{MASK}}"
        given = Pattern("P", context, "x{MASK}", between=" ")
        assert given.sentence == f"{context} x{{MASK}}"
        set_ = PatternSet("own", given, ())
        assert PatternSet.from_json(set_.to_json()).selecting.sentence == given.sentence
        assert set_.sha256 != PatternSet("own", pattern, ()).sha256


LISTS = {"names_female": "Anna", "names_male": "John", "professions": "a dancer", "verbs": "smoke"}
SET = 'name = "own"\n[[pattern]]\nname = "P"\nrole = "selecting"\ncontext = "{}"\ntarget = "{{PRON}} {}"\n'


@pytest.fixture
def language(tmp_path):
    def language(context="{NAME} is {PROF} who likes to {ACT}.", target="likes to {MASK}.", between="", **files):
        shutil.rmtree(tmp_path, ignore_errors=True)
        tmp_path.mkdir()
        for name, text in {**LISTS, **files}.items():
            path = tmp_path / (name.replace("__", ".") if "__" in name else f"{name}.txt")
            path.write_text(f"{text}\n", "utf-8")
        (tmp_path / "patterns.toml").write_text(between + SET.format(context, target), "utf-8")
        return load_language(tmp_path / "patterns.toml", tmp_path)

    return language


def found(language, kind=Kind.NOTE, unlike="no pattern is"):
    return [one.what for one in Rules(language).findings() if one.kind is kind and unlike not in one.what]


def text(language, **words):
    pattern = language.patterns.selecting
    words = {"NAME": "Anna", "PROF": "a dancer", "ACT": "smoke", "PRON": "she", **words}
    return pattern.text(words, "m").removesuffix(" who likes to smoke. She likes to m.")


def test_own_words_follow_the_articles_of_the_bundled_ones_and_unknown_ones_stay(language):
    """All sentences read by a person: what letters do not tell is left and named, everything else is right."""
    own = ["actor", "dancer", "UN diplomat", "MP", "18-year-old", "élite runner", "university teacher", "hour counter",
           "Ukrainian", "Irish dancer", "X-ray technician", "urologist", "one-man band", "UX designer", "e-mail clerk"]  # fmt: skip
    files = {"professions": "\n".join(own), "articles": "# none"}
    made = language("{NAME} is a {PROF} who likes to {ACT}.", **files)
    an = {"actor", "hour counter", "Irish dancer", "X-ray technician", "e-mail clerk"}
    for word in own:
        assert text(made, PROF=word) == f"Anna is {'an' if word in an else 'a'} {word}"
    [said] = found(made)
    assert re.findall(r"'([^']+)'", said)[:2] == ["a", "UN diplomat"]
    assert "letters do not tell whether it should be 'an'" in said
    assert found(made, Kind.PROBLEM) == []
    # Spanish has the word "a", too, and none of its rules.
    spanish = language(
        "{NAME} va a {ACT}.", pronouns="female = ella\nmale = él", articles="un\nuna", professions="un actor"
    )
    assert spanish.patterns.selecting.text({"NAME": "Ana", "ACT": "abrir", "PRON": "ella"}, "m").startswith(
        "Ana va a abrir."
    )


def test_a_capital_that_a_language_may_write_otherwise_is_noted(language):
    files = {"pronouns": "female = o\nmale = o", "articles": "# none", "professions": "işçi\nkılıç"}
    [said] = found(language("{PROF} olan {NAME} {ACT}.", **files))
    assert (
        "işçi begins a sentence with 'I'; if it should be 'İ', write into agreement.toml: [capitals], i = 'İ'" in said
    )
    ruled = language("{PROF} olan {NAME} {ACT}.", **files, agreement__toml='[capitals]\ni = "İ"')
    assert found(ruled) == []
    words = {"PROF": "işçi", "NAME": "A", "ACT": "b", "PRON": "o"}
    assert ruled.patterns.selecting.text(words, "m").startswith("İşçi olan")
    again = PatternSet.from_json(ruled.patterns.to_json())
    assert (again.selecting.capitals, again.sha256) == (ruled.patterns.selecting.capitals, ruled.patterns.sha256)
    [said] = found(language("{PROF}: {NAME} kan {ACT}.", professions="ijsmaker", articles="# none"))
    assert "'IJ'" in said
    with pytest.raises(InputError, match=r"agreement.toml:1: capitals: Expected `str`, got `int`"):
        language(agreement__toml="[capitals]\ni = 1")
    with pytest.raises(InputError, match=r"patterns.toml:1: between is '-'; give"):
        language(between='between = "-"\n')


def test_other_pronouns_than_the_papers_have_no_verdict():
    row = {"drop": 90.0, "drop_low_two_way": 80.0, "drop_high_two_way": 95.0}
    control = {"drop": 1.0, "drop_low_two_way": 0.0, "drop_high_two_way": 2.0}
    rates = pl.DataFrame([{"pattern": name, **(row if name in {"CpTn", "CnTp"} else control)}
                          for name in ("CpTp", "CpTn", "CnTp", "CnTn", "CpTv")])  # fmt: skip
    assert reading(rates, load_patterns(), "pronoun", ["she", "he"]).startswith("Passes the test")
    said = reading(rates, load_patterns(), "pronoun", ["she", "they", "he"])
    assert said.startswith(
        "No verdict: the test (Kletz et al. 2023, section 3.5) is defined for the paper's pronouns, not for they."
    )


def test_every_bundled_word_is_right_by_the_check():
    for name in PATTERNS:
        assert found(load_language(name, slots=ACT_SLOTS), Kind.PROBLEM) == [], name


def test_articles_of_diagnostics_are_those_of_the_words():
    for words in ("an hour", "a university", "a robin", "an insect", "an heir", "a unicorn"):
        article, word = words.split()
        assert complete("This is (a|an)", word)[0] == f"This is {article} [MASK]."
    with pytest.raises(InputError, match=r"x.tsv:2: letters do not tell whether 'MRI' has a or an; write the article"):
        complete("This is (a|an)", "MRI", "x.tsv:2")
