"""A name that a document gives never leads out of its folder."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from negengine.engine.files.paths import is_file_name, is_model_name

OUTSIDE = [
    "", ".", "..", "...", "../x", "../../payload", "a/b/c", "/etc/passwd", "a\\b", "..\\x", "C:", "C:x", "C:\\x",
    "\\\\server\\share", "x\0", "x\n", "x:stream", "x ", "x.", "CON", "con.json", "Aux", "nul.txt", "COM1",
    "lpt9.parquet", "a" * 256, "é" * 128, "\ud800", "x*", "x?", "a|b",
]  # fmt: skip


@pytest.mark.parametrize("name", OUTSIDE, ids=ascii)
def test_what_leads_elsewhere_or_means_a_device_is_refused(name):
    assert not is_file_name(name)
    assert not is_model_name(name)


@pytest.mark.parametrize(
    "name", ["triplets.parquet", "summary-2.json", "Ergebnisse für GH22.parquet", ".verified.json", "a" * 255]
)
def test_ordinary_names_are_taken(name):
    assert is_file_name(name)


def test_a_model_has_a_name_or_an_owner_and_a_name():
    assert is_model_name("roberta-base")
    assert is_model_name("FacebookAI/roberta-base")
    assert not is_model_name("a/../b")
    assert not is_model_name("a//b")
    assert not is_model_name("/a")


@given(st.text())
def test_a_name_that_is_taken_stays_in_its_folder(name):
    from pathlib import Path, PureWindowsPath

    if is_file_name(name):
        assert (Path("folder") / name).parent == Path("folder")
        assert (PureWindowsPath("folder") / name).parent == PureWindowsPath("folder")
