"""JSON from elsewhere is bounded, and its strings are text."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from negengine.engine.errors import InputError
from negengine.engine.files.reading import DEEPEST, parse_json

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs", "Cc"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "[{"]), inner, max_size=3),
)


@given(values)
def test_any_value_that_is_not_too_deep_is_read(value):
    assert parse_json(json.dumps(value), "f:1") == value


def test_brackets_in_strings_have_no_depth():
    text = json.dumps({"a": "[" * 1_000 + '"' + "{" * 1_000})
    assert parse_json(text, "f:1") == json.loads(text)


def test_depth_is_bounded():
    assert parse_json("[" * DEEPEST + "]" * DEEPEST, "f:1")
    with pytest.raises(InputError, match=f"^f:1: lists or objects in more than {DEEPEST} levels"):
        parse_json("[" * (DEEPEST + 1) + "]" * (DEEPEST + 1), "f:1")


@pytest.mark.parametrize("text", ["", "{", "[1,]", "9" * 10_000, "nul"])
def test_what_is_not_json_is_one_line(text):
    with pytest.raises(InputError, match=r"^f:1: not JSON \("):
        parse_json(text, "f:1")


@pytest.mark.parametrize("text", [r'"\u0000"', r'["a", {"b": "\ud800"}]', r'{"\u001b": 1}'])
def test_escapes_do_not_bring_in_what_is_not_text(text):
    with pytest.raises(InputError, match=r"^f:1: the character U\+[0-9A-F]{4} in a string is not text"):
        parse_json(text, "f:1")


def test_what_lies_side_by_side_is_not_deep():
    flat = [[0], {"a": {}}] * (2 * DEEPEST)
    assert parse_json(json.dumps(flat), "here") == flat


def test_the_deepest_level_is_read_and_one_more_is_not():
    def nested(levels):
        return "[" * levels + "]" * levels

    parse_json(nested(DEEPEST), "here")
    with pytest.raises(InputError, match="here: lists or objects in more than 32 levels"):
        parse_json(nested(DEEPEST + 1), "here")


def test_lists_and_objects_are_levels_alike():
    def nested(pairs):
        return '[{"a":' * pairs + "1" + "}]" * pairs

    assert parse_json(nested(DEEPEST // 2), "f:1")
    with pytest.raises(InputError, match="lists or objects in more than"):
        parse_json(nested(DEEPEST // 2 + 1), "f:1")


def test_the_first_character_that_is_not_text_is_named():
    with pytest.raises(InputError) as caught:
        parse_json(r'["b", "a\u0007\u0008"]', "f:1")
    assert str(caught.value) == "f:1: the character U+0007 in a string is not text; remove it"
