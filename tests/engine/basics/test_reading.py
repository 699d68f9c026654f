"""Files, folders and JSON from elsewhere: read with bounds, or refused in one line."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from negengine.engine.basics.errors import InputError
from negengine.engine.basics.reading import (
    DEEPEST,
    LargerError,
    MissingFileError,
    exists,
    file_sha256,
    files_below,
    is_file,
    is_folder,
    open_regular,
    parse_json,
    paths_in,
    read_regular,
    refuse_few_open_files,
)


@pytest.fixture(params=[lambda path: read_regular(path, 100), file_sha256, lambda path: open_regular(path).close()])
def read(request):
    return request.param


def test_a_file_is_read(tmp_path):
    (tmp_path / "x").write_bytes(b"\r\n\x1a\xff")
    assert read_regular(tmp_path / "x", 4) == b"\r\n\x1a\xff"


def test_a_larger_file_is_refused_after_the_bytes_that_it_may_have(tmp_path):
    with (tmp_path / "x").open("wb") as stream:
        stream.truncate(2**42)
    with pytest.raises(LargerError, match=r"x: larger than 1,000 bytes; give a smaller one$"):
        read_regular(tmp_path / "x", 1_000, "give a smaller one")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
def test_a_pipe_is_not_waited_for(tmp_path, read):
    os.mkfifo(tmp_path / "x")
    with pytest.raises(InputError, match=r"x: cannot be read \(it is a pipe, not a file\)"):
        read(tmp_path / "x")


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no devices")
@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null"])
def test_a_device_is_not_read(device, read):
    with pytest.raises(InputError, match=rf"^{device}: cannot be read \(it is a device, not a file\)$"):
        read(Path(device))


@pytest.mark.skipif(not Path("/dev/stdin").exists(), reason="no name for the standard input")
def test_the_standard_input_is_not_read(read):
    """It may be a pipe, a device or a regular file; pytest gives the device that is always empty."""
    with pytest.raises(InputError, match=r"^/dev/stdin: cannot be read"):
        read(Path("/dev/stdin"))


def test_a_folder_is_not_a_file(tmp_path, read):
    with pytest.raises(InputError, match=r"cannot be read \((it is a folder, not a file|Permission denied)\)"):
        read(tmp_path)


@pytest.mark.parametrize("name", ["x", "file/x"])
def test_a_missing_file_is_told_apart(tmp_path, read, name):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(MissingFileError, match="No such file or directory"):
        read(tmp_path / name)


@pytest.mark.parametrize("name", ["x\0y", "x" * 5_000, "loop"])
def test_names_that_no_file_has_are_one_line(tmp_path, read, name):
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(InputError, match="cannot be read"):
        read(tmp_path / name)


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="no file whose reading fails")
@pytest.mark.parametrize("read", [lambda path: read_regular(path, 100, "mend the disk"), file_sha256])
def test_a_disk_that_fails_is_one_line(read):
    """Nothing is at the address 0 of a process."""
    with pytest.raises(InputError, match=r"^/proc/self/mem: cannot be read \(Input/output error\)"):
        read(Path("/proc/self/mem"))


def test_a_file_that_does_not_tell_its_kind_is_one_line_and_closed(tmp_path, monkeypatch):
    (tmp_path / "x").write_bytes(b"")
    asked = []

    def fail(descriptor):
        asked.append(descriptor)
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fstat", fail)
        with pytest.raises(InputError, match=r"x: cannot be read \(Input/output error\); look at it$"):
            open_regular(tmp_path / "x", "look at it")
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(asked[0])


REFUSED = {
    "missing": "cannot be read (No such file or directory)",
    "folder": "cannot be read (it is a folder, not a file)",
    "loop": "cannot be read (Too many levels of symbolic links)",
    "large": "larger than 3 bytes",
}


@pytest.mark.parametrize(("hint", "end"), [("", ""), ("give another one", "; give another one")])
@pytest.mark.parametrize("name", REFUSED)
def test_the_hint_ends_the_line_and_nothing_stays_open(tmp_path, name, hint, end):
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "large").write_bytes(b"1234")
    before = open_files()
    with pytest.raises(InputError) as caught:
        read_regular(tmp_path / name, 3, hint)
    assert str(caught.value) == f"{tmp_path / name}: {REFUSED[name]}{end}"
    assert open_files() == before


def open_files() -> int:
    """How many files this process has open; 0 where the system does not tell."""
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.exists() else 0


def test_what_a_name_stands_for(tmp_path):
    (tmp_path / "file").touch()
    assert [kind(tmp_path / "file") for kind in (is_file, is_folder, exists)] == [True, False, True]
    assert [kind(tmp_path) for kind in (is_file, is_folder, exists)] == [False, True, True]
    assert [kind(tmp_path / "a\0b") for kind in (is_file, is_folder, exists)] == [False] * 3


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


pytest.importorskip("resource")

NEEDED = 64

LIMITED = """
import resource, sys
from negengine.engine.basics.errors import InputError
from negengine.engine.basics.reading import refuse_few_open_files

resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
try:
    refuse_few_open_files()
except InputError as error:
    sys.exit(str(error))
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def limited(soft: int, hard: int) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", LIMITED.format(soft=soft, hard=hard)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("soft", "after"), [(20, NEEDED), (NEEDED, NEEDED), (100, 100)])
def test_a_limit_that_can_be_raised_is_raised_as_far_as_needed(soft, after):
    assert limited(soft, 200).stdout.split() == [str(after), "200"]


def test_a_limit_that_cannot_be_raised_is_refused_in_one_line():
    done = limited(20, 20)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"this process may have 20 files open, and a run needs {NEEDED}: raise the limit")


def test_where_there_is_no_such_limit_nothing_is_refused(monkeypatch):
    """As on Windows."""
    monkeypatch.setitem(sys.modules, "resource", None)
    refuse_few_open_files(10**9)


def test_no_limit_at_all_is_enough(monkeypatch):
    import resource

    monkeypatch.setattr(resource, "getrlimit", lambda kind: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", None)
    refuse_few_open_files()


def test_a_limit_without_an_upper_end_is_raised(monkeypatch):
    import resource

    asked = []
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (20, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", lambda kind, limits: asked.append(limits))
    refuse_few_open_files()
    assert asked == [(NEEDED, resource.RLIM_INFINITY)]


def test_an_upper_end_that_is_just_enough_is_enough():
    assert limited(20, NEEDED).stdout.split() == [str(NEEDED)] * 2
    assert limited(20, NEEDED - 1).returncode == 1


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
