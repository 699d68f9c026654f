"""The command `nli train`."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...commands.train_command import TrainingOptions, train_command

if TYPE_CHECKING:
    from ...library.shown import Shown


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
    from ....export.training.nli import train_nli as run

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
