"""The command `cues train`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...commands import options
from ...commands.train_command import TrainingOptions, train_command

if TYPE_CHECKING:
    from ...library.run import Shown

_DEFAULT_ENCODER = "distilbert-base-uncased"


@train_command
def train_cues(
    setup: TrainingOptions,
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FILE]...", help="Marked sentences in the columns of CD-SCO (default: CD-SCO itself)."),
    ] = None,
    encoder: Annotated[
        str, typer.Option(metavar="MODEL", help="The checkpoint to start from: a hub id, a folder, or mini.")
    ] = _DEFAULT_ENCODER,
    dev: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Score on these sentences after each epoch (default: 15 % of all)."),
    ] = None,
    test: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="With --evaluate: the sentences to evaluate on (default: those of dev)."),
    ] = None,
    data: options.Data = None,
    evaluate: Annotated[
        bool, typer.Option("--evaluate", help="Export the detector, and score its export by kind of cue.")
    ] = False,
) -> "Shown":
    """Train a detector of negation cues, for `negengine cues FILE --detector`.

    Run the same command again to go on with a training that was stopped.
    Example: negengine cues train --evaluate -o detector
    """
    from ....training.cues.train import train_cues as train

    return train(
        setup,
        files or (),
        encoder=encoder,
        dev=dev or (),
        test=test or (),
        data=data,
        evaluate=evaluate,
    )
