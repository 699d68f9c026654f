"""What controls a terminal is shown, and everything else stays."""

import json

from negengine.engine.basics.printable import counted, json_safe, printable, printable_lines

UNSAFE = {
    "\x1b": r"\x1b", "\x07": r"\x07", "\x7f": r"\x7f", "\x9b": r"\x9b", "\r": r"\r",
    "\u202e": r"\u202e", "\u2066": r"\u2066", "\udc80": r"\udc80",
}  # fmt: skip


def test_what_a_terminal_obeys_is_shown_and_other_texts_stay():
    for character, shown in UNSAFE.items():
        assert printable(f"a{character}b") == printable_lines(f"a{character}b") == f"a{shown}b"
    for text in ["naïve ≈ − × °", "中文 עברית", "😀", "[/b] [red]", "Ġsmoke", r"a\nb"]:
        assert printable(text) == text
    assert (printable("a\n\tb"), printable_lines("a\n\tb")) == (r"a\n\tb", "a\n\tb")


def test_a_document_is_the_same_to_a_reader_of_json():
    value = {"token": "".join(UNSAFE) + "é"}
    document = json_safe(json.dumps(value, ensure_ascii=False, indent=2))
    assert json.loads(document) == value
    assert not any(character in document for character in UNSAFE)


def test_one_thing_is_not_several():
    assert [counted(n, "row") for n in (0, 1, 2_000)] == ["0 rows", "1 row", "2,000 rows"]
    assert [counted(n, "is", "are") for n in (0, 1)] == ["0 are", "1 is"]
