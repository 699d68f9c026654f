"""The commands: options and choices as a user sees them."""

import json

import pytest
import typer
from negengine.engine.basics.errors import InputError
from negengine.engine.cli.experiment_command import experiment_command
from negengine.engine.experiments.nli.nli import Nli
from typer.testing import CliRunner

from .conftest import LONGEST


@pytest.fixture(scope="module")
def run():
    app = typer.Typer()
    app.command()(experiment_command(Nli))
    app.callback()(lambda: None)  # one command of a group, so that its name is given

    def invoke(*arguments):
        return CliRunner().invoke(app, [*map(str, arguments)], env={"COLUMNS": "200"})

    return invoke


def test_help_shows_the_choices_and_the_common_options(run):
    text = run("nli", "--help").stdout
    for words in ("RTE|SNLI|MNLI", "--shard", "--device", "--format", "--max-length"):
        assert words in text


def test_a_run_prints_one_document(run, classifiers, data, tmp_path):
    options = ("--data", data, "--source", "RTE", "--original", f"RTE={data / 'dev.tsv'}", "--max-length", LONGEST)
    model = classifiers["three-way"][1].folder
    document = json.loads(run("nli", model, *options, "-o", tmp_path / "run", "--json").stdout)
    assert document["run"] == str(tmp_path / "run")
    assert {(row["dataset"], row["condition"]) for row in document["summary"]} == {("RTE", "original"), ("RTE", "new")}


def test_an_original_set_without_its_source_is_refused(run, classifiers):
    error = run("nli", classifiers["three-way"][1].folder, "--original", "dev.tsv").exception
    assert isinstance(error, InputError)
    assert str(error) == "--original dev.tsv: give SOURCE=FILE, such as RTE=dev.tsv"
