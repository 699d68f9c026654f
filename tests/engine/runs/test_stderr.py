import errno
import io
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from negengine.engine.runs.stderr import Stderr

FULL = Path("/dev/full")


class Broken(io.StringIO):
    def write(self, _):
        raise OSError(errno.EIO, "Input/output error")


def test_a_stream_a_file_and_by_default_stderr_get_the_text_at_once(tmp_path, capsys):
    stream = io.StringIO()
    Stderr(stream).write("one line\n")
    Stderr().write("one line\n")
    assert (stream.getvalue(), *capsys.readouterr()) == ("one line\n", "", "one line\n")
    with (tmp_path / "log").open("w", encoding="utf-8") as log:
        Stderr(log).write("naïve\n" * 1000)
        assert (tmp_path / "log").read_text(encoding="utf-8") == "naïve\n" * 1000


def test_what_the_encoding_lacks_is_escaped(tmp_path):
    with (tmp_path / "log").open("w", encoding="latin-1") as log:
        Stderr(log).write("≈ é\n")
    assert (tmp_path / "log").read_bytes() == b"\\u2248 \xe9\n"


def test_a_stream_that_is_broken_closed_or_never_was_takes_everything(tmp_path, monkeypatch):
    log = (tmp_path / "log").open("w", encoding="utf-8")
    closed = Stderr(log)
    log.close()
    monkeypatch.setattr(sys, "stderr", None)
    for stderr in (Stderr(Broken()), closed, Stderr()):
        assert stderr.write("lost") == 4
        assert not stderr.isatty()


def test_a_pipe_whose_reader_has_stopped_or_gone_does_not_make_the_run_wait():
    reader, writer = os.pipe()
    with os.fdopen(writer, "w", encoding="utf-8") as target:
        with os.fdopen(reader, "rb", buffering=0) as source:
            stderr = Stderr(target, patience=0)
            for _ in range(20):
                stderr.write("x" * 100_000)  # more than any pipe holds; would block for ever
            os.set_blocking(reader, False)
            assert set(source.read()) == {ord("x")}
            stderr.write("again\n")
            assert source.read().endswith(b"again\n")
        assert stderr.write("lost") == 4


def test_lines_of_several_threads_stay_whole(tmp_path):
    with (tmp_path / "log").open("w", encoding="utf-8") as log:
        stderr = Stderr(log)
        with ThreadPoolExecutor(3) as threads:
            written = threads.map(stderr.write, [letter * 20_000 + "\n" for _ in range(20) for letter in "abc"])
        assert set(written) == {20_001}
    lines = (tmp_path / "log").read_text(encoding="utf-8").splitlines()
    assert sorted(lines) == sorted(letter * 20_000 for letter in "abc" for _ in range(20))


def test_a_full_disk_behind_stderr_does_not_change_the_exit_status():
    # Python keeps what it could not write, fails again at the end, and exits with 120.
    program = "from negengine.engine.runs.stderr import Stderr; Stderr().write('lost'); print('done')"
    with FULL.open("w", encoding="utf-8") as full:
        done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=full, check=False)
    assert (done.returncode, done.stdout) == (0, b"done\n")
