"""Commands that train: a command has its own options and calls a training once; this module adds what all share.

Every such command has --output, the hyperparameters, --seed and --seeds, --limit, --device, --precision, --threads,
--format, --json and -v. A command is a function whose first argument, `setup`, holds them. It returns the result.
"""

import functools
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..choices import Precision
from ..errors import needs_extra
from . import options
from .run_command import PRINTING, command_line, print_result, with_options

if TYPE_CHECKING:
    from ..library.shown import Shown


@dataclass(frozen=True)
class TrainingOptions:
    """The options of all trainings. A hyperparameter that is None is the paper's.

    Attributes:
        output: The folder to write.
        epochs: How often each example is seen.
        batch_size: Examples of a step.
        learning_rate: The largest one.
        weight_decay: Of the optimiser.
        max_length: Largest number of tokens of an example.
        patience: Stop if the score has not risen for so many epochs; None to train all epochs.
        seed: Of all random choices.
        seeds: Train so many times, with this seed and those after it; None for one model in `output` itself.
        limit: Train on so many examples at most.
        save_steps: Steps between two checkpoints within an epoch; None for the default.
        revision: Branch, tag or commit on the hub.
        allow_pickle: Whether to read pickled weights, which can run code.
        device: auto, cpu or cuda.
        precision: auto, fp32 or mixed.
        threads: CPU threads.
        verbose: Whether to print more messages.
        progress: Whether to show messages and progress at all.
        command: The command line, as it is recorded.
    """

    output: Path
    epochs: int | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    weight_decay: float | None = None
    max_length: int | None = None
    patience: int | None = None
    seed: int = 42
    seeds: int | None = None
    limit: int | None = None
    save_steps: int | None = None
    revision: str | None = None
    allow_pickle: bool = False
    device: str = "auto"
    precision: Precision = Precision.AUTO
    threads: int | None = None
    verbose: bool = False
    progress: bool = True
    command: str | None = None

    def hyperparameters(self) -> dict[str, Any]:
        """Those that were given, by their names in `negengine.export.training.settings.Settings`."""
        names = ("epochs", "batch_size", "learning_rate", "weight_decay", "max_length", "patience")
        return {name: value for name, value in asdict(self).items() if name in names and value is not None}


def _option(*names: str, **settings: Any) -> Any:
    return typer.Option(*names, **settings)


_DEFAULT = "(default: as in the paper)"
_SHARED: dict[str, tuple[Any, Any]] = {
    "output": (Annotated[Path, _option("--output", "-o", metavar="DIR", help="The folder to write.")], ...),
    "epochs": (
        Annotated[int | None, _option("--epochs", min=1, metavar="N", help=f"Passes over the data {_DEFAULT}.")],
        None,
    ),
    "batch_size": (
        Annotated[int | None, _option("--batch-size", min=1, metavar="N", help=f"Examples in a batch {_DEFAULT}.")],
        None,
    ),
    "learning_rate": (
        Annotated[float | None, _option("--lr", metavar="RATE", help=f"The highest learning rate {_DEFAULT}.")],
        None,
    ),
    "weight_decay": (
        Annotated[
            float | None, _option("--weight-decay", min=0, metavar="X", help=f"Weight decay of AdamW {_DEFAULT}.")
        ],
        None,
    ),
    "max_length": (
        Annotated[
            int | None,
            _option("--max-length", min=8, metavar="N", help=f"Largest number of tokens in an example {_DEFAULT}."),
        ],
        None,
    ),
    "patience": (
        Annotated[
            int | None,
            _option(
                "--patience",
                min=1,
                metavar="N",
                help="Stop if the score on the dev set does not rise for N epochs, and keep the best epoch "
                "(default: as in the paper).",
            ),
        ],
        None,
    ),
    "seed": (Annotated[int, _option("--seed", min=0, metavar="N", help="Seed for all random choices.")], 42),
    "seeds": (
        Annotated[
            int | None,
            _option(
                "--seeds",
                min=1,
                metavar="N",
                help="Train N times: with --seed, with the seed after it, and so on (default: once).",
            ),
        ],
        None,
    ),
    "limit": (
        Annotated[
            int | None,
            _option("--limit", min=1, metavar="N", help="Train on N examples drawn at random (default: all)."),
        ],
        None,
    ),
    "save_steps": (
        Annotated[
            int | None,
            _option("--save-steps", min=1, metavar="N", help="Steps between two checkpoints (default: 500)."),
        ],
        None,
    ),
    "revision": (
        Annotated[
            str | None,
            _option("--revision", metavar="NAME", help="Branch, tag or commit of MODEL on the hub (default: main)."),
        ],
        None,
    ),
    "allow_pickle": (
        Annotated[bool, _option("--allow-pickle", help="Also read pickled weights, which can run code.")],
        False,
    ),
    "device": (Annotated[str, _option("--device", metavar="DEVICE", help="auto, cpu or cuda.")], "auto"),
    "precision": (
        Annotated[
            Precision, _option("--precision", help="mixed: bf16 or fp16, on a GPU; auto: mixed on a GPU, else fp32.")
        ],
        Precision.AUTO,
    ),
    "threads": (options.Threads, None),
    "verbose": (options.Verbose, False),
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
