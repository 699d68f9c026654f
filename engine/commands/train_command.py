"""Commands that train: a command has its own options and calls a training once; this module adds what all share.

A command is a function whose first argument is its `TrainingOptions`. It returns the result, which is printed here.
"""

import functools
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from ..basics.choices import Precision
from ..basics.errors import needs_extra
from . import options
from .run_command import PRINTING, command_line, print_result, with_options

if TYPE_CHECKING:
    from ..library.shown import Shown


def _option(*names: str, metavar: str, help: str, **limits: Any) -> Any:
    return typer.Option(*names, metavar=metavar, help=help, **limits)


def _whole(name: str, help: str, least: int = 1) -> Any:
    return _option(f"--{name}", metavar="N", help=help, min=least)


_DEFAULT = "(default: as in the paper)"
_PATIENCE = f"Stop if the score on the dev set does not rise for N epochs, and keep the best epoch {_DEFAULT}."
_SEEDS = "Train N times: with --seed, with the seed after it, and so on (default: once)."
_LENGTH = f"Largest number of tokens in an example {_DEFAULT}."
_MIXED = "mixed: bf16 or fp16, on a GPU; auto: mixed on a GPU, else fp32."


@dataclass(frozen=True)
class TrainingOptions:
    """The options of all trainings. None stands for the paper's hyperparameter; without `progress` nothing is said."""

    output: Annotated[Path, _option("--output", "-o", metavar="DIR", help="The folder to write.")]
    epochs: Annotated[int | None, _whole("epochs", f"Passes over the data {_DEFAULT}.")] = None
    batch_size: Annotated[int | None, _whole("batch-size", f"Examples in a batch {_DEFAULT}.")] = None
    learning_rate: Annotated[
        float | None, _option("--lr", metavar="RATE", help=f"The highest learning rate {_DEFAULT}.")
    ] = None
    weight_decay: Annotated[
        float | None, _option("--weight-decay", metavar="X", help=f"Weight decay of AdamW {_DEFAULT}.", min=0)
    ] = None
    max_length: Annotated[int | None, _whole("max-length", _LENGTH, least=8)] = None
    patience: Annotated[int | None, _whole("patience", _PATIENCE)] = None
    seed: Annotated[int, _whole("seed", "Seed for all random choices.", least=0)] = 42
    seeds: Annotated[int | None, _whole("seeds", _SEEDS)] = None
    limit: Annotated[int | None, _whole("limit", "Train on N examples drawn at random (default: all).")] = None
    save_steps: Annotated[int | None, _whole("save-steps", "Steps between two checkpoints (default: 500).")] = None
    revision: Annotated[
        str | None,
        _option("--revision", metavar="NAME", help="Branch, tag or commit of MODEL on the hub (default: main)."),
    ] = None
    allow_pickle: Annotated[
        bool, typer.Option("--allow-pickle", help="Also read pickled weights, which can run code.")
    ] = False
    device: Annotated[str, _option("--device", metavar="DEVICE", help="auto, cpu or cuda.")] = "auto"
    precision: Annotated[Precision, typer.Option("--precision", help=_MIXED)] = Precision.AUTO
    threads: options.Threads = None
    verbose: options.Verbose = False
    progress: bool = True
    command: str | None = None


_HINTS = get_type_hints(TrainingOptions, include_extras=True)
_SHARED: dict[str, tuple[Any, Any]] = {
    field.name: (_HINTS[field.name], ... if field.default is MISSING else field.default)
    for field in fields(TrainingOptions)
    if field.name not in {"progress", "command"}  # the library's alone
}


def train_command(function: "Callable[..., Shown]") -> Callable[..., None]:
    """Add the shared options to a command that trains, and print what it returns."""

    @functools.wraps(function)
    def command(*, form: str, as_json: bool, **values: Any) -> None:
        shared = TrainingOptions(**{name: values.pop(name) for name in _SHARED}, command=command_line())
        with needs_extra("train", f"{function.__name__.rpartition('_')[2]} train"):
            result = function(shared, **values)
        print_result(result, form, as_json, verbose=shared.verbose)

    return with_options(command, function, {**_SHARED, **PRINTING}, skip=1)
