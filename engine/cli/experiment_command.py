"""The command of an experiment, made from its declaration: its options, those of all run commands, its help."""

import inspect
from pathlib import Path
from typing import Annotated, Any

import typer

from ..basics.option import options_of
from ..experiments.experiment import Experiment
from ..library.model import find_model
from . import options
from .run_command import Setup, run_command

_PLAN = "Say what the run would do, and about how long it takes; run nothing."


def experiment_command(experiment: type[Experiment]) -> Any:
    """The function of the command line, as Typer reads it."""
    fields = options_of(experiment)

    def command(setup: Setup, **values: Any) -> Any:
        only_planned = values.pop("plan", False)
        own = {name: field.from_command(values.pop(name)) for name, field in fields.items()}
        if experiment.goes_on_from:
            return experiment.function()(**values, **own, **vars(setup.opening), **setup.run)
        if experiment.no_model and values["model"] == experiment.no_model:
            setup.refuse_all(f"this option needs a model; add --{experiment.model_option}")
            return experiment(**own).without_model()
        opened = find_model(values["model"], setup.opening, task=experiment.task)  # refuses wrong devices first
        if only_planned:
            return experiment(**own).plan(opened, setup.run)
        return experiment.function()(opened, **own, **setup.run)

    parameters = [options.keyword("setup", Setup), *_model(experiment), *options.parameters(experiment)]
    if experiment.plan is not Experiment.plan:
        parameters.append(options.keyword("plan", Annotated[bool, typer.Option("--plan", help=_PLAN)], False))
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__name__, command.__module__ = experiment.name, experiment.__module__
    example = f" Example: {experiment.example}" if experiment.example else ""
    command.__doc__ = (
        f"{inspect.cleandoc(experiment.__doc__ or '')}\n\nTo resume a stopped run, run the same command again.{example}"
    )
    return run_command(command)


def _model(experiment: type[Experiment]) -> list[inspect.Parameter]:
    """What names the model, or the run that has one."""
    if source := experiment.goes_on_from:
        run = typer.Argument(metavar="RUN", help=f"A run folder in which `{source}` is finished.")
        return [options.keyword("run", Annotated[Path, run]), options.keyword("model", options.MovedModel, None)]
    if name := experiment.model_option:
        named = typer.Option(f"--{name}", metavar=f"{experiment.no_model}|MODEL", help=experiment.model_help)
        return [options.keyword("model", Annotated[str, named], experiment.no_model)]
    if experiment.model_help:
        return [options.keyword("model", Annotated[str, typer.Argument(metavar="MODEL", help=experiment.model_help)])]
    must_be_given = any(field.required for field in options_of(experiment).values())
    return [options.keyword("model", options.Model, inspect.Parameter.empty if must_be_given else "mini")]
