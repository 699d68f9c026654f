"""Lexicons: what is read, what their digest is of, and errors with file, line and value."""

import re

import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.text.lexicon import load_lexicon


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


SAME = [
    {"articles.txt": "an\na\n"},  # those of a folder without the file
    {"pronouns.txt": "female = she\nmale = he\n"},
]
OTHER = [
    {"verbs.txt": "dance\nsmoke\n"},
    {"names_female.txt": "Anna\n", "names_male.txt": "Maria\nJohn\n"},
    {"slot_CITY.txt": "Rome\nParis\n"},
    {"slot_OBJ.txt": "male = him\nfemale = her\n"},
]


def test_the_digest_is_of_what_is_said(folder):
    before = load_lexicon(folder).sha256
    for files in (*SAME, *OTHER):
        write(folder, files)
        assert (load_lexicon(folder).sha256 == before) == (files in SAME)
        before = load_lexicon(folder).sha256


def test_genders_are_those_of_the_pronouns(folder):
    write(folder, {"pronouns.txt": "female = sie\nmale = er\nneuter = es\n", "names_neuter.txt": "Gretchen\n"})
    assert load_lexicon(folder).genders == ("f", "f", "m", "n")
    assert load_lexicon(folder).pronouns == {"f": "sie", "m": "er", "n": "es"}
    # with the same initial they are written in full
    write(folder, {"pronouns.txt": "male = er\nmixed = sie\n", "names_mixed.txt": "Anna\n"})
    write(folder, dict.fromkeys(["names_neuter.txt", "names_female.txt"]))
    assert load_lexicon(folder).genders == ("male", "mixed")


def test_professions_and_other_slots_may_differ_by_gender(folder):
    women, men = "a waitress\nan actress\n", "a waiter\nan actor\n"
    write(folder, {"professions.txt": None, "professions_female.txt": women, "professions_male.txt": men})
    write(folder, {"slot_CITY.txt": "Rome\nParis\n", "slot_OBJ.txt": "male = him\nfemale = her\n"})
    lexicon = load_lexicon(folder)
    assert lexicon.slots == ("NAME", "PROF", "ACT", "PRON", "CITY", "OBJ", "MASK")
    assert (lexicon.professions, lexicon.lists) == (("a waitress", "an actress"), {"CITY": ("Rome", "Paris")})
    assert lexicon.forms == {
        "PROF": {"f": ("a waitress", "an actress"), "m": ("a waiter", "an actor")},
        "OBJ": {"f": ("her",), "m": ("him",)},
    }


BAD = [
    ({"verbs.txt": None}, "verbs.txt: cannot be read (No such file or directory)"),
    ({"verbs.txt": "smoke\n\ndance\nsmoke\n"}, "verbs.txt:4: 'smoke' is also in {folder}/verbs.txt:1"),
    ({"names_male.txt": "John\nAnna\n"}, "names_male.txt:2: 'Anna' is also in {folder}/names_female.txt:1"),
    (
        {"professions.txt": "a dancer\narchitect\n"},
        "professions.txt:2: 'architect' has no article; begin it with a or an, or change articles.txt",
    ),
    ({"verbs.txt": "smoke\ngive  up\n"}, "verbs.txt:2: two spaces in a row in 'give  up'"),
    ({"verbs.txt": "smoke # a habit\n"}, "verbs.txt:1: a comment after the entry in 'smoke # a habit'"),
    ({"verbs.txt": ""}, "verbs.txt:1: no entry in this file"),
    ({"pronouns.txt": "female: she\n"}, "pronouns.txt:1: 'female: she' is not of the form `GENDER = word`"),
    ({"pronouns.txt": "female = she\nfemale = her\n"}, "pronouns.txt:2: 'female' is there twice"),
    ({"names_neuter.txt": "Kim\n"}, "names_neuter.txt: pronouns.txt has no gender 'neuter', it has female, male"),
    ({"slot_city.txt": "Rome\n"}, "slot_city.txt: 'city' cannot be the name of another slot; use capitals"),
    ({"slot_OBJ.txt": "male = him\n"}, "slot_OBJ.txt: one line `GENDER = form` is needed for each of female, male"),
    (
        {"professions_female.txt": "a waitress\n"},
        "professions.txt: give either this file, or professions_female.txt and professions_male.txt; not both",
    ),
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
