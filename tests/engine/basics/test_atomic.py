"""Files are whole or missing, and every error of the disk is one line. Kills are tested with run folders."""

import errno
import os
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from negengine.engine.basics import atomic
from negengine.engine.basics.atomic import (
    make_folder,
    make_place,
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


def test_a_file_and_then_its_folder_are_flushed_and_what_is_removed_stays_so(tmp_path, flushed):
    write_bytes(tmp_path / "x", b"content")
    assert (tmp_path / "x").read_bytes() == b"content"
    assert flushed == [identity(tmp_path / "x"), identity(tmp_path)]
    flushed.clear()
    for _ in range(2):  # one that is not there is no error
        remove_file(tmp_path / "x")
    assert flushed == [identity(tmp_path)]
    assert not list(tmp_path.iterdir())


def test_the_folders_of_new_folders_are_flushed_and_one_that_a_library_wrote_with_its_files(tmp_path, flushed):
    for _ in range(2):
        make_folder(tmp_path / "a" / "b")
        assert set(flushed) <= {identity(tmp_path / "a"), identity(tmp_path)}
        assert len(flushed) == 2
    (tmp_path / "file").touch()
    flushed.clear()
    atomic.flush_folder(tmp_path)
    assert flushed == [identity(tmp_path / "file"), identity(tmp_path)]


def test_only_the_folder_that_exists_is_needed_and_temporary_files_alone_are_removed(tmp_path, monkeypatch):
    write_atomically(tmp_path / "x", lambda path: path.write_bytes(path.name.encode()))
    assert (tmp_path / "x").read_bytes().startswith(b".x.")
    for name in (".x.1f2e3d4c.negengine-tmp", "x.negengine-tmp.kept"):
        (tmp_path / name).touch()
    remove_leftovers(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x", "x.negengine-tmp.kept"]
    left = [".a.csv.1f2e3d4c.negengine-tmp", ".a.csv.csv.1f2e3d4c.negengine-tmp", ".b.csv.1f2e3d4c.negengine-tmp"]
    for name in left:
        (tmp_path / name).touch()
    make_place(tmp_path / "a.csv")  # what a killed call left of this file
    assert sorted(path.name for path in tmp_path.iterdir())[:2] == left[1:]
    # somebody else has removed it after the folder was listed
    monkeypatch.setattr(Path, "iterdir", lambda path: iter([path / ".x.1f2e.negengine-tmp"]))
    remove_leftovers(tmp_path)


def test_a_folder_that_cannot_be_made_leaves_none_of_its_parents_and_takes_none_away(tmp_path, monkeypatch):
    (tmp_path / "own").mkdir()
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path / "own")
    for name in ("../new/../own/../file/below", "../new/below/../../own/../../" + "x" * 300, "new/" + "x" * 300):
        with pytest.raises(InputError, match=r"not a folder|File name too long"):
            make_folder(Path(name))
        assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "own"]
        assert not list(Path().iterdir())
    make_folder(Path("../new/../other"))
    assert (tmp_path / "other").is_dir()


def test_what_the_disk_refuses_is_one_line(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    for do, name, reason in [
        (make_folder, "x" * 300, r"cannot be written \(File name too long\)"),
        (make_folder, "file", "file: not a folder; choose another --output"),
        (make_folder, "file/below", "below: not a folder; choose another --output"),
        (remove_leftovers, "gone", r"gone: cannot be written \(No such file or directory\)"),
        (remove_file, "folder", r"folder: cannot be written \("),
    ]:
        with pytest.raises(InputError, match=reason):
            do(tmp_path / name)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_tells_what_is_free_and_what_to_do(tmp_path, monkeypatch, number):
    assert "no space left to write x (0.0 MB free); free some" in str(unwritable(Path("/gone/x"), OSError(number, "")))
    monkeypatch.setattr(atomic.shutil, "disk_usage", lambda path: SimpleNamespace(free=123_456_789_012))
    monkeypatch.setattr(atomic, "_flush_folder", Mock(side_effect=OSError(number, os.strerror(number))))
    with pytest.raises(InputError, match=rf"^{tmp_path}: no space left to write x \(123,456.8 MB free\); free some "):
        write_bytes(tmp_path / "x", b"content")
    # an error without words of the system
    assert str(unwritable(tmp_path / "x", OSError("odd"))) == f"{tmp_path}/x: cannot be written (odd)"
