"""The command: options and choices as a user sees them."""

import json

import pytest
import typer
from negengine.engine.basics.errors import InputError
from negengine.engine.cli.experiment_command import experiment_command
from negengine.engine.experiments.gh22.gh22 import Gh22
from typer.testing import CliRunner


@pytest.fixture(scope="module")
def run():
    app = typer.Typer()
    app.command()(experiment_command(Gh22))

    def invoke(*arguments):
        return CliRunner().invoke(app, [*map(str, arguments)], env={"COLUMNS": "200"})

    return invoke


def test_help_shows_the_choices_and_the_common_options(run):
    text = run("--help").stdout
    for words in ("original|connective|coordinated", "--shard", "--device", "--format", "--ranks"):
        assert words in text


def test_a_run_prints_one_document(run, mini, tmp_path):
    options = ("--pairs", 2, "--ranks", "1,2", "--variant", "original", "--variant", "original", "-o", tmp_path / "run")
    document = json.loads(run(mini.folder, *options, "--json").stdout)
    assert document["run"] == str(tmp_path / "run")
    assert {row["split"].partition("@")[2] for row in document["summary"]} == {"1", "2"}


def test_ranks_that_are_not_numbers_are_refused(run):
    error = run("--ranks", "1,first").exception
    assert isinstance(error, InputError)
    assert "--ranks 1,first: give numbers with commas between" in str(error)
