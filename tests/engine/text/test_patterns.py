import re

import pytest
from negengine.engine.errors import InputError
from negengine.engine.text.bundled import bundled_patterns
from negengine.engine.text.pattern import Pattern, Role
from negengine.engine.text.pattern_files import load_patterns

FILLERS = {"NAME": "Jessica", "PROF": "a dancer", "ACT": "smoke", "PRON": "she"}
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
    assert {pattern.name: pattern.text(FILLERS, "[MASK]") for pattern in load_patterns().all} == {
        "CpTp": "Jessica is a dancer who likes to smoke. She is happy to [MASK].",
        "CpTn": "Jessica is a dancer who likes to smoke. She isn't happy to [MASK].",
        "CnTp": "Jessica is a dancer who doesn't like to smoke. She is happy to [MASK].",
        "CnTn": "Jessica is a dancer who doesn't like to smoke. She isn't happy to [MASK].",
        "CpTv": "Jessica is a dancer who likes to smoke. She is very happy to [MASK].",
    }


def test_the_bundled_set_knows_what_each_pattern_is_for():
    roles = {pattern.name: str(pattern.role) for pattern in load_patterns().all}
    assert roles == {
        "CpTp": "selecting",
        "CpTn": "forbidden",
        "CnTp": "forbidden",
        "CnTn": "control",
        "CpTv": "control",
    }


def test_the_selecting_pattern_comes_first_wherever_it_stands(write):
    later = SELECTING.replace('"P"', '"N"').replace("selecting", "control")
    selecting = SELECTING.removeprefix('name = "mine"\n')
    patterns = load_patterns(write(later + selecting))
    assert [pattern.name for pattern in patterns.all] == ["P", "N"]


def test_slots_are_those_to_be_filled_in_order():
    assert load_patterns().selecting.slots == ("NAME", "PROF", "ACT", "PRON")


def test_a_slot_that_comes_twice_is_listed_once():
    pattern = Pattern("P", "{NAME} is {PROF}.", "{NAME} likes to {MASK}.")
    assert pattern.slots == ("NAME", "PROF")


def test_a_pronoun_within_the_sentence_stays_lower_case():
    pattern = Pattern("P", "{NAME} is {PROF} and {PRON} likes to {MASK}.")
    assert pattern.text(FILLERS, "<mask>") == "Jessica is a dancer and she likes to <mask>."


def test_a_filler_at_the_start_of_the_context_gets_a_capital():
    pattern = Pattern("P", "{PROF} is {NAME}.", "{PRON} likes to {MASK}.")
    assert pattern.text(FILLERS, "<mask>") == "A dancer is Jessica. She likes to <mask>."


def test_a_single_sentence_starts_but_once():
    assert Pattern("P", "", "a{NAME} likes to {MASK}.").text({"NAME": "nna"}, "<mask>") == "anna likes to <mask>."


def test_a_mask_at_the_start_is_left_as_it_is():
    assert Pattern("P", "{MASK} is {PROF}.").text(FILLERS, "mask") == "mask is a dancer."


def test_a_filler_may_look_like_a_slot():
    pattern = Pattern("P", "{NAME} likes to {MASK}.")
    assert pattern.text({"NAME": "{ACT}\\1"}, "[MASK]") == "{ACT}\\1 likes to [MASK]."


def test_a_set_may_bring_its_own_slots(write):
    path = write(SELECTING.replace("{ACT}", "{ACT1}, {ACT2}"))
    patterns = load_patterns(path, slots=("NAME", "ACT1", "ACT2", "PRON", "MASK"))
    assert patterns.selecting.slots == ("NAME", "ACT1", "ACT2", "PRON")


def test_the_digest_is_of_the_patterns_not_of_the_bytes(write):
    before = load_patterns(write(SELECTING)).sha256
    assert load_patterns(write("# mine\n" + SELECTING.replace('"mine"', '"ours"'))).sha256 == before


@pytest.mark.parametrize(("old", "new"), [('"P"', '"Q"'), ("likes", "wants"), ("{PRON}", "{NAME}")])
def test_another_pattern_has_another_digest(write, old, new):
    before = load_patterns(write(SELECTING)).sha256
    assert load_patterns(write(SELECTING.replace(old, new))).sha256 != before


def test_another_role_has_another_digest(write):
    two = SELECTING + SELECTING.removeprefix('name = "mine"\n').replace('"P"', '"N"').replace("selecting", "control")
    before = load_patterns(write(two)).sha256
    assert load_patterns(write(two.replace("control", "forbidden"))).sha256 != before


def test_a_byte_order_mark_does_not_count(write):
    assert load_patterns(write(b"\xef\xbb\xbf" + SELECTING.encode())) == load_patterns(write(SELECTING))


def test_a_pattern_may_have_no_slot_but_the_mask(write):
    text = SELECTING.replace("{NAME} likes to {ACT}.", "").replace("{PRON} likes", "People like")
    assert load_patterns(write(text)).selecting.slots == ()


def test_a_set_lists_the_slots_of_all_patterns(write):
    text = SELECTING.replace(" likes to {ACT}", "") + SECOND
    assert load_patterns(write(text)).slots == ("NAME", "PRON", "ACT")


@pytest.mark.parametrize("name", ["gh22", "gh22-connective", "self-contained-negation"])
def test_a_bundled_set_is_chosen_by_its_name(name):
    assert load_patterns(name).name.lower().replace(" ", "-") == name


