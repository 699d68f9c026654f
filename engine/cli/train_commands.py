"""Commands that train, made from their options: `nli train` and `cues train`."""

from typing import Any

from ..basics.errors import needs_extra
from ..basics.named import load
from ..basics.option import options_of
from ..library.training_options import CueOptions, NliOptions, TrainingOptions
from .program import Command
from .run_command import PRINTING, command_line, print_result


def train_command(name: str, declared: Any, train: str) -> Command:
    """The command of a training: `train`, as `module:function`, gets the options and returns what is printed."""

    def run(*, form: str, as_json: bool, **values: Any) -> None:
        given = declared(**values, command=command_line())
        with needs_extra("train", f"{name} train"):
            result = load(train)(given)
        print_result(result, form, as_json, verbose=given.verbose)

    own_first = sorted(options_of(declared).values(), key=lambda field: field.name in options_of(TrainingOptions))
    return Command(run, [*own_first, *PRINTING], told=declared.__doc__)


train_cues = train_command("cues", CueOptions, "negengine.export.training.cues:train_cues")
train_nli = train_command("nli", NliOptions, "negengine.export.training.nli:train_nli")
