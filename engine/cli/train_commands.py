"""Commands that train: `nli train` and `cues train`.

A command has its own options and calls a training once. It is a function whose first argument is its `TrainingOptions`;
it returns the result, which is printed here.
"""

import functools
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from enum import StrEnum
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
    threads: Annotated[int | None, _whole("threads", "CPU threads (default: one for each core).")] = None
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


_DEFAULT_ENCODER = "distilbert-base-uncased"


@train_command
def train_cues(
    setup: TrainingOptions,
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE...", help="Marked sentences in the columns of CD-SCO (default: CD-SCO itself)."),
    ] = None,
    encoder: Annotated[
        str, typer.Option(metavar="MODEL", help="The checkpoint to start from: a hub id, a local folder, or mini.")
    ] = _DEFAULT_ENCODER,
    dev: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Marked sentences for the score after each epoch (default: 15 % of FILE)."),
    ] = None,
    test: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="With --evaluate: marked sentences for the test (default: the dev set)."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Folder of CD-SCO (default: where `data get` put it)."),
    ] = None,
    evaluate: Annotated[
        bool, typer.Option("--evaluate", help="Export the detector, and test its export by kind of cue.")
    ] = False,
) -> "Shown":
    """Train a detector of negation cues, for `negengine cues FILE --detector`.

    The default settings are those of Khandelwal and Sawant (2020). To resume a stopped training, run the same command
    again.
    Example: negengine cues train --evaluate -o detector
    """
    from ...export.training.cues import train_cues as train

    return train(
        setup,
        files or (),
        encoder=encoder,
        dev=dev or (),
        test=test or (),
        data=data,
        evaluate=evaluate,
    )


class NliTask(StrEnum):
    """What a classifier learns."""

    RTE = "rte"
    SNLI = "snli"
    MNLI = "mnli"


@train_command
def train_nli(
    options: TrainingOptions,
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="The encoder to start from: a hub id, a local folder, or mini.")
    ],
    task: Annotated[NliTask, typer.Option("--task", help="The task to learn.")],
    data: Annotated[
        Path | None,
        typer.Option(
            "--data", metavar="DIR", help="Folder with train.tsv and dev.tsv of GLUE (default: fetched from the hub)."
        ),
    ] = None,
    negation: Annotated[
        float | None,
        typer.Option(
            "--negation",
            metavar="FRACTION",
            help="Also learn this part of the pairs with negation, such as 0.7; hold the others out (default: none).",
        ),
    ] = None,
    negation_data: Annotated[
        Path | None,
        typer.Option(
            "--negation-data",
            metavar="DIR",
            help="Folder of the pairs with negation (default: where `data get` put them).",
        ),
    ] = None,
    new_pooler: Annotated[
        bool, typer.Option("--new-pooler", help="If MODEL has no pooler, begin with one of random weights.")
    ] = False,
    evaluate: Annotated[
        bool, typer.Option("--evaluate", help="Export and test each classifier; print the figures beside the paper's.")
    ] = False,
) -> "Shown":
    """Train a classifier of text pairs, with or without pairs with negation.

    The result is a checkpoint for `negengine export`. The default settings are those of Hossain and others (2020). With
    --seeds and --negation, each seed trains two classifiers, with and without these pairs, and the two are compared.
    To resume a stopped training, run the same command again.
    Example: negengine nli train bert-base-cased --task rte --data glue/RTE --negation 0.7 -o models/rte
    """
    from ...export.training.nli import train_nli as run

    return run(
        model,
        options,
        task=task,
        data=data,
        negation=negation,
        negation_data=negation_data,
        new_pooler=new_pooler,
        evaluate=evaluate,
    )
