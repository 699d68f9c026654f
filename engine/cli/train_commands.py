"""Commands that train, made from their options: `nli train` and `cues train`."""

import inspect
from collections.abc import Callable
from typing import Any

from ..basics.errors import needs_extra
from ..basics.named import load
from ..basics.option import options_of
from ..library.training_options import CueOptions, NliOptions, TrainingOptions
from . import options
from .run_command import PRINTING, command_line, print_result, with_options


def train_command(name: str, declared: Any, train: str) -> Callable[..., None]:
    """The command of a training: `train`, as `module:function`, gets the options and returns what is printed."""
    shared = [parameter.name for parameter in options.parameters(TrainingOptions)]
    fields = options_of(declared)

    def command(*, form: str, as_json: bool, **values: Any) -> None:
        known = {name: field.from_command(values[name]) for name, field in fields.items()}
        given = declared(**known, command=command_line())
        with needs_extra("train", f"{name} train"):
            result = load(train)(given)
        print_result(result, form, as_json, verbose=given.verbose)

    own_first = sorted(options.parameters(declared), key=lambda parameter: parameter.name in shared)
    command.__signature__ = inspect.Signature(own_first)  # type: ignore[attr-defined]
    command.__name__, command.__doc__ = name, declared.__doc__
    return with_options(command, command, PRINTING, skip=0)


train_cues = train_command("cues", CueOptions, "negengine.export.training.cues:train_cues")
train_nli = train_command("nli", NliOptions, "negengine.export.training.nli:train_nli")
