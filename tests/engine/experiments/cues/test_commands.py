"""The command `cues` as a user sees it, with the list of words and with a detector."""

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
    (tmp_path / "text.txt").write_text("No.\nYou never came.\nIt rained.\nIt rained.\n")

    def invoke(*options):
        return CliRunner().invoke(app, [str(tmp_path / "text.txt"), *map(str, options)], env={"COLUMNS": "200"})

    return invoke


def test_the_list_of_words_writes_no_run_folder(run, tmp_path):
    assert run("--format", "csv").stdout.splitlines() == [
        "text,sentences,negated,share,particle,phrase,affix",
        f"{tmp_path / 'text.txt'},4,2,0.5,0.5,0.0,0.0",
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]


def test_both_detectors_as_csv(run, detector, tmp_path):
    done = run("--detector", detector.folder, "--device", "cpu", "-o", tmp_path / "run", "--format", "csv")
    text, lines = str(tmp_path / "text.txt"), done.stdout.splitlines()
    assert any(f"{text},list of words,4,0.5,0.5,0.0,0.0" in line for line in lines)
    assert any(f"{text},{detector.name},4,0.25,0.25,0.0,0.0" in line for line in lines)


def test_options_of_a_run_belong_to_a_detector_and_that_is_no_model_of_another_task(run, mini):
    for option, value in (("--output", "run"), ("--shard", "1/2"), ("--device", "cpu"), ("--threads", "1")):
        error = run(option, value).exception
        assert isinstance(error, InputError)
        assert str(error) == f"{option} {value}: this option needs a model; add --detector"
    assert "this command needs token-classification" in str(run("--detector", mini.folder).exception)
