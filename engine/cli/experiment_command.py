"""The commands of an experiment, made from its declaration and from the options of its training."""

import dataclasses
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from ..basics.errors import needs_extra
from ..basics.named import load
from ..basics.option import Argument, Option, OptionField, option_field, options_of
from ..experiments.experiment import Experiment
from ..library.model import find_model
from ..library.training_options import CueOptions, NliOptions, TrainingOptions
from . import options
from .program import Command
from .run_command import PRINTING, Setup, command_line, print_result, run_command

_PLAN = "Say what the run would do, and about how long it takes; run nothing."


def experiment_command(experiment: type[Experiment], inner: Mapping[str, Command]) -> Command:
    """The command of an experiment, with its subcommands."""
    fields = options_of(experiment)

    def run(setup: Setup, **values: Any) -> Any:
        only_planned = values.pop("plan", False)
        own = {name: values.pop(name) for name in fields}
        if experiment.goes_on_from:
            return experiment.function()(**values, **own, **vars(setup.opening), **setup.run)
        if experiment.no_model and values["model"] == experiment.no_model:
            setup.refuse_all(f"this option needs a model; add --{experiment.model_option}")
            return experiment(**own).without_model()
        opened = find_model(values["model"], setup.opening, task=experiment.task)  # refuses wrong devices first
        if only_planned:
            return experiment(**own).plan(opened, setup.run)
        return experiment.function()(opened, **own, **setup.run)

    given = [*_model(experiment), *fields.values()]
    if experiment.plan is not Experiment.plan:
        given.append(option_field("plan", Annotated[bool, Option(_PLAN)], False))
    example = f" Example: {experiment.example}" if experiment.example else ""
    told = (
        f"{inspect.cleandoc(experiment.__doc__ or '')}\n\nTo resume a stopped run, run the same command again.{example}"
    )
    own = "runs/MODEL" if experiment.is_main else f"runs/MODEL-{experiment.name}"
    folder = "the RUN" if experiment.goes_on_from else own
    return run_command(run, given, folder=folder, mixes=experiment.mixes, told=told, inner=inner)


def _model(experiment: type[Experiment]) -> list[OptionField]:
    """What names the model, or the run that has one."""
    if source := experiment.goes_on_from:
        run = Argument(f"A run folder in which `{source}` is finished.", "RUN")
        return [option_field("run", Annotated[Path, run]), option_field("model", options.MovedModel, None)]
    if name := experiment.model_option:
        named = Option(experiment.model_help, f"{experiment.no_model}|MODEL", flags=(f"--{name}",))
        return [option_field("model", Annotated[str, named], experiment.no_model)]
    if experiment.model_help:
        return [option_field("model", Annotated[str, Argument(experiment.model_help, "MODEL")])]
    must_be_given = any(field.required for field in options_of(experiment).values())
    return [option_field("model", options.Model, dataclasses.MISSING if must_be_given else "mini")]


def train_command(name: str, declared: Any, train: str) -> Command:
    """The command of a training: `train`, as `module:function`, gets the options and returns what is printed."""

    def run(*, form: str, as_json: bool, **values: Any) -> None:
        given = declared(**values, command=command_line())
        with needs_extra("train", f"{name} train"):
            result = load(train)(given)
        print_result(result, form, as_json, verbose=given.verbose)

    own_first = sorted(options_of(declared).values(), key=lambda field: field.name in options_of(TrainingOptions))
    return Command(run, [*own_first, *PRINTING], told=declared.__doc__)


TRAININGS = {
    "cues": train_command("cues", CueOptions, "negengine.export.training.cues:train_cues"),
    "nli": train_command("nli", NliOptions, "negengine.export.training.nli:train_nli"),
}
"""Experiment → its subcommand `train`."""
