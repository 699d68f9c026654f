"""Word lists, pattern files, languages: what is read, what a digest is of, errors with file, line and value."""

import re

import numpy as np
import polars as pl
import pytest
from italian import FILES as ITALIAN
from negengine.engine.basics.errors import InputError
from negengine.engine.text.agreement import Beginnings, Elision
from negengine.engine.text.bundled import PATTERNS, lexicon_path
from negengine.engine.text.language_check import Kind, Rules
from negengine.engine.text.lexicon import load_lexicon
from negengine.engine.text.pattern import (
    ACT_SLOTS,
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
def patterns_file(write):
    return lambda text: write(text, "patterns.toml")


def test_the_bundled_set_spells_the_sentences_of_the_paper():
    fillers = {"NAME": "Jessica", "PROF": "a dancer", "ACT": "smoke", "PRON": "she"}
    assert [(own.name, str(own.role), own.text(fillers, "[MASK]")) for own in load_patterns().all] == [
        ("CpTp", "selecting", "Jessica is a dancer who likes to smoke. She is happy to [MASK]."),
        ("CpTn", "forbidden", "Jessica is a dancer who likes to smoke. She isn't happy to [MASK]."),
        ("CnTp", "forbidden", "Jessica is a dancer who doesn't like to smoke. She is happy to [MASK]."),
        ("CnTn", "control", "Jessica is a dancer who doesn't like to smoke. She isn't happy to [MASK]."),
        ("CpTv", "control", "Jessica is a dancer who likes to smoke. She is very happy to [MASK]."),
    ]


def test_a_set_begins_with_its_selecting_pattern_and_its_digest_is_of_the_patterns_not_of_the_bytes(patterns_file):
    text = 'name = "mine"\n' + SECOND.replace("{ACT}", "{CITY}, {ACT2}") + SELECTING.removeprefix('name = "mine"\n')
    patterns = load_patterns(str(patterns_file(text)), slots=("NAME", "ACT", "CITY", "ACT2", "PRON", "MASK"))
    assert [pattern.name for pattern in patterns.all] == ["P", "N"]
    assert patterns.slots == ("NAME", "ACT", "PRON", "CITY", "ACT2")
    two = SELECTING + SECOND
    before = load_patterns(patterns_file(two))
    assert load_patterns(patterns_file(b"\xef\xbb\xbf" + two.encode())) == before
    assert load_patterns(patterns_file("# mine\n" + two.replace('"mine"', '"ours"'))).sha256 == before.sha256
    for old, new in (('"P"', '"Q"'), ("likes", "wants"), ("{PRON}", "{NAME}"), ('"control"', '"forbidden"')):
        assert load_patterns(patterns_file(two.replace(old, new))).sha256 != before.sha256


def test_a_set_is_a_file_or_the_name_of_a_bundled_one(tmp_path):
    assert load_patterns("gh22-connective").name == "GH22 connective"
    said = f"'gh22-conective': did you mean 'gh22-connective'? The bundled sets are {', '.join(PATTERNS)}; or give a"
    with pytest.raises(InputError, match=re.escape(said)):
        load_patterns("gh22-conective")
    with pytest.raises(InputError, match=re.escape(f"{tmp_path}/none.toml: cannot be read (No such file")):
        load_patterns(tmp_path / "none.toml")


HIDDEN = '"""\n[[pattern]]\nrole = "x"\n"""'  # lines that look like others, in a string
BAD_FILES = [
    (SELECTING.replace("{ACT}", "{VERB}"), "5: unknown slot 'VERB' in '{NAME} likes to {VERB}.'; known are NAME, PROF"),
    (SELECTING.replace("{MASK}", "{ACT}"), "2: P has 0 masks; it needs exactly one {MASK}"),
    (SELECTING.replace("{ACT}", "{ACT"), "5: stray brace in '{NAME} likes to {ACT.'"),
    (
        SELECTING.replace("{ACT}", "sing").replace("{NAME}", "Ann").replace("{PRON}", "She"),
        "2: the selecting pattern P has no slot: one sentence",
    ),
    (SELECTING.replace("selecting", "control"), "1: no selecting pattern"),
    (SELECTING + SECOND.replace("control", "selecting"), "9: N is a second selecting pattern beside P ({path}:4)"),
    (SELECTING + SECOND.replace('"N"', '"P"'), "8: the name 'P' is also in {path}:3"),
    (SELECTING + SECOND.replace("context", "# context"), "7: this [[pattern]] has no 'context'"),
    (SELECTING + "tarket = 'x'\n", "7: unknown key 'tarket'; known are name, role, context, target"),
    (SELECTING.removeprefix('name = "mine"'), "1: this file has no 'name'; it needs name"),
    ('name = "mine"\n', "1: no pattern; each is a table [[pattern]]"),
    (SELECTING.replace('"P"', "7"), "3: name is 7; it must be a string"),
    (SELECTING.replace("likes to {ACT}", "likes\\nto {ACT}"), "5: white space in '{NAME} likes\\nto {ACT}"),
    (SELECTING.replace('"P"', HIDDEN).replace("selecting", "select"), "7: unknown role 'select'; known are selecting,"),
    (SELECTING.replace('"selecting"', "selecting"), "4: not valid TOML: Invalid value"),
    (f"{SELECTING}x = {'[' * 2_000}", " not valid TOML: nested too deeply"),
]


def test_an_error_names_file_line_and_value_in_one_line(patterns_file):
    for text, message in BAD_FILES:
        path = patterns_file(text)
        with pytest.raises(InputError, match=f"^{path}:{re.escape(message.replace('{path}', str(path)))}[^\n]*$"):
            load_patterns(path)


SET, AGREEMENT, VERBS = "patterns.toml", "agreement.toml", "verbs.txt"
END = '{PRON} è molto {HAPPY} se può {MASK}."\n'
PUBLISHED = '[[published]]\nmodels = ["camembert-base", "org/camembert"]\ndrops = { CpTn = 12.5 }\ntriplets = 7\n'


@pytest.fixture
def language(tmp_path):
    """The Italian language, once a text in a file was replaced, or (`old` is empty) the whole file."""

    def language(file="", old="", new="", *lexicon):
        for name, text in ITALIAN.items():
            changed = text if name != file else text.replace(old, new) if old else new
            assert name != file or changed != text
            (tmp_path / name).write_text(changed, "utf-8")
        return load_language(tmp_path / SET, *lexicon)

    return language


def test_a_language_has_its_words_beside_the_pattern_file(language, tmp_path):
    found = language(VERBS, "ballare", "ballare = ballare, danzare").lexicon
    assert (found.pronouns, found.lists["OTHER"]) == ({"f": "lei", "m": "lui"}, ("leggere libri",))
    assert [found.accepted(verb) for verb in ("ballare", "andare")] == [("ballare", "danzare"), ("andare",)]
    assert found.forms["HAPPY"] == {"f": ("contenta",), "m": ("contento",)}
    (tmp_path / "verbs_gerund.txt").write_text("ballare = ballando\n")
    gerund = language(SET, 'lexicon = "."', 'lexicon = "."\nverbs = "verbs_gerund.txt"').lexicon
    assert (gerund.at_mask, gerund.mask_forms) == ({"ballare": ("ballando",)}, {"ballando"})
    other = language(SET, "leggere libri", "leggere").lexicon
    assert len({own.sha256 for own in (found, gerund, other)}) == 3
    # The rules of the words reach the patterns.
    words = {"NAME": "Paolo", "PROF": "un architetto", "OTHER": "leggere", "PRON": "lui", "HAPPY": "contento"}
    selecting = language(SET, "piace {ACT}", "piace di {ACT}").patterns.selecting
    for verb, said in {"andare": "piace d'andare o", "ballare": "piace di ballare o"}.items():
        assert said in selecting.text({**words, "ACT": verb}, "x")


def test_a_lexicon_that_is_given_is_taken_instead_and_has_none_of_the_slots(language, tmp_path):
    assert language(SET, "molto", "assai", "italian").folder == lexicon_path("italian")
    with pytest.raises(InputError, match="no lexicon is named 'italain': did you mean 'italian'"):
        language(SET, '"."', '"italain"')
    (tmp_path / "slot_OTHER.txt").write_text("leggere\n")
    with pytest.raises(InputError, match=r"patterns.toml:6: OTHER is also in .*slot_OTHER.txt"):
        language()


def test_published_figures_decide_nothing_and_those_of_bundled_sets_are_not_kept_in_runs(language):
    with_them, without = language(SET, END, END + PUBLISHED).patterns, language().patterns
    assert with_them.sha256 == without.sha256
    [column] = PatternSet.from_json(with_them.to_json()).published
    assert column == PublishedColumn(("camembert-base", "org/camembert"), {"CpTn": 12.5}, triplets=7)
    bundled = load_patterns()
    assert (len(bundled.published), set(bundled.to_json())) == (16, {"name", "patterns"})


BAD = [  # file, old text, new text, line, message
    (SET, 'lexicon = "."', 'lexicon = ""', 2, "lexicon is empty; give a text, or remove the line"),
    (SET, 'lexicon = "."', "lexicon = 3", 2, "lexicon is 3; it must be a string"),
    (SET, '["leggere libri"]', "[1]", 4, "slots: Expected `str`, got `int`"),
    (AGREEMENT, "", "capitals = 3", 1, "capitals is 3; it must be a table [capitals]"),
    (SET, 'lexicon = "."', 'verbs = "../verbs.txt"', 2, "verbs is '../verbs.txt'"),
    (SET, "HAPPY =", "happy =", 5, "'happy' cannot be the name"),
    (SET, '["leggere libri"]', '["Roma", "Roma"]', 6, "'Roma' is there twice"),
    (SET, ', male = "contento"', "", 5, "HAPPY must have a word for each of female, male"),
    (SET, END, END + "[[published]]\ndrops = {}\n", 25, "this [[published]] has no 'models'; it needs models"),
    (SET, END, END + PUBLISHED.replace("12.5", '"1"'), 27, "[[published]] drops: Expected `float`, got"),
    (SET, END, END + PUBLISHED.replace("CpTn", "No"), 27, "a drop of 'No', but the scored patterns are CpTn"),
    (VERBS, "ballare", "ballare = ", 2, "is not of the form"),
    (VERBS, "ballare", "ballare = x, x", 2, "has a form twice"),
    (VERBS, "ballare", "andare = x", 2, "'andare' is also in"),
    (AGREEMENT, "", "[[elision]]\nwords = { De = \"d'\" }\nbefore = ['a']\n", 2, "must be one word in lower case"),
    (AGREEMENT, "", "[[elision]]\nwords = { de = \"d'\" }\nbefore = 'a'\n", 3, "before is 'a'; it must be a list"),
    (AGREEMENT, "", "[[article]]\nform = 'un'\ngender = 'neuter'\n", 3, "pronouns.txt has no gender 'neuter'"),
    (AGREEMENT, "", "[[rules]]\nx = 1\n", 1, "unknown key 'rules'"),
]


def test_an_error_of_the_files_of_a_language(language, tmp_path):
    for file, old, new, line, message in BAD:
        with pytest.raises(InputError, match=f"^{tmp_path}/{file}:{line}.*{re.escape(message)}"):
            language(file, old, new)


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


def test_texts_over_columns_are_those_of_one_sentence_each():
    random, n = np.random.default_rng(1), 40
    rows = {slot: random.integers(len(words), size=n) for slot, words in TEXT_WORDS.items()}
    frame = pl.DataFrame({column(slot): [TEXT_WORDS[slot][i] for i in own] for slot, own in rows.items()})
    fillers = [{slot: TEXT_WORDS[slot][own[row]] for slot, own in rows.items()} for row in range(n)]
    for pattern in SENTENCES:
        texts = frame.select(sentence_texts(pattern, "[MASK]")).to_series().to_list()
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


def test_the_word_before_a_filler_takes_its_form_in_a_text_and_over_a_column():
    for rule, spelled in SPELLED:
        filler, word = spelled.replace("'", " ").split()[1], rule.word.title()
        pattern = Pattern("P", f"x {word} {{ACT}}. {word} {{ACT}}", f"{word} {{MASK}}", Role.SELECTING, (rule,))
        [written] = pl.DataFrame({"verb": [filler]}).select(sentence_texts(pattern, "[MASK]")).to_series()
        capital = spelled[0].upper() + spelled[1:]  # the word before the mask stays
        assert written == pattern.text({"ACT": filler}, "[MASK]") == f"x {capital}. {capital} {word} [MASK]"


def test_rules_that_apply_are_part_of_the_digest_and_kept_in_run_json():
    one = lambda *rules: PatternSet("own", Pattern("P", "{NAME} dort de {ACT}.", "{MASK}.", "selecting", rules), ())  # noqa: E731
    assert one(IL).sha256 == one().sha256 != one(DE).sha256  # there is no `il` in it
    again = PatternSet.from_json(one(IL, DE).to_json())
    assert again.sha256 == one(DE).sha256
    assert again.selecting.text({"NAME": "Anne", "ACT": "aimer"}, "x") == "Anne dort d'aimer. x."
    assert "elisions" not in one(IL).to_json()
    with pytest.raises(InputError, match="holds no pattern set"):
        PatternSet.from_json({"name": "own"})


@pytest.fixture
def folder(tmp_path):
    lists = {"names_female": "Anna\nMaria", "names_male": "John", "professions": "an architect\na dancer"}
    write_files(tmp_path, {f"{name}.txt": f"{text}\n" for name, text in {**lists, "verbs": "smoke\ndance"}.items()})
    return tmp_path


def write_files(folder, files):
    """Files by name; None removes one."""
    for name, text in files.items():
        if text is None:
            (folder / name).unlink()
        else:
            (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)


def test_the_bundled_lexicon_has_the_sizes_of_the_paper_and_the_digest_of_earlier_versions():
    lexicon = load_lexicon()
    assert (lexicon.genders.count("f"), lexicon.genders.count("m"), len(lexicon.professions)) == (100, 100, 91)
    assert (lexicon.n_pairs, len(lexicon.verbs)) == (18_200, 1480)
    assert lexicon.sha256 == "dbeb7e6b3e0cc9a8b835f4d8d2deb11a729ab33f504128819c8675e456c9f044"


def test_a_lexicon_is_its_entries_in_the_order_of_their_files(folder):
    before = load_lexicon(folder)
    assert list(zip(before.names, before.genders, strict=True)) == [("Anna", "f"), ("Maria", "f"), ("John", "m")]
    for text in (b"\xef\xbb\xbf# verbs\n\n  smoke \t\r\n   # more\ndance", b"smoke\r\n\r\ndance\r\n"):
        write_files(folder, {"verbs.txt": text})
        assert load_lexicon(folder) == before
    write_files(folder, {"professions.txt": "a C# developer\n"})
    assert load_lexicon(folder).professions == ("a C# developer",)


def test_the_digest_is_of_what_is_said_and_a_lexicon_may_have_slots_of_its_own(folder):
    before = load_lexicon(folder).sha256
    write_files(folder, {"articles.txt": "an\na\n", "pronouns.txt": "female = she\nmale = he\n"})
    assert load_lexicon(folder).sha256 == before  # as without these files
    for files in (
        {"verbs.txt": "dance\nsmoke\n"},
        {"names_female.txt": "Anna\n", "names_male.txt": "Maria\nJohn\n"},
        {"slot_CITY.txt": "Rome\nParis\n"},
        {"slot_OBJ.txt": "male = him\nfemale = her\n"},
    ):
        write_files(folder, files)
        assert load_lexicon(folder).sha256 != before
        before = load_lexicon(folder).sha256
    lexicon = load_lexicon(folder)
    assert lexicon.slots == ("NAME", "PROF", "ACT", "PRON", "CITY", "OBJ", "MASK")
    assert (lexicon.lists, lexicon.forms) == ({"CITY": ("Rome", "Paris")}, {"OBJ": {"f": ("her",), "m": ("him",)}})


def test_genders_are_those_of_the_pronouns(folder):
    write_files(folder, {"pronouns.txt": "female = sie\nmale = er\nneuter = es\n", "names_neuter.txt": "Gretchen\n"})
    assert load_lexicon(folder).genders == ("f", "f", "m", "n")
    assert load_lexicon(folder).pronouns == {"f": "sie", "m": "er", "n": "es"}
    # with the same initial they are written in full
    write_files(folder, {"pronouns.txt": "male = er\nmixed = sie\n", "names_mixed.txt": "Anna\n"})
    write_files(folder, dict.fromkeys(["names_neuter.txt", "names_female.txt"]))
    assert load_lexicon(folder).genders == ("male", "mixed")


BAD_LISTS = [
    ({"verbs.txt": None}, "verbs.txt: cannot be read (No such file or directory)"),
    ({"verbs.txt": "smoke\n\ndance\nsmoke\n"}, "verbs.txt:4: 'smoke' is also in {folder}/verbs.txt:1"),
    ({"names_male.txt": "John\nAnna\n"}, "names_male.txt:2: 'Anna' is also in {folder}/names_female.txt:1"),
    ({"professions.txt": "a dancer\narchitect\n"}, "professions.txt:2: 'architect' has no article; begin it with a or"),
    ({"verbs.txt": "smoke\ngive  up\n"}, "verbs.txt:2: two spaces in a row in 'give  up'"),
    ({"verbs.txt": "smoke # a habit\n"}, "verbs.txt:1: a comment after the entry in 'smoke # a habit'"),
    ({"verbs.txt": ""}, "verbs.txt:1: no entry in this file"),
    ({"pronouns.txt": "female: she\n"}, "pronouns.txt:1: 'female: she' is not of the form `GENDER = word`"),
    ({"pronouns.txt": "female = she\nfemale = her\n"}, "pronouns.txt:2: 'female' is there twice"),
    ({"names_neuter.txt": "Kim\n"}, "names_neuter.txt: pronouns.txt has no gender 'neuter', it has female, male"),
    ({"slot_city.txt": "Rome\n"}, "slot_city.txt: 'city' cannot be the name of another slot; use capitals"),
    ({"slot_OBJ.txt": "male = him\n"}, "slot_OBJ.txt: one line `GENDER = form` is needed for each of female, male"),
    ({"professions_female.txt": "a waitress\n"}, "professions.txt: give either this file, or professions_female.txt"),
    (
        {"professions.txt": None, "professions_female.txt": "a woman\n", "professions_male.txt": "a man\nan actor\n"},
        "professions_female.txt: 1 professions, but professions_male.txt has 2; add the form of 'an actor' ({folder}/",
    ),
]


@pytest.mark.parametrize(("files", "message"), BAD_LISTS)
def test_an_error_of_a_word_list_names_file_line_and_value(folder, files, message):
    write_files(folder, files)
    with pytest.raises(InputError, match=f"^{folder}/{re.escape(message.replace('{folder}', str(folder)))}[^\n]*$"):
        load_lexicon(folder)


def test_lists_that_make_more_pairs_than_memory_holds_are_refused(folder):
    lists = {"names_male": "N", "professions": "a p"}
    write_files(
        folder, {f"{name}.txt": "".join(f"{begin}{i}\n" for i in range(4_000)) for name, begin in lists.items()}
    )
    with pytest.raises(InputError, match="16,008,000 name–profession pairs; give lists that make at most 10,000,000"):
        load_lexicon(folder)


@pytest.fixture
def found(tmp_path, language):
    """The findings as `file:line: what`, once a text in a file was replaced."""

    def found(file="", old="", new="", kind=Kind.PROBLEM):
        findings = Rules(language(file, old, new)).findings()
        told = [f"{finding.where}: {finding.what}" for finding in findings if finding.kind is kind]
        return [said.removeprefix(f"{tmp_path}/") for said in told]

    assert found() == found(kind=Kind.NOTE) == []  # all is right at first
    return found


WOMEN = "professions_female.txt"
CPTN = '{OTHER}."\ntarget = "{PRON} non'
PROBLEMS = [
    (SET, "leggere libri", "ballare", ":6: ballare of {OTHER} are verbs of verbs.txt, too"),
    (SET, f"{{ACT}} o {CPTN}", CPTN, ":14: CpTn has no {ACT}"),
    (SET, "molto ", "", ":20: CpTv has the same sentence as CpTp"),
    ("names_female.txt", "Maria", "Marie\u0301", ":2: 'Marie\u0301' has accents as characters of their own"),
    (WOMEN, "una psicologa", "una psicologa d’acqua", ":2: the apostrophe is ’ here"),
]
NOTES = [
    ("{MASK}.", "{MASK} ora.", "patterns.toml:8: CpTp: the mask is not at the end; causal models need that"),
    ("{PRON} ", "", "patterns.toml: no pattern has {PRON}: --coreference takes pronoun only"),
    (" o {OTHER}", "", "patterns.toml:6: no pattern has {OTHER}"),
    ("forbidden", "control", "patterns.toml: no pattern is forbidden, so drops cannot be compared"),
]


def test_an_error_or_what_a_user_should_know_is_found_where_it_is(found):
    for *file, old, new, said in [*PROBLEMS, *NOTES]:
        kind = Kind.PROBLEM if file else Kind.NOTE
        assert [own for own in found(*(file or [SET]), old, new, kind) if own.startswith(f"{''.join(file)}{said}")]
