"""The options that all trainings share."""

import inspect
from typing import Annotated

import pytest
import typer
from negengine.engine.basics.errors import InputError
from negengine.engine.cli.train_commands import TrainingOptions, train_command


def train_nothing(options: TrainingOptions, model: Annotated[str, typer.Argument()]) -> None:
    """Train nothing."""
    raise ModuleNotFoundError("No module named 'accelerate'", name="accelerate")


def test_a_missing_extra_is_named_with_the_command():
    command = train_command(train_nothing)
    parameters = inspect.signature(command).parameters
    values = {name: parameter.default for name, parameter in parameters.items()}
    with pytest.raises(InputError, match=r"nothing train needs accelerate: pip install 'negengine\[train\]'"):
        command(**values | {"model": "m", "output": "out", "form": "table"})
