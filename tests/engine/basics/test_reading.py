"""Files, folders and JSON from elsewhere: read with bounds, or refused in one line."""

import errno
import os
import sys
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest
from negengine.engine.basics import reading
from negengine.engine.basics.errors import InputError
from negengine.engine.basics.reading import LargerError, MissingFileError, files_below, parse_json, paths_in

READERS = [partial(reading.read_regular, most=100), reading.file_sha256, lambda own: reading.open_regular(own).close()]


@pytest.mark.parametrize("read", READERS)
def test_what_is_no_file_is_told_in_one_line_and_nothing_stays_open(tmp_path, open_files, read):
    """Nobody writes into the pipe: it is not waited for. The standard input may be a pipe, a device or a file."""
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe")
    before = open_files()
    for name, reason in {
        ".": "it is a folder, not a file",
        "pipe": "it is a pipe, not a file",
        "/dev/zero": "it is a device, not a file",
        "/dev/stdin": ".*",
        "x\0y": ".*",
        "x" * 5_000: "File name too long",
        "loop": "Too many levels of symbolic links",
        "missing": "No such file or directory",
        "file/below": "No such file or directory",
    }.items():
        kind = MissingFileError if reason.startswith("No such") else InputError
        with pytest.raises(kind, match=rf"^/[^\n]*: cannot be read \({reason}\)$"):
            read(tmp_path / name)
    assert open_files() == before


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="no file whose reading fails")
def test_a_disk_that_fails_is_one_line_and_its_file_is_closed(tmp_path, open_files, monkeypatch):
    for read in READERS[:2]:
        with pytest.raises(InputError, match=r"^/proc/self/mem: cannot be read \(Input/output error\)"):
            read(Path("/proc/self/mem"))
    (tmp_path / "x").write_bytes(b"")
    before = open_files()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fstat", Mock(side_effect=OSError(errno.EIO, "Input/output error")))
        with pytest.raises(InputError, match=r"x: cannot be read \(Input/output error\); look at it$"):
            reading.open_regular(tmp_path / "x", "look at it")
    assert open_files() == before


@pytest.mark.parametrize("hint", ["", "give another one"])
def test_a_file_is_read_up_to_the_bytes_that_it_may_have_and_the_hint_ends_the_line(tmp_path, hint):
    (tmp_path / "x").write_bytes(b"\r\n\x1a\xff")
    assert reading.read_regular(tmp_path / "x", 4, hint) == b"\r\n\x1a\xff"
    with (tmp_path / "x").open("wb") as stream:
        stream.truncate(2**42)
    for name, reason in {"x": "larger than 1,000 bytes", "none": "cannot be read (No such file or directory)"}.items():
        with pytest.raises(LargerError if name == "x" else MissingFileError) as caught:
            reading.read_regular(tmp_path / name, 1_000, hint)
        assert str(caught.value) == f"{tmp_path / name}: {reason}{'; ' if hint else ''}{hint}"


def test_entries_match_by_name_and_are_sorted_and_a_folder_that_cannot_be_listed_is_named(tmp_path, monkeypatch):
    folder = tmp_path
    (folder / "below").mkdir()
    for name in ("b.txt", "a.txt", "c.TXT", "below/d.txt"):
        (folder / name).touch()
    assert [path.name for path in paths_in(folder, "*.txt")] == ["a.txt", "b.txt"]
    assert [path.name for path in files_below(folder, "*.txt")] == ["a.txt", "b.txt", "d.txt"]
    assert [path.name for path in paths_in(folder)] == ["a.txt", "b.txt", "below", "c.TXT"]
    for name in ("missing", "a.txt"):
        assert paths_in(folder / name) == files_below(folder / name) == []
    with pytest.raises(InputError, match="cannot be read"):
        paths_in(folder / "a\0b")

    def listed(whole, path):
        if os.fspath(path).endswith(end):
            raise OSError(error, os.strerror(error), os.fspath(path))
        return whole(path)

    for whole in (os.scandir, os.listdir):
        monkeypatch.setattr(os, whole.__name__, partial(listed, whole))
    error = errno.EACCES
    for of, end in ((paths_in, ""), (files_below, ""), (files_below, "below")):
        with pytest.raises(InputError, match=rf"^{folder / end}: cannot be read \(Permission denied\)$"):
            of(folder)
    error = errno.ENOENT  # it has just been removed
    assert [path.name for path in files_below(folder)] == ["a.txt", "b.txt", "c.TXT"]
    monkeypatch.setattr(os, "walk", lambda folder, onerror: [(str(folder), [], [f"{n}.txt" for n in range(100_001)])])
    with pytest.raises(InputError, match=r": more than 100,000 files in it; give the folder of the data alone$"):
        files_below(folder)


def test_a_limit_is_raised_as_far_as_needed_or_refused_in_one_line(monkeypatch):
    resource = pytest.importorskip("resource")
    asked, endless = [], resource.RLIM_INFINITY
    monkeypatch.setattr(resource, "setrlimit", lambda kind, limits: asked.append(limits))
    for limits in ((20, 200), (64, 200), (100, 200), (20, 64), (endless, endless), (20, endless)):
        monkeypatch.setattr(resource, "getrlimit", lambda kind, limits=limits: limits)
        reading.refuse_few_open_files()
    assert asked == [(64, 200), (64, 64), (64, endless)]
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (20, 63))
    with pytest.raises(InputError, match=r"^this process may have 63 files open, and a run needs 64: raise the limit"):
        reading.refuse_few_open_files()
    monkeypatch.setitem(sys.modules, "resource", None)  # as on Windows
    reading.refuse_few_open_files(10**9)


def test_lists_and_objects_in_too_many_levels_are_one_line():
    for text in ("[" * 100_000, '[{"a":' * 50_000):
        with pytest.raises(InputError, match=r"^f:1: lists or objects in too many levels; give plain values"):
            parse_json(text, "f:1")


NOT_TEXT = {r'"\u0000"': 0, r'{"\u0000": 1}': 0, r'["a", {"b": "\ud800"}]': 0xD800, r'["b", "a\u0007\u0008"]': 7}
NOT_JSON = dict.fromkeys(["", "{", "[1,]", "9" * 10_000, "nul"])


@pytest.mark.parametrize(("text", "odd"), [*NOT_TEXT.items(), *NOT_JSON.items()], ids=range(9))
def test_what_is_not_json_or_not_text_is_one_line(text, odd):
    reason = r"not JSON \(" if odd is None else rf"the character U\+{odd:04X} in a string is not text; remove it$"
    with pytest.raises(InputError, match=f"^f:1: {reason}"):
        parse_json(text, "f:1")
