"""What is printed: results in every format, never obeyed by a terminal; streams that take little, or nothing."""

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


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


@pytest.fixture
def stdout(monkeypatch):
    return lambda stream: monkeypatch.setattr(sys, "stdout", stream)


def test_nothing_that_is_printed_is_obeyed_by_a_terminal(capsys, stdout):
    show(f"[/b] [red] :smile: {UNSAFE}", "two\nlines")
    say(f"[/b] {UNSAFE}")
    shown = "[/b] [red] :smile: \\x1b]0;title\\x07\\x9b\ntwo\nlines\n", "[/b] \\x1b]0;title\\x07\\x9b\n"
    assert capsys.readouterr() == shown
    document({"name": f"é {UNSAFE}"})
    shown = capsys.readouterr().out
    assert json.loads(shown) == {"name": f"é {UNSAFE}"}
    assert "é" in shown
    assert not set(shown) & {"\x1b", "\x07", "\x9b"}
    show("Passes the test.", NAMES, form="json")
    out, err = capsys.readouterr()
    assert json.loads(out)[0]["rows"] == [{"name": f"[/b] {UNSAFE}"}]
    assert err == "Passes the test.\n"  # the result is the tables alone
    for stream, name in ((io.StringIO(), UNSAFE), (Terminal(), r"\x1b]0;title\x07\x9b")):
        stdout(stream)
        show(NAMES, form="csv")
        assert stream.getvalue() == f"name\n[/b] {name}\n"


@pytest.mark.parametrize(("asked", "columns"), [("", 80), ("40", 40)])
def test_what_is_not_a_terminal_has_80_columns_or_as_many_as_are_asked_for(capsys, monkeypatch, asked, columns):
    monkeypatch.setenv("COLUMNS", asked)
    show(Table("t", pl.DataFrame({"word": ["word " * 40]}), [Column("word", "word")]))
    assert max(len(line) for line in capsys.readouterr().out.splitlines()) == columns


def test_a_stdout_that_is_not_utf8_gets_replacements_and_documents_lose_nothing(stdout):
    stdout(stream := io.TextIOWrapper(io.BytesIO(), encoding="latin-1"))
    show("é ≈", Table("t", pl.DataFrame({"word": ["é 中"]}), [Column("word", "word")]))
    lines = stream.buffer.getvalue().decode("latin-1").splitlines()
    assert lines[0] == "é ?"
    assert "| é ? |" in lines  # the frame is drawn with the characters that there are
    stdout(stream := io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    document({"token": "Ġ中 ≈"})
    assert json.loads(stream.buffer.getvalue()) == {"token": "Ġ中 ≈"}


def test_a_stdout_that_is_closed_or_was_never_there_is_one_line(stdout):
    closed = io.StringIO()
    closed.close()
    for stream in (closed, None):
        stdout(stream)
        for write in (lambda: show("x"), lambda: show(NAMES), lambda: document({})):
            with pytest.raises(InputError, match="stdout"):
                write()


def test_commands_with_a_full_stdout_a_reader_that_has_gone_or_another_encoding(program, mini, small_lexicon):
    for words in (["data", "list"], ["--help"]):
        with FULL.open("w", encoding="utf-8") as full:
            done = program(*words, stdout=full)
        assert (done.status, done.err.count("\n")) == (2, 1)
        assert "No space left on device" in done.err
    reader, writer = os.pipe()
    os.close(reader)
    done = program("data", "list", stdout=writer)
    os.close(writer)
    assert (done.status, done.err) == (0, "")
    done = program("data", "list", encoding="latin-1", env={**os.environ, "PYTHONIOENCODING": "latin-1"})
    assert (done.status, done.err) == (0, "")
    reader, writer = os.pipe()
    os.close(reader)  # as after `| head -1`
    select = ("select", mini.folder, "--lexicon", small_lexicon, "-o", "run", "-v", "--device", "cpu,cpu")
    done = program(*select, stderr=writer)
    os.close(writer)
    assert (done.status, "6. Selected triplets" in done.out) == (0, True)


def test_a_process_without_standard_streams_gets_empty_ones(tmp_path):
    program = (
        "import os; from negengine.engine.cli.console import open_standard_streams; open_standard_streams(); "
        f"file = open({str(tmp_path / 'file')!r}, 'w'); file.write(str(file.fileno() > 2)); file.close()"
    )
    subprocess.run(["sh", "-c", '"$0" -c "$1" <&- >&- 2>&-', sys.executable, program], check=True)
    assert (tmp_path / "file").read_text(encoding="utf-8") == "True"


def test_json_is_one_document_on_stdout_and_nothing_else(mini, small_lexicon, command):
    select = ("select", mini.folder, "--lexicon", small_lexicon, "-o", "run")
    done = command(*select, "--json", "-v")
    document = json.loads(done.out)
    assert (document["run"], document["tested"]) == ("run", 144)
    assert "144 candidates" in done.err
    found = json.loads(command("score", "run", "--json").out)["rates"]
    rates = {row["pattern"]: row["repetition_rate"] for row in found}
    assert (rates["CpTp"], list(rates)) == (100, ["CpTp", "CpTn", "CnTp", "CnTn", "CpTv"])
    done = command(*select)
    assert "6. Selected triplets" in done.out
    written = "run: triplets.parquet, answers.parquet and selection.json are written"
    assert done.out.endswith(f"{written}; next, `negengine score run`\n")
