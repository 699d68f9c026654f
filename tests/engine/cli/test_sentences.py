"""`negengine show`: formats, files, and what is refused."""

import io
import json

import negengine as ng
import polars as pl
import pytest


@pytest.fixture(scope="module")
def sentences(scored_run):
    return ng.open(scored_run).sentences()


def test_a_table_of_some_sentences_is_shown(command, scored_run, sentences):
    done = command("show", scored_run, "--pattern", "CpTn")
    assert done.status == 0
    assert "condition CpTn" in done.out
    assert f"20 of {len(sentences.filter(condition='CpTn'))} sentences" in done.out


def test_csv_and_json_have_all_sentences(command, scored_run, sentences):
    table = pl.read_csv(io.StringIO(command("show", scored_run, "--format", "csv").out))
    assert table.select("item", "condition", "sentence").equals(sentences.select("item", "condition", "sentence"))
    document = json.loads(command("show", scored_run, "--json").out)
    assert [row["sentence"] for row in document["sentences"]] == sentences["sentence"].to_list()
    [document] = json.loads(command("show", scored_run, "--format", "json").out)
    assert len(document["rows"]) == len(sentences)


def test_a_sample_is_drawn_by_its_seed(command, scored_run):
    def draw(seed):
        return command("show", scored_run, "--sample", 5, "--seed", seed, "--format", "csv").out

    assert len(draw(1).splitlines()) == 6
    assert draw(1) == draw(1) != draw(2)


def test_a_file_is_written_and_told(command, scored_run, sentences, tmp_path):
    done = command("show", scored_run, "-o", "all.parquet")
    assert done.out == f"all.parquet: {len(sentences)} sentences of {scored_run}\n"
    assert pl.read_parquet(tmp_path / "all.parquet").equals(sentences)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--format", "csv", "-o", "x.csv"], "--output and --format csv: give one of them"),
        (["-o", "x.txt"], "the name must end in"),
        (["--pattern", "cptn"], "did you mean 'CpTn'"),
        (["--where", "name"], "give COLUMN=VALUE"),
    ],
)
def test_what_cannot_be_shown_is_refused_in_one_line(command, scored_run, arguments, said, tmp_path):
    done = command("show", scored_run, *arguments)
    assert (done.status, done.out, len(done.err.splitlines())) == (2, "", 1)
    assert said in done.err
    assert not list(tmp_path.iterdir())
