"""What is printed: one document with --json, tables in every format, and streams that are full, closed or not UTF-8."""

import csv
import io
import json
import os
import subprocess
import sys

import pytest

FORMATS = ["table", "json", "csv", "markdown", "latex"]


def test_json_is_one_document_on_stdout_and_nothing_else(mini, small_lexicon, command):
    done = command("select", mini.folder, "--lexicon", small_lexicon, "-o", "run", "--json", "-v")
    document = json.loads(done.out)
    assert document["run"] == "run"
    assert document["tested"] == 144
    assert "144 candidates" in done.err
    scored = command("score", "run", "--json")
    rates = {row["pattern"]: row["repetition_rate"] for row in json.loads(scored.out)["rates"]}
    assert rates["CpTp"] == 100
    assert set(rates) == {"CpTp", "CpTn", "CnTp", "CnTn", "CpTv"}


def test_tables_and_the_next_command_are_shown(selected_run, mini, small_lexicon, command):
    done = command("select", mini.folder, "--lexicon", small_lexicon, "-o", selected_run)
    assert "6. Selected triplets" in done.out
    written = f"{selected_run}: triplets.parquet, answers.parquet and selection.json are written"
    assert done.out.endswith(f"{written}; next, `negengine score {selected_run}`\n")


def arguments(name, mini, lexicon, run):
    return {
        "select": ("select", mini.folder, "--lexicon", lexicon, "-o", run),
        "score": ("score", run),
        "compare": ("compare", run),
        "predict": ("predict", mini.folder, "She is [MASK].", "--device", "cpu"),
        "data list": ("data", "list"),
    }[name]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", ["select", "score", "compare", "predict", "data list"])
def test_every_table_comes_in_every_format(name, form, mini, small_lexicon, scored_run, command):
    done = command(*arguments(name, mini, small_lexicon, scored_run), "--format", form)
    assert done.status == 0, done.err
    if form == "json":
        json.loads(done.out)
    elif form == "csv":
        rows = list(csv.reader(io.StringIO(done.out)))
        assert len(rows) > 1
        assert {len(row) for row in rows} == {len(rows[0])}
    elif form == "markdown":
        assert "|:--" in done.out.replace("-", "--") or "|---" in done.out
    elif form == "latex":
        assert r"\toprule" in done.out
        assert done.out.count(r"\begin{tabular}") == done.out.count(r"\end{tabular}") > 0
    else:
        assert "━" in done.out or "─" in done.out


def test_predict_shows_what_it_was_asked(mini, command):
    text = "Jessica is a dancer who likes to smoke. She is happy to [MASK]."
    ((prediction),) = json.loads(command("predict", mini.folder, text, "--top", 3, "--json").out)
    assert prediction["text"] == text
    chances = [item["probability"] for item in prediction["top"]]
    assert len(chances) == 3
    assert chances == sorted(chances, reverse=True)
    assert 0 < sum(chances) <= 1


@pytest.mark.parametrize(
    "text", ["He said [/b] [MASK].", "[bold]She[/bold] [link=x]is[/link] [MASK].", "[unused1] and :smile: [MASK]."]
)
def test_markup_in_a_text_is_shown_and_not_obeyed(text, mini, command):
    done = command("predict", mini.folder, text)
    assert done.status == 0, done.err
    assert " ".join(done.out.split()).startswith(text)


# ---------------------------------------------------------------- streams


def closed_pipe():
    """The writing end of a pipe whose reader has gone, as after `| head -1`."""
    reader, writer = os.pipe()
    os.close(reader)
    return writer


@pytest.mark.parametrize("device", ["cpu", "cpu,cpu"])
def test_a_stderr_whose_reader_has_gone_does_not_stop_a_run(device, mini, small_lexicon, program, tmp_path):
    done = program(
        "select", mini.folder, "--lexicon", small_lexicon, "-o", "run", "-v", "--device", device, stderr=closed_pipe()
    )
    assert done.status == 0
    assert "6. Selected triplets" in done.out
    assert (tmp_path / "run" / "triplets.parquet").is_file()


@pytest.mark.skipif(os.name == "nt", reason="closes streams as a POSIX shell does")
def test_without_any_stream_a_run_is_done(mini, small_lexicon, tmp_path):
    """As a daemon starts programs: stdin, stdout and stderr are closed. The results can be read from the folder."""
    command = [
        sys.executable,
        "-m",
        "negengine.engine.cli",
        "select",
        mini.folder,
        "--lexicon",
        small_lexicon,
        "-o",
        "run",
    ]
    close = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh"]
    done = subprocess.run([*close, *map(str, command)], cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert (tmp_path / "run" / "triplets.parquet").is_file()
