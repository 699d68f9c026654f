"""Files are whole or missing, and every error of the disk is one line. Kills are tested with run folders."""

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from negengine.engine.basics import atomic
from negengine.engine.basics.atomic import (
    json_bytes,
    make_folder,
    remove_file,
    remove_leftovers,
    unwritable,
    write_atomically,
    write_bytes,
)
from negengine.engine.basics.errors import InputError


@pytest.fixture
def flushed(monkeypatch) -> list[tuple[int, int]]:
    """Device and number of every file and folder that is flushed to the disk, in order."""
    found, fsync = [], os.fsync

    def watched(descriptor):
        status = os.fstat(descriptor)
        found.append((status.st_dev, status.st_ino))
        fsync(descriptor)

    monkeypatch.setattr(atomic.os, "fsync", watched)
    return found


def identity(path: Path) -> tuple[int, int]:
    return path.stat().st_dev, path.stat().st_ino


def test_a_file_and_then_its_folder_are_flushed(tmp_path, flushed):
    write_bytes(tmp_path / "x", b"content")
    assert (tmp_path / "x").read_bytes() == b"content"
    assert flushed == [identity(tmp_path / "x"), identity(tmp_path)]


def test_the_folders_of_new_folders_are_flushed(tmp_path, flushed):
    make_folder(tmp_path / "a" / "b")
    assert set(flushed) == {identity(tmp_path / "a"), identity(tmp_path)}
    flushed.clear()
    make_folder(tmp_path / "a" / "b")
    assert flushed == []


def test_only_the_folder_that_exists_is_needed(tmp_path):
    write_atomically(tmp_path / "x", lambda path: path.write_bytes(path.name.encode()))
    assert (tmp_path / "x").read_bytes().startswith(b".x.")
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_a_folder_that_no_disk_can_have_is_one_line(tmp_path):
    with pytest.raises(InputError, match=r"cannot be written \(File name too long\)"):
        make_folder(tmp_path / ("x" * 300))


@pytest.mark.parametrize("name", ["file", "file/below"])
def test_a_file_in_place_of_a_folder_is_refused(tmp_path, name):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="not a folder; choose another --output"):
        make_folder(tmp_path / name)


def test_only_temporary_files_are_removed(tmp_path):
    for name in (".x.1f2e3d4c.negengine-tmp", "x.negengine-tmp.kept", "kept"):
        (tmp_path / name).touch()
    remove_leftovers(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept", "x.negengine-tmp.kept"]


def test_a_folder_that_cannot_be_listed_is_one_line(tmp_path):
    with pytest.raises(InputError, match=r"gone: cannot be written \(No such file or directory\)"):
        remove_leftovers(tmp_path / "gone")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_tells_what_is_free(tmp_path, number):
    text = str(unwritable(tmp_path / "x", OSError(number, os.strerror(number))))
    assert text.startswith(f"{tmp_path}: no space left to write x (")
    assert "(0.0 MB free" not in text


def test_a_full_disk_whose_folder_is_gone_is_still_one_line(tmp_path):
    text = str(unwritable(tmp_path / "gone" / "x", OSError(errno.ENOSPC, "No space left on device")))
    assert "no space left to write x (0.0 MB free); free some space, then run the same command again" in text


def test_an_error_without_words_of_the_system(tmp_path):
    assert str(unwritable(tmp_path / "x", OSError("odd"))) == f"{tmp_path}/x: cannot be written (odd)"


def test_the_free_space_is_told_in_megabytes(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic.shutil, "disk_usage", lambda path: SimpleNamespace(free=123_456_789_012))
    text = str(unwritable(tmp_path / "x", OSError(errno.ENOSPC, "No space left on device")))
    assert text == (
        f"{tmp_path}: no space left to write x (123,456.8 MB free); free some space, then run the same command again: "
        "it continues with what is not finished"
    )


def test_json_is_for_people():
    assert json_bytes({"verb": "lächeln", "n": [1]}) == '{\n  "verb": "lächeln",\n  "n": [\n    1\n  ]\n}\n'.encode()


def test_a_temporary_file_that_is_gone_already_is_no_error(tmp_path, monkeypatch):
    """Somebody else has removed it after the folder was listed."""
    monkeypatch.setattr(Path, "iterdir", lambda path: iter([path / ".x.1f2e.negengine-tmp"]))
    remove_leftovers(tmp_path)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are counted in /proc")
def test_no_file_stays_open(tmp_path):
    before = len(list(Path("/proc/self/fd").iterdir()))
    make_folder(tmp_path / "a" / "b")
    write_bytes(tmp_path / "a" / "b" / "x", b"content")
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_file_is_removed_for_good_and_one_that_is_not_there_is_no_error(tmp_path, flushed):
    write_bytes(tmp_path / "x", b"content")
    flushed.clear()
    remove_file(tmp_path / "x")
    remove_file(tmp_path / "x")
    assert flushed == [identity(tmp_path)]
    assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_removed_is_one_line(tmp_path):
    (tmp_path / "x").mkdir()
    with pytest.raises(InputError, match=r"x: cannot be written \("):
        remove_file(tmp_path / "x")
