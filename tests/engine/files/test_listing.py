"""A folder that cannot be listed is an error in one line; no file of it is silently missing."""

import os

import pytest
from negengine.engine.errors import InputError
from negengine.engine.files.listing import files_below, paths_in


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "below").mkdir()
    for name in ("b.txt", "a.txt", "c.TXT", "below/d.txt"):
        (tmp_path / name).touch()
    return tmp_path


@pytest.fixture
def unlistable(monkeypatch, folder):
    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "listdir", refuse)
    monkeypatch.setattr(os, "scandir", refuse)
    return folder


def test_entries_match_by_name_and_are_sorted(folder):
    assert [path.name for path in paths_in(folder, "*.txt")] == ["a.txt", "b.txt"]
    assert [path.name for path in files_below(folder, "*.txt")] == ["a.txt", "b.txt", "d.txt"]
    assert [path.name for path in paths_in(folder)] == ["a.txt", "b.txt", "below", "c.TXT"]


@pytest.mark.parametrize("name", ["missing", "a.txt"])
def test_what_is_not_a_folder_has_no_entries(folder, name):
    assert paths_in(folder / name) == files_below(folder / name) == []


@pytest.mark.parametrize("of", [paths_in, files_below])
def test_a_folder_that_cannot_be_listed_is_refused(unlistable, of):
    with pytest.raises(InputError, match="cannot be read \\(Permission denied\\)"):
        of(unlistable)
