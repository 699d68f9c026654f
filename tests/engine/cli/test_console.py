"""What is printed: results in every format, never obeyed by a terminal; streams that take little, or nothing."""

import io
import json
import os
import sys
from pathlib import Path

import polars as pl
import pytest
from negengine.engine.cli.console import document, say, show
from negengine.engine.views import Column, Table

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
    stdout(stream := Terminal())
    show(NAMES, form="csv")
    assert stream.getvalue() == "name\n[/b] \\x1b]0;title\\x07\\x9b\n"


def test_a_stdout_that_is_not_utf8_gets_replacements_and_documents_lose_nothing(stdout):
    stdout(stream := io.TextIOWrapper(io.BytesIO(), encoding="latin-1"))
    show("é ≈", Table("t", pl.DataFrame({"word": ["é 中"]}), [Column("word", "word")]))
    lines = stream.buffer.getvalue().decode("latin-1").splitlines()
    assert lines[0] == "é ?"
    assert "| é ? |" in lines  # the frame is drawn with the characters that there are
    stdout(stream := io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    document({"token": "Ġ中 ≈"})
    assert json.loads(stream.buffer.getvalue()) == {"token": "Ġ中 ≈"}


def test_commands_with_a_full_stdout_or_a_reader_that_has_gone(program, mini, small_lexicon):
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = program("data", "list", stdout=full)
    assert (done.status, done.err.count("\n"), "No space left on device" in done.err) == (2, 1, True)
    reader, writer = os.pipe()
    os.close(reader)
    done = program("data", "list", stdout=writer)
    os.close(writer)
    assert (done.status, done.err) == (0, "")
    reader, writer = os.pipe()
    os.close(reader)  # as after `| head -1`
    select = ("select", mini.folder, "--lexicon", small_lexicon, "-o", "run", "-v")
    done = program(*select, stderr=writer)
    os.close(writer)
    assert (done.status, "6. Selected triplets" in done.out) == (0, True)


def test_json_is_one_document_on_stdout_and_nothing_else(mini, small_lexicon, command):
    select = ("select", mini.folder, "--lexicon", small_lexicon, "-o", "run")
    done = command(*select, "--json", "-v")
    document = json.loads(done.out)
    assert (document["run"], document["tested"], "144 candidates" in done.err) == ("run", 144, True)
    rates = {
        row["pattern"]: row["repetition_rate"] for row in json.loads(command("score", "run", "--json").out)["rates"]
    }
    assert (rates["CpTp"], list(rates)) == (100, ["CpTp", "CpTn", "CnTp", "CnTn", "CpTv"])
    done = command(*select)
    assert "6. Selected triplets" in done.out
    assert done.out.endswith("; next, `negengine score run`\n")
