"""Files are whole or missing, and every error of the disk is one line. Kills are tested with run folders."""

import errno
import os
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from negengine.engine.basics import atomic
from negengine.engine.basics.atomic import make_folder, remove_file, remove_leftovers, unwritable, write_bytes
from negengine.engine.basics.errors import InputError


def test_files_and_then_their_folders_are_flushed_and_what_is_removed_stays_so(tmp_path, open_files, monkeypatch):
    flushed, fsync = [], os.fsync

    def watched(descriptor):
        flushed.append(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    def taken():
        found = [flushed.pop(0) for _ in flushed[:]]
        return [next(path for path in [tmp_path, *tmp_path.rglob("*")] if path.stat().st_ino == one) for one in found]

    monkeypatch.setattr(atomic.os, "fsync", watched)
    opened = open_files()
    write_bytes(tmp_path / "x", b"content")
    assert (tmp_path / "x").read_bytes() == b"content"
    assert taken() == [tmp_path / "x", tmp_path]
    atomic.write_atomically(tmp_path / "y", Path.touch)
    assert taken() == [tmp_path / "y", tmp_path]
    remove_file(tmp_path / "y")
    taken()
    for _ in range(2):  # one that is not there is no error
        remove_file(tmp_path / "x")
    assert taken() == [tmp_path]
    for _ in range(2):
        make_folder(tmp_path / "a" / "b")
    assert set(taken()) == {tmp_path / "a", tmp_path}
    write_bytes(tmp_path / "file", b"of a library", flushed=False)
    assert taken() == []
    atomic.flush_folder(tmp_path)
    assert taken() == [tmp_path / "file", tmp_path]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "file"]
    assert open_files() == opened
    assert atomic.json_bytes({"é": [1]}) == '{\n  "é": [\n    1\n  ]\n}\n'.encode()


def test_temporary_files_lie_beside_the_file_and_they_alone_are_removed(tmp_path, monkeypatch):
    atomic.write_atomically(tmp_path / "x", lambda path: path.write_bytes(path.name.encode()))
    assert (tmp_path / "x").read_bytes().startswith(b".x.")
    for name in (".x.1f2e3d4c.negengine-tmp", "x.negengine-tmp.kept"):
        (tmp_path / name).touch()
    remove_leftovers(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x", "x.negengine-tmp.kept"]
    left = [".a.csv.1f2e3d4c.negengine-tmp", ".a.csv.csv.1f2e3d4c.negengine-tmp", ".b.csv.1f2e3d4c.negengine-tmp"]
    for name in left:
        (tmp_path / name).touch()
    atomic.make_place(tmp_path / "y" / "a.csv")
    (tmp_path / "y").rmdir()
    atomic.make_place(tmp_path / "a.csv")  # what a killed call left of this file
    assert sorted(path.name for path in tmp_path.iterdir())[:2] == left[1:]
    # somebody else has removed it after the folder was listed
    monkeypatch.setattr(Path, "iterdir", lambda path: iter([path / ".x.1f2e.negengine-tmp"]))
    remove_leftovers(tmp_path)


def test_what_the_disk_refuses_is_one_line_and_leaves_no_new_folder_and_takes_none_away(tmp_path, monkeypatch):
    (tmp_path / "own").mkdir()
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path / "own")
    for do, name, reason in [
        (make_folder, "../new/../own/../file/below", "below: not a folder; choose another --output"),
        (make_folder, "../file", "file: not a folder; choose another --output"),
        (make_folder, "../new/below/../../own/../../" + "x" * 300, r"cannot be written \(File name too long\)"),
        (make_folder, "new/" + "x" * 300, r"cannot be written \(File name too long\)"),
        (remove_leftovers, "gone", r"gone: cannot be written \(No such file or directory\)"),
        (remove_file, "../own", r"own: cannot be written \("),
    ]:
        with pytest.raises(InputError, match=reason):
            do(Path(name))
        assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "own"]
        assert not list(Path().iterdir())
    make_folder(Path("../new/../other"))
    assert (tmp_path / "other").is_dir()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_tells_what_is_free_and_what_to_do(tmp_path, monkeypatch, number):
    assert "no space left to write x (0.0 MB free); free some" in str(unwritable(Path("/gone/x"), OSError(number, "")))
    monkeypatch.setattr(atomic.shutil, "disk_usage", lambda path: SimpleNamespace(free=123_456_789_012))
    monkeypatch.setattr(atomic, "flush_names", Mock(side_effect=OSError(number, os.strerror(number))))
    with pytest.raises(InputError, match=rf"^{tmp_path}: no space left to write x \(123,456.8 MB free\); free some "):
        write_bytes(tmp_path / "x", b"content")
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    assert str(unwritable(tmp_path / "x", OSError("odd"))) == f"{tmp_path}/x: cannot be written (odd)"