def test_a_path_may_be_given_as_text(write):
    assert load_patterns(str(write(SELECTING))).name == "mine"


def test_a_name_that_is_not_bundled_is_refused_with_those_that_are():
    with pytest.raises(InputError) as caught:
        load_patterns("gh22-conective")
    assert str(caught.value) == (
        "no pattern set is named 'gh22-conective': did you mean 'gh22-connective'? The bundled sets are "
        f"{', '.join(bundled_patterns())}; or give a TOML file"
    )


def test_a_name_without_a_near_miss_is_refused():
    with pytest.raises(InputError, match=r"^no pattern set is named 'xyz': The bundled sets are french, "):
        load_patterns("xyz")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=re.escape(f"{tmp_path}/none.toml: cannot be read (No such file")):
        load_patterns(tmp_path / "none.toml")


BAD_FILES = {
    "unknown slot": (
        SELECTING.replace("{ACT}", "{VERB}"),
        "6: unknown slot 'VERB' in '{NAME} likes to {VERB}.'; known are NAME, PROF, ACT, PRON, MASK",
    ),
    "slot in lower case": (SELECTING.replace("{PRON}", "{pron}"), "7: unknown slot 'pron' "),
    "no mask": (SELECTING.replace("{MASK}", "{ACT}"), "3: P has 0 masks; it needs exactly one {MASK}"),
    "two masks": (SELECTING.replace("{ACT}", "{MASK}"), "3: P has 2 masks; it needs exactly one {MASK}"),
    "no target": (SELECTING.replace("target", "# target"), "3: P has 0 masks"),
    "opening brace": (SELECTING.replace("{ACT}", "{ACT"), "6: stray brace in '{NAME} likes to {ACT.'"),
    "closing brace": (SELECTING.replace("{MASK}.", "{MASK}}."), "7: stray brace in '{PRON} likes to {MASK}}.'"),
    "empty braces": (SELECTING.replace("{ACT}", "{}"), "6: stray brace"),
    "no selecting pattern": (SELECTING.replace("selecting", "control"), "1: no selecting pattern"),
    "two selecting patterns": (
        SELECTING + SECOND.replace("control", "selecting"),
        "11: N is a second selecting pattern beside P ({path}:5)",
    ),
    "name used twice": (SELECTING + SECOND.replace('"N"', '"P"'), "10: the name 'P' is also in {path}:4"),
    "unknown role": (SELECTING.replace("selecting", "select"), "5: unknown role 'select'; known are selecting, forbid"),
    "missing key in the second": (
        SELECTING + SECOND.replace("context", "# context"),
        "9: this [[pattern]] has no 'context'",
    ),
    "unknown key": (SELECTING + "tarket = 'x'\n", "8: unknown key 'tarket'; known are name, role, context, target"),
    "unknown key of the set": (
        "title = 'x'\n" + SELECTING,
        "1: unknown key 'title'; known are name, lexicon, verbs, [slots], [[pattern]] and [[published]]",
    ),
    "set without a name": (SELECTING.removeprefix('name = "mine"'), "1: the set needs a name"),
    "no pattern": ('name = "mine"\n', "1: no pattern; each is a table [[pattern]]"),
    "pattern that is no table": ('name = "mine"\npattern = ["x"]\n', "2: pattern must be tables [[pattern]]"),
    "value that is no string": (SELECTING.replace('"P"', "7"), "4: name is 7; it must be a string"),
    "line break": (
        SELECTING.replace("likes to {ACT}", "likes\\nto {ACT}"),
        "6: white space in '{NAME} likes\\nto {ACT}",
    ),
    "trailing space": (SELECTING.replace('{ACT}."', '{ACT}. "'), "6: white space in"),
    "look-alike lines in a string": (
        SELECTING + 'note = """\n[[pattern]]\nrole = "select"\n"""\n' + SECOND.replace("control", "select"),
        "8: unknown key 'note'",
    ),
    "error below look-alike lines": (
        SELECTING.replace('"P"', '"""\n[[pattern]]\nrole = "x"\n"""').replace("selecting", "select"),
        "8: unknown role 'select'",
    ),
    "character that is not printable": (
        SELECTING.replace("likes to {ACT}", "likes to\u200b{ACT}"),
        "6: the character U+200B in ",
    ),
    "NUL": (SELECTING.replace("likes to {ACT}", "likes to\0{ACT}"), "6: the character U+0000 in "),
    "invalid TOML": (SELECTING.replace('"selecting"', "selecting"), "5: not valid TOML: Invalid value"),
    "TOML that ends too early": ('name = "mine"\n[[pattern', "2: not valid TOML"),
    "byte that is no text": (b'name = "mine"\n# caf\xe9\n', "2: byte 0xe9 is not UTF-8"),
}


@pytest.mark.parametrize(("text", "message"), BAD_FILES.values(), ids=BAD_FILES)
def test_an_error_names_file_line_and_value_in_one_line(write, text, message):
    path = write(text)
    with pytest.raises(InputError) as caught:
        load_patterns(path)
    assert str(caught.value).startswith(f"{path}:{message.replace('{path}', str(path))}")
    assert "\n" not in str(caught.value)


def test_roles_are_the_words_of_the_files():
    assert [str(role) for role in Role] == ["selecting", "forbidden", "control"]
