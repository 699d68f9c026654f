"""What is shown is never obeyed by a terminal, and streams that take little, or nothing, are one line."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.cli.console import document, say, show
from negengine.engine.views import Column, Table

FULL = Path("/dev/full")
UNSAFE = "\x1b]0;title\x07\x9b"
NAMES = Table(f"Names {UNSAFE}", pl.DataFrame({"name": [f"[/b] {UNSAFE}"]}), [Column("name", "name")])


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    for name in ("FORCE_COLOR", "NO_COLOR", "COLUMNS", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def stdout(monkeypatch):
    """Put another stream in place of stdout."""

    def put(stream):
        monkeypatch.setattr(sys, "stdout", stream)
        return stream

    return put


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


def encoded(encoding: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding=encoding)


def test_texts_and_lines_beside_the_results_are_shown_as_they_are(capsys):
    show(f"[/b] [red] :smile: {UNSAFE}", "two\nlines")
    assert capsys.readouterr().out == "[/b] [red] :smile: \\x1b]0;title\\x07\\x9b\ntwo\nlines\n"
    say(f"[/b] {UNSAFE}")
    assert capsys.readouterr() == ("", "[/b] \\x1b]0;title\\x07\\x9b\n")


def test_tables_and_documents_have_nothing_that_a_terminal_obeys(capsys, stdout):
    for form in ("table", "markdown", "latex"):
        show(NAMES, form=form)
        shown = capsys.readouterr().out
        assert not set(shown) & {"\x1b", "\x07", "\x9b"}, form
        assert "x1b" in shown
    document({"name": f"é {UNSAFE}"})
    shown = capsys.readouterr().out
    assert json.loads(shown) == {"name": f"é {UNSAFE}"}
    assert "é" in shown
    assert not set(shown) & {"\x1b", "\x07", "\x9b"}
    show("Passes the test.", NAMES, form="json")
    out, err = capsys.readouterr()
    assert json.loads(out)[0]["rows"] == [{"name": f"[/b] {UNSAFE}"}]
    assert err == "Passes the test.\n"  # the result is the tables alone
    file, terminal = stdout(io.StringIO()), Terminal()
    show(NAMES, form="csv")
    stdout(terminal)
    show(NAMES, form="csv")
    assert UNSAFE in file.getvalue()
    assert terminal.getvalue() == "name\n[/b] \\x1b]0;title\\x07\\x9b\n"


@pytest.mark.parametrize(("asked", "columns"), [("", 80), ("40", 40)])
def test_what_is_not_a_terminal_has_80_columns_or_as_many_as_are_asked_for(capsys, monkeypatch, asked, columns):
    monkeypatch.setenv("COLUMNS", asked)
    show(Table("t", pl.DataFrame({"word": ["word " * 40]}), [Column("word", "word")]))
    assert max(len(line) for line in capsys.readouterr().out.splitlines()) == columns


def test_a_stdout_that_is_not_utf8_gets_replacements_and_documents_lose_nothing(stdout):
    stream = stdout(encoded("latin-1"))
    show("é ≈", Table("t", pl.DataFrame({"word": ["é 中"]}), [Column("word", "word")]))
    lines = stream.buffer.getvalue().decode("latin-1").splitlines()
    assert lines[0] == "é ?"
    assert "| é ? |" in lines  # the frame is drawn with the characters that there are
    stream = stdout(encoded("ascii"))
    document({"token": "Ġ中 ≈"})
    assert json.loads(stream.buffer.getvalue()) == {"token": "Ġ中 ≈"}


@pytest.mark.parametrize("write", [lambda: show("x"), lambda: show(NAMES), lambda: document({})])
def test_a_stdout_that_is_full_closed_or_was_never_there_is_one_line(stdout, write):
    with FULL.open("w", encoding="utf-8") as full:
        stdout(full)
        with pytest.raises(InputError, match=r"stdout: No space left on device"):
            write()
    stdout(io.StringIO()).close()
    with pytest.raises(InputError, match="stdout"):
        write()
    stdout(None)
    with pytest.raises(InputError, match="stdout is closed"):
        write()


def negengine(*words: str, **streams) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "negengine.engine.cli", *words]
    return subprocess.run(command, text=True, stderr=subprocess.PIPE, check=False, **streams)


def test_commands_with_a_full_stdout_a_reader_that_has_gone_or_another_encoding():
    for words in (["data", "list"], ["--help"]):
        with FULL.open("w", encoding="utf-8") as full:
            done = negengine(*words, stdout=full)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert "No space left on device" in done.stderr
    reader, writer = os.pipe()
    os.close(reader)
    done = negengine("data", "list", stdout=writer)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = negengine("data", "list", stdout=subprocess.DEVNULL, env=environment)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_process_without_standard_streams_gets_empty_ones(tmp_path):
    program = (
        "import os; from negengine.engine.cli.console import open_standard_streams; open_standard_streams(); "
        f"file = open({str(tmp_path / 'file')!r}, 'w'); file.write(str(file.fileno() > 2)); file.close()"
    )
    subprocess.run(["sh", "-c", '"$0" -c "$1" <&- >&- 2>&-', sys.executable, program], check=True)
    assert (tmp_path / "file").read_text(encoding="utf-8") == "True"
