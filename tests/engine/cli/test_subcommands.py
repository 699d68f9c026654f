"""Commands that are commands themselves and have subcommands, too."""

from typing import Annotated

import pytest
import typer
from negengine.engine.cli.program import all_commands, with_subcommands
from typer.testing import CliRunner


def judge(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model.")],
    quick: Annotated[bool, typer.Option("--quick", help="Less.")] = False,
) -> None:
    """Judge pairs with a model."""
    typer.echo(f"judge {model} {quick}")


def train(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model.")],
    epochs: Annotated[int, typer.Option("--epochs", help="How often.")] = 3,
) -> None:
    """Train a model that judges pairs."""
    typer.echo(f"train {model} {epochs}")


@pytest.fixture
def program() -> typer.Typer:
    app = typer.Typer(rich_markup_mode=None)
    app.command(cls=with_subcommands({"train": train}))(judge)
    app.command("plain", cls=with_subcommands({}))(train)
    return app


@pytest.fixture
def run(program):
    def invoke(*arguments):
        return CliRunner().invoke(program, arguments)

    return invoke


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        (["judge", "roberta"], "judge roberta False"),
        (["judge", "--quick", "roberta"], "judge roberta True"),
        (["judge", "roberta", "--quick"], "judge roberta True"),
        (["judge", "train", "roberta", "--epochs", "5"], "train roberta 5"),
        (["judge", "./train"], "judge ./train False"),
        (["judge", "--quick", "train"], "judge train True"),
        (["plain", "train"], "train train 3"),
    ],
)
def test_the_first_argument_decides_which_command_runs(run, arguments, printed):
    assert run(*arguments).output.strip() == printed


def test_options_and_help_are_those_of_the_command_that_runs(run):
    assert "No such option: --epochs" in run("judge", "roberta", "--epochs", "5").output
    assert "No such option: --quick" in run("judge", "train", "roberta", "--quick").output
    whole, inner = run("judge", "--help").output, run("judge", "train", "--help").output
    assert "--quick" in whole
    assert "judge train  Train a model that judges pairs." in whole
    assert "Usage: root judge train [OPTIONS]" in inner
    assert "--quick" not in inner


def test_all_commands_are_listed_by_their_full_names(program):
    assert [name for name, _ in all_commands(typer.main.get_command(program))] == ["judge", "judge train", "plain"]
