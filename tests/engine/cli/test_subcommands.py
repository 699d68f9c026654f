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


PROGRAM = typer.Typer(rich_markup_mode=None)
PROGRAM.command(cls=with_subcommands({"train": train}))(judge)
PROGRAM.command("plain", cls=with_subcommands({}))(train)


def printed(words):
    return CliRunner().invoke(PROGRAM, words.split()).output


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("judge roberta", "judge roberta False"),
        ("judge roberta --quick", "judge roberta True"),
        ("judge train roberta --epochs 5", "train roberta 5"),
        ("judge ./train", "judge ./train False"),
        ("judge --quick train", "judge train True"),
        ("plain train", "train train 3"),
    ],
)
def test_the_first_argument_decides_which_command_runs(words, wanted):
    assert printed(words).strip() == wanted


def test_options_and_help_are_those_of_the_command_that_runs():
    assert "No such option: --epochs" in printed("judge roberta --epochs 5")
    assert "No such option: --quick" in printed("judge train roberta --quick")
    whole, inner = printed("judge --help"), printed("judge train --help")
    assert "--quick" in whole
    assert "judge train  Train a model that judges pairs." in whole
    assert "Usage: root judge train [OPTIONS]" in inner
    assert "--quick" not in inner
    assert [name for name, _ in all_commands(typer.main.get_command(PROGRAM))] == ["judge", "judge train", "plain"]
