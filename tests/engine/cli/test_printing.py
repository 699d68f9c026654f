"""What is printed: one document with --json, tables in every format, and streams that are closed."""

import csv
import io
import json
import os
import subprocess
import sys

import pytest

PROGRAM = (sys.executable, "-m", "negengine.engine.cli")


def test_json_is_one_document_on_stdout_and_nothing_else(mini, small_lexicon, command):
    done = command("select", mini.folder, "--lexicon", small_lexicon, "-o", "run", "--json", "-v")
    document = json.loads(done.out)
    assert (document["run"], document["tested"]) == ("run", 144)
    assert "144 candidates" in done.err
    rates = {
        row["pattern"]: row["repetition_rate"] for row in json.loads(command("score", "run", "--json").out)["rates"]
    }
    assert rates["CpTp"] == 100
    assert set(rates) == {"CpTp", "CpTn", "CnTp", "CnTn", "CpTv"}


def test_tables_and_the_next_command_are_shown(selected_run, mini, small_lexicon, command):
    done = command("select", mini.folder, "--lexicon", small_lexicon, "-o", selected_run)
    assert "6. Selected triplets" in done.out
    written = f"{selected_run}: triplets.parquet, answers.parquet and selection.json are written"
    assert done.out.endswith(f"{written}; next, `negengine score {selected_run}`\n")


def is_csv(text):
    rows = list(csv.reader(io.StringIO(text)))
    return len(rows) > 1 and {len(row) for row in rows} == {len(rows[0])}


FORMATS = {
    "table": lambda text: "━" in text or "─" in text,
    "json": json.loads,
    "csv": is_csv,
    "markdown": lambda text: "|:--" in text or "|--" in text,
    "latex": lambda text: text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == text.count(r"\toprule") > 0,
}


@pytest.mark.parametrize("name", ["select", "score", "compare", "predict", "data list"])
def test_every_table_comes_in_every_format(name, mini, small_lexicon, scored_run, command):
    more = {
        "select": (mini.folder, "--lexicon", small_lexicon, "-o", scored_run),
        "predict": (mini.folder, "She is [MASK].", "--device", "cpu"),
        "data list": (),
    }
    for form, is_right in FORMATS.items():
        done = command(*name.split(), *more.get(name, (scored_run,)), "--format", form)
        assert done.status == 0, done.err
        assert is_right(done.out), form


@pytest.mark.parametrize(
    "text", ["He said [/b] [MASK].", "[bold]She[/bold] [link=x]is[/link] [MASK].", "[unused1] and :smile: [MASK]."]
)
def test_markup_in_a_text_is_shown_and_not_obeyed(text, mini, command):
    done = command("predict", mini.folder, text)
    assert done.status == 0, done.err
    assert " ".join(done.out.split()).startswith(text)


@pytest.mark.parametrize("device", ["cpu", "cpu,cpu"])
def test_a_stderr_whose_reader_has_gone_does_not_stop_a_run(device, mini, small_lexicon, program, tmp_path):
    reader, writer = os.pipe()
    os.close(reader)  # as after `| head -1`
    arguments = ("select", mini.folder, "--lexicon", small_lexicon, "-o", "run", "-v", "--device", device)
    done = program(*arguments, stderr=writer)
    assert done.status == 0
    assert "6. Selected triplets" in done.out
    assert (tmp_path / "run" / "triplets.parquet").is_file()


def test_without_any_stream_a_run_is_done(mini, small_lexicon, tmp_path):
    """As a daemon starts programs: stdin, stdout and stderr are closed. The results can be read from the folder."""
    command = [*PROGRAM, "select", mini.folder, "--lexicon", small_lexicon, "-o", "run"]
    close = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh"]
    done = subprocess.run([*close, *map(str, command)], cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert (tmp_path / "run" / "triplets.parquet").is_file()
