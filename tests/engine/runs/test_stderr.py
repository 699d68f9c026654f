import io
import os
from concurrent.futures import ThreadPoolExecutor

from negengine.engine.runs.stderr import Stderr


def test_a_stream_a_file_and_by_default_stderr_get_the_text_at_once(tmp_path, capsys):
    stream = io.StringIO()
    Stderr(stream).write("one line\n")
    Stderr().write("one line\n")
    assert (stream.getvalue(), *capsys.readouterr()) == ("one line\n", "", "one line\n")
    with (tmp_path / "log").open("w", encoding="latin-1") as log:
        Stderr(log).write("≈ é\n" * 1000)  # what the encoding lacks is escaped
        assert (tmp_path / "log").read_bytes() == b"\\u2248 \xe9\n" * 1000


def test_a_pipe_whose_reader_has_stopped_or_gone_does_not_make_the_run_wait():
    reader, writer = os.pipe()
    with os.fdopen(writer, "w", encoding="utf-8") as target:
        with os.fdopen(reader, "rb", buffering=0) as source:
            stderr = Stderr(target)
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
