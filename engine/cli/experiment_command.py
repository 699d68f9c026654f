"""The command of an experiment, made from its declaration: its options, those of all run commands, its help."""

import inspect
from pathlib import Path
from typing import Annotated, Any

import typer

from ..basics.option import options_of
from ..experiments.experiment import Experiment
from . import options
from .run_command import Setup, run_command


def experiment_command(experiment: type[Experiment]) -> Any:
    """The function of the command line, as Typer reads it."""
    fields = options_of(experiment)

    def command(setup: Setup, **values: Any) -> Any:
        only_planned = values.pop("plan", False)
        own = {name: field.from_command(values.pop(name)) for name, field in fields.items()}
        if experiment.goes_on_from:
            return experiment.function()(**values, **own, **vars(setup.opening), **setup.run)
        opened = setup.model(values["model"], experiment.task)
        if only_planned:
            return experiment(**own).plan(opened, setup.run)
        return experiment.function()(opened, **own, **setup.run)

    kind = inspect.Parameter
    named = typer.Argument(metavar="MODEL", help=experiment.model_help)
    model: Any = Annotated[str, named] if experiment.model_help else options.Model
    must_be_given = experiment.model_help or any(field.required for field in fields.values())
    first: dict[str, Any] = {} if must_be_given else {"default": "mini"}
    parameters = [kind("setup", kind.POSITIONAL_OR_KEYWORD, annotation=Setup)]
    if experiment.goes_on_from:
        named = typer.Argument(metavar="RUN", help=f"A run folder with a finished {experiment.goes_on_from}.")
        parameters.append(kind("run", kind.POSITIONAL_OR_KEYWORD, annotation=Annotated[Path, named]))
        moved = "The folder of the run's model, if it was moved (default: where it was)."
        model, first = Annotated[str | None, typer.Option(metavar="DIR", help=moved)], {"default": None}
    parameters.append(kind("model", kind.POSITIONAL_OR_KEYWORD, annotation=model, **first))
    parameters += options.parameters(experiment)
    if experiment.has_plan:
        told = typer.Option("--plan", help="Say what the run would do, and about how long it takes; run nothing.")
        parameters.append(kind("plan", kind.POSITIONAL_OR_KEYWORD, annotation=Annotated[bool, told], default=False))
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__name__, command.__module__ = experiment.name, experiment.__module__
    example = f" Example: {experiment.example}" if experiment.example else ""
    command.__doc__ = (
        f"{inspect.cleandoc(experiment.__doc__ or '')}\n\nTo resume a stopped run, run the same command again.{example}"
    )
    return run_command(command)
