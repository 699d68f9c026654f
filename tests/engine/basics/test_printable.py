import json

import pytest
from negengine.engine.basics.printable import counted, json_safe, printable, printable_lines

UNSAFE = {
    "\x1b": r"\x1b",
    "\x07": r"\x07",
    "\x7f": r"\x7f",
    "\x9b": r"\x9b",
    "\r": r"\r",
    "\u202e": r"\u202e",
    "\u2066": r"\u2066",
    "\udc80": r"\udc80",
}


@pytest.mark.parametrize(("character", "shown"), UNSAFE.items())
def test_what_a_terminal_obeys_is_shown(character, shown):
    assert printable(f"a{character}b") == printable_lines(f"a{character}b") == f"a{shown}b"


@pytest.mark.parametrize("text", ["naïve ≈ − × °", "中文 עברית", "😀", "[/b] [red]", "Ġsmoke", r"a\nb"])
def test_other_texts_stay_as_they_are(text):
    assert printable(text) == text


def test_one_line_stays_one_line():
    assert printable("a\n\tb") == r"a\n\tb"


def test_lines_stay_lines():
    assert printable_lines("a\n\tb") == "a\n\tb"


def test_a_document_is_the_same_to_a_reader_of_json():
    value = {"token": "".join(UNSAFE) + "é"}
    document = json_safe(json.dumps(value, ensure_ascii=False, indent=2))
    assert json.loads(document) == value
    assert not any(character in document for character in UNSAFE)


def test_one_thing_is_not_several():
    assert [counted(n, "row") for n in (0, 1, 2_000)] == ["0 rows", "1 row", "2,000 rows"]
    assert [counted(n, "part is", "parts are") for n in (1, 2)] == ["1 part is", "2 parts are"]
