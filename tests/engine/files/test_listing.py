"""A folder that cannot be listed is an error in one line; no file of it is silently missing."""

import os

import pytest
from negengine.engine.errors import InputError
from negengine.engine.files.reading import files_below, paths_in


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "below").mkdir()
    for name in ("b.txt", "a.txt", "c.TXT", "below/d.txt"):
        (tmp_path / name).touch()
    return tmp_path


@pytest.fixture
def failing_below(monkeypatch, folder):
    """A function that lets the folder's subfolder `below` fail with an error whenever it is listed."""
    whole = os.scandir

    def fail_with(error):
        def scandir(path):
            if os.fspath(path).endswith("below"):
                raise type(error)(*error.args, os.fspath(path))
            return whole(path)

        monkeypatch.setattr(os, "scandir", scandir)

    return fail_with


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


def test_a_folder_below_that_cannot_be_listed_is_named(folder, failing_below):
    failing_below(PermissionError(13, "Permission denied"))
    with pytest.raises(InputError) as caught:
        files_below(folder)
    assert str(caught.value) == f"{folder / 'below'}: cannot be read (Permission denied)"


def test_a_name_that_no_folder_can_have_is_one_line(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        paths_in(tmp_path / "a\0b")


def test_a_wrong_folder_with_very_many_files_is_refused(monkeypatch, tmp_path):
    def walk(folder, onerror):
        yield str(folder), ["below"], [f"{n}.txt" for n in range(50_000)]
        yield str(folder / "below"), [], [f"{n}.txt" for n in range(number)]

    monkeypatch.setattr(os, "walk", walk)
    number = 49_999
    assert len(files_below(tmp_path)) == 99_999
    number = 50_000
    with pytest.raises(InputError) as caught:
        files_below(tmp_path)
    text = f"{tmp_path}: more than 100,000 files in it; give the folder of the data alone"
    assert str(caught.value) == text


def test_a_walk_goes_on_where_a_folder_has_just_been_removed(folder, failing_below):
    failing_below(FileNotFoundError(2, "No such file or directory"))
    assert [path.name for path in files_below(folder)] == ["a.txt", "b.txt", "c.TXT"]
