"""Only regular files are read, and only so many bytes."""

import errno
import os
from pathlib import Path

import pytest
from negengine.engine.errors import InputError
from negengine.engine.files.reading import (
    LargerError,
    MissingFileError,
    exists,
    file_sha256,
    is_file,
    is_folder,
    open_regular,
    read_regular,
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
