"""Lexicons: what is read, what their digest is of, and errors with file, line and value."""

import re
import shutil

import pytest
from italian import FILES
from negengine.engine.basics.errors import InputError
from negengine.engine.text.agreement_check import Kind, Rules
from negengine.engine.text.bundled import lexicon_path
from negengine.engine.text.lexicon import load_lexicon
from negengine.engine.text.pattern_files import load_language


@pytest.fixture
def folder(tmp_path):
    lists = {"names_female": "Anna\nMaria", "names_male": "John", "professions": "an architect\na dancer"}
    write(tmp_path, {f"{name}.txt": f"{text}\n" for name, text in {**lists, "verbs": "smoke\ndance"}.items()})
    return tmp_path


def write(folder, files):
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
        write(folder, {"verbs.txt": text})
        assert load_lexicon(folder) == before
    write(folder, {"professions.txt": "a C# developer\n"})
    assert load_lexicon(folder).professions == ("a C# developer",)


SAME = [{"articles.txt": "an\na\n"}, {"pronouns.txt": "female = she\nmale = he\n"}]  # as without these files
OTHER = [
    {"verbs.txt": "dance\nsmoke\n"},
    {"names_female.txt": "Anna\n", "names_male.txt": "Maria\nJohn\n"},
    {"slot_CITY.txt": "Rome\nParis\n"},
    {"slot_OBJ.txt": "male = him\nfemale = her\n"},
]


def test_the_digest_is_of_what_is_said_and_a_lexicon_may_have_slots_of_its_own(folder):
    before = load_lexicon(folder).sha256
    for files in (*SAME, *OTHER):
        write(folder, files)
        assert (load_lexicon(folder).sha256 == before) == (files in SAME)
        before = load_lexicon(folder).sha256
    lexicon = load_lexicon(folder)
    assert lexicon.slots == ("NAME", "PROF", "ACT", "PRON", "CITY", "OBJ", "MASK")
    assert (lexicon.lists, lexicon.forms) == ({"CITY": ("Rome", "Paris")}, {"OBJ": {"f": ("her",), "m": ("him",)}})


def test_genders_are_those_of_the_pronouns(folder):
    write(folder, {"pronouns.txt": "female = sie\nmale = er\nneuter = es\n", "names_neuter.txt": "Gretchen\n"})
    assert load_lexicon(folder).genders == ("f", "f", "m", "n")
    assert load_lexicon(folder).pronouns == {"f": "sie", "m": "er", "n": "es"}
    # with the same initial they are written in full
    write(folder, {"pronouns.txt": "male = er\nmixed = sie\n", "names_mixed.txt": "Anna\n"})
    write(folder, dict.fromkeys(["names_neuter.txt", "names_female.txt"]))
    assert load_lexicon(folder).genders == ("male", "mixed")


BAD = [
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


@pytest.mark.parametrize(("files", "message"), BAD)
def test_an_error_names_file_line_and_value_in_one_line(folder, files, message):
    write(folder, files)
    with pytest.raises(InputError, match=f"^{folder}/{re.escape(message.replace('{folder}', str(folder)))}[^\n]*$"):
        load_lexicon(folder)


# ---------------------------------------------------------------- agreement
@pytest.fixture
def found(tmp_path):
    """The findings as `file:line: what`, once a text in a file was replaced."""

    def found(file="", old="", new="", kind=Kind.PROBLEM):
        for name, text in FILES.items():
            changed = text.replace(old, new) if name == file else text
            assert name != file or changed != text
            (tmp_path / name).write_text(changed, "utf-8")
        findings = Rules(load_language(tmp_path / "patterns.toml")).findings()
        told = [f"{finding.where}: {finding.what}" for finding in findings if finding.kind is kind]
        return [said.removeprefix(f"{tmp_path}/") for said in told]

    assert found() == found(kind=Kind.NOTE) == []  # all is right at first
    return found


WOMEN, MEN, VERBS, SET = "professions_female.txt", "professions_male.txt", "verbs.txt", "patterns.toml"
CPTN = '{OTHER}."\ntarget = "{PRON} non'
PROBLEMS = [
    (WOMEN, "un'arch", "una arch", ":1: 'una architetta' has the wrong article; write \"un'architetta\""),
    (MEN, "uno psi", "un psi", ":2: 'un psicologo' has the wrong article; write 'uno psicologo'"),
    (WOMEN, "psicologa", "psicologe", ":2: 'una psicologe', 'uno psicologo' do not differ"),
    (SET, '"contento"', '"felice"', ":5: 'contenta', 'felice' do not differ by a rule"),
    (VERBS, "ballare", "balare\nballato", ":3: 'ballato' does not end in 'are', as [[verbs]] says"),
    (VERBS, "ballare", "a andare are", ":2: 'a andare' should be 'ad andare'"),
    (SET, "molto", "a aver", ":20: 'a aver' should be 'ad aver'"),
    (SET, "{NAME} è", "D'{NAME} è", ":8: \"d'\" before {NAME} does not suit Maria, Paolo; write 'di {NAME}'"),
    (SET, "leggere libri", "ballare", ":6: ballare of {OTHER} are verbs of verbs.txt, too"),
    (SET, f"{{ACT}} o {CPTN}", CPTN, ":14: CpTn has no {ACT}"),
    (SET, "molto ", "", ":20: CpTv has the same sentence as CpTp"),
    ("names_female.txt", "Maria", "Marie\u0301", ":2: 'Marie\u0301' has accents as characters of their own"),
    (WOMEN, "una psicologa", "una psicologa d’acqua", ":2: the apostrophe is ’ here"),
]


SET_NOTES = [
    ("se può {MASK}", "di {MASK}", "patterns.toml:8: 'di' stands before the mask, and is \"d'\" before 1 of 2 verbs"),
    ("se può {MASK}", "d'{MASK}", 'patterns.toml:8: "d\'" stands before the mask: 1 of 2 verbs cannot: ballare'),
    ("{MASK}.", "{MASK} ora.", "patterns.toml:8: CpTp: the mask is not at the end; causal models need that"),
    ("{PRON} ", "", "patterns.toml: no pattern has {PRON}: --coreference takes pronoun only"),
    (" o {OTHER}", "", "patterns.toml:6: no pattern has {OTHER}"),
    ("forbidden", "control", "patterns.toml: no pattern is forbidden, so drops cannot be compared"),
]


@pytest.mark.parametrize("case", [*PROBLEMS, *SET_NOTES], ids=range(len(PROBLEMS) + len(SET_NOTES)))
def test_an_error_or_what_a_user_should_know_is_found_where_it_is(found, case):
    *file, old, new, said = case
    kind = Kind.PROBLEM if file else Kind.NOTE
    assert [own for own in found(*(file or [SET]), old, new, kind) if own.startswith(f"{''.join(file)}{said}")]


def test_a_wrong_article_in_one_list_for_all_genders_is_told_once(tmp_path):
    folder = shutil.copytree(lexicon_path(), tmp_path / "words")
    (folder / "professions.txt").write_text("an actor\na architect\na university teacher\n")
    rules = '[[article]]\nform = "an"\nbefore = ["a", "u"]\nunless = ["uni"]\n[[article]]\nform = "a"\n'
    (folder / "agreement.toml").write_text(rules)
    [finding] = Rules(load_language(None, folder)).findings()
    assert finding.what == "'a architect' has the wrong article; write 'an architect'"
