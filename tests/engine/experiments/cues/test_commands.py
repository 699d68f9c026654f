"""The command `cues` as a user sees it, with the list of words and with a detector."""

import json

import pytest
import typer
from negengine.engine.basics.errors import InputError
from negengine.engine.cli.experiment_command import experiment_command
from negengine.engine.experiments.cues.cues import Cues
from typer.testing import CliRunner


@pytest.fixture
def run(tmp_path):
    app = typer.Typer()
    app.command()(experiment_command(Cues))
    (tmp_path / "text.txt").write_text("I do not know, no. It is raining.\n\nNobody came.\nI am unhappy\nYou swim\n")

    def invoke(*options):
        return CliRunner().invoke(app, [str(tmp_path / "text.txt"), *map(str, options)], env={"COLUMNS": "200"})

    return invoke


def test_the_list_of_words_writes_no_run_folder(run, tmp_path):
    """Five sentences: two have particles (one of them twice), one an affix, two nothing: 3 of 5."""
    text = str(tmp_path / "text.txt")
    assert run("--format", "csv").stdout.splitlines()[1:] == [f"{text},5,3,0.6,0.4,0.0,0.2"]
    (found,) = json.loads(run("--json").stdout)
    assert (found["share"], found["by_kind"]) == (0.6, {"particle": 2, "phrase": 0, "affix": 1})
    assert found["cues"] == {"no": 1, "nobody": 1, "not": 1, "unhappy": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]


def test_options_of_a_run_belong_to_a_detector_and_that_is_no_model_of_another_task(run, mini):
    for option, value in (("--output", "run"), ("--shard", "1/2"), ("--device", "cpu"), ("--threads", "1")):
        error = run(option, value).exception
        assert isinstance(error, InputError)
        assert str(error) == f"{option} {value}: this option needs a model; add --detector"
    assert "this command needs token-classification" in str(run("--detector", mini.folder).exception)
