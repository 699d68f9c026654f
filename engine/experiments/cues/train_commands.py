"""The command `cues train`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...commands.train_command import TrainingOptions, train_command

if TYPE_CHECKING:
    from ...library.shown import Shown

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
    from ....export.training.cues import train_cues as train

    return train(
        setup,
        files or (),
        encoder=encoder,
        dev=dev or (),
        test=test or (),
        data=data,
        evaluate=evaluate,
    )
